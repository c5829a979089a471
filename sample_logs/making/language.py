"""The model folder of the samples: a byte-level BPE trained on the sample texts, a chat template, a configuration.

There are no weights. The folder holds what is needed to turn requests into token ids and tokens into bytes of KV cache.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Template
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

VOCABULARY_SIZE = 4096
CONTROL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKER_TOKENS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
WORD_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

CONFIGURATION: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": VOCABULARY_SIZE,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "torch_dtype": "bfloat16",
    "bos_token_id": None,
    "eos_token_id": VOCABULARY_SIZE - len(MARKER_TOKENS) - 1,
    "pad_token_id": VOCABULARY_SIZE - len(MARKER_TOKENS) - len(CONTROL_TOKENS),
}


def trained_model(texts: Iterable[str]) -> dict[str, Any]:
    """The vocabulary and the merges of a byte-level BPE, in the form they have in a tokenizer.json."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD_PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    size = VOCABULARY_SIZE - len(CONTROL_TOKENS) - len(MARKER_TOKENS)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=1,  # the texts are short: with two as the limit they give only three thousand entries
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    if len(model["vocab"]) != size:
        raise SystemExit(f"the texts give only {len(model['vocab'])} of {size} vocabulary entries")
    return model


def added_tokens(first_id: int) -> list[dict[str, Any]]:
    """The tokens that are cut out of the text before the BPE sees it. Only the control tokens count as special."""
    return [
        {
            "id": first_id + place,
            "content": content,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": content in CONTROL_TOKENS,
        }
        for place, content in enumerate(CONTROL_TOKENS + MARKER_TOKENS)
    ]


def tokenizer_file(model: dict[str, Any]) -> dict[str, Any]:
    """The content of tokenizer.json, written here so that its form does not depend on the version of the library."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": WORD_PATTERN}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(len(model["vocab"])),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": dict(sorted(model["vocab"].items(), key=lambda entry: entry[1])),
            "merges": [list(merge) for merge in model["merges"]],
        },
    }


def tokenizer_configuration(added: list[dict[str, Any]]) -> dict[str, Any]:
    """The content of tokenizer_config.json."""
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "added_tokens_decoder": {
            str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in added
        },
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONFIGURATION["max_position_embeddings"],
    }


def write_model_folder(folder: Path, texts: Iterable[str], template: str) -> None:
    """Train and write tokenizer.json, tokenizer_config.json, config.json and chat_template.jinja."""
    folder.mkdir(parents=True, exist_ok=True)
    content = tokenizer_file(trained_model(texts))
    write_json(folder / "tokenizer.json", content, indent=0)
    write_json(folder / "tokenizer_config.json", tokenizer_configuration(content["added_tokens"]), indent=2)
    write_json(folder / "config.json", CONFIGURATION, indent=2)
    (folder / "chat_template.jinja").write_bytes(template.encode())


def write_json(path: Path, content: Any, indent: int) -> None:
    """Write JSON as UTF-8 with a line feed at the end, the same bytes on every system."""
    path.write_bytes((json.dumps(content, ensure_ascii=False, indent=indent or None) + "\n").encode())


def compiled_template(source: str) -> Template:
    """The chat template compiled with the settings that serving engines use."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(source)


class Language:
    """Turns requests and answers into token ids with the files of a model folder."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._template = compiled_template((folder / "chat_template.jinja").read_text(encoding="utf-8"))

    def prompt_ids(self, messages: list[Any], tools: list[Any] | None) -> list[int]:
        """The token ids of a request, generation prompt included."""
        text = self._template.render(messages=messages, tools=tools, add_generation_prompt=True)
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def answer_ids(self, answer: Any) -> list[int]:
        """The token ids a model generates for an answer, up to and including the end-of-turn token."""
        text = self._template.render(messages=[answer], tools=None, add_generation_prompt=False)
        generated = text.removeprefix("<|im_start|>assistant\n").removesuffix("\n")
        return self._tokenizer.encode(generated, add_special_tokens=False).ids
