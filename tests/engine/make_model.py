"""Make a tiny model with random weights that an engine loads without a network. Run with the engine's own Python.

    make_model.py FOLDER [TOKENIZER_FOLDER]

Tokenizer and chat template come from TOKENIZER_FOLDER; without one, a byte-level BPE of 2,048 tokens is trained on
the sources of the standard library. The weights (Qwen2 shape, two layers of width 64) are drawn with a fixed seed.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "special_tokens_map.json")
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

TEMPLATE = """\
{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n' }}
{%- for tool in tools %}{{- tool | tojson }}{{- '\\n' }}{%- endfor %}{{- '<|im_end|>\\n' }}{%- endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""


def standard_library_sources() -> Iterator[str]:
    folder = Path(json.__file__).parents[1]
    for path in sorted(folder.glob("*.py"))[:150]:
        yield path.read_text(encoding="utf-8", errors="ignore")


def train_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2048,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(standard_library_sources(), trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "additional_special_tokens": ["<|im_start|>"],
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def end_token(folder: Path, vocabulary: dict[str, int]) -> int:
    named = json.loads((folder / "tokenizer_config.json").read_text()).get("eos_token") or SPECIAL[2]
    return vocabulary[named if isinstance(named, str) else named["content"]]


def draw_weights(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer
    from transformers import Qwen2Config, Qwen2ForCausalLM

    vocabulary = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab(with_added_tokens=True)
    config = Qwen2Config(
        vocab_size=-(-(max(vocabulary.values()) + 1) // 64) * 64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=8192,
        bos_token_id=None,
        eos_token_id=end_token(folder, vocabulary),
        pad_token_id=0,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    Qwen2ForCausalLM(config).to(torch.bfloat16).save_pretrained(str(folder))


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) > 2:
        for name in TOKENIZER_FILES:
            source = Path(sys.argv[2]) / name
            if source.exists():
                shutil.copyfile(source, folder / name)
    else:
        train_tokenizer(folder)
    draw_weights(folder)


if __name__ == "__main__":
    main()
