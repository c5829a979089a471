"""The fast ways give the ids of the slow ones: thousands of fuzzed chats over real tokenizers and templates."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prefixscope.models.encode import CheckedEncoder, LateEncoder, TokenizersEncoder, encoder_for
from prefixscope.models.prompt import Made, PromptMaker
from prefixscope.models.segments import SegmentEncoder, cut_tokens
from prefixscope.models.table import ModelEntry
from prefixscope.models.tokenizer import LoadedModel, load_model
from tests.models.fuzz import chat, text
from tests.models.prompts import logged, maker
from tests.real_tokenizers import MORE_TOKENIZERS, TOKENIZERS, or_skip, templates, tokenizer_folder

pytestmark = pytest.mark.real_tokenizers
TEMPLATES = {
    "qwen3": ("Qwen-Qwen3-0.6B", "Qwen3.5-4B", "Qwen-Qwen2.5-7B-Instruct"),
    "llama3_1": ("meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct"),
    "deepseek_v3": ("deepseek-ai-DeepSeek-V3.1", "deepseek-ai-DeepSeek-V4"),
    "gptoss": ("openai-gpt-oss-120b",),
    "gemma3": ("google-gemma-2-2b-it", "google-gemma-4-31B-it"),
    "mistral_v1": ("Mistral-Small-3.2-24B-Instruct-2506",),
    "tekken": ("Mistral-Small-3.2-24B-Instruct-2506",),
    "deepseek_v4": ("deepseek-ai-DeepSeek-V4",),
    "mistral_v3": ("mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Small-3.2-24B-Instruct-2506"),
}
CHATS = 400
"""For each tokenizer; repeated under each of its templates."""


@pytest.fixture(scope="module", params=(*TOKENIZERS, *MORE_TOKENIZERS))
def model(request: Any) -> LoadedModel:
    return load_model(ModelEntry("m", "m", str(or_skip(tokenizer_folder, request.param))))


def plain(model: LoadedModel, prompt: str, special: bool = False) -> list[int]:
    return list(model.tokenizer.backend.encode(prompt, add_special_tokens=special).ids)


def given(ids: bytes) -> list[int]:
    return np.frombuffer(ids, "<u4").tolist()


def test_chats_are_encoded_as_by_the_plain_library(model: LoadedModel) -> None:
    """The unchecked engine itself, on rendered prompts that repeat and grow."""
    name = str(model.entry.location).rpartition("tokenizer-")[2]
    assert isinstance(model.encoder, CheckedEncoder) and model.encoder._fast is not None
    fast, judge = model.encoder._fast, TokenizersEncoder(model.tokenizer)
    sources = or_skip(templates)
    seen: Counter[str] = Counter()
    for source in (*model.templates.values(), *(sources[paired] for paired in TEMPLATES[name])):
        making = maker(model.entry, rendering="vllm")
        making.use(replace(model, templates={"default": source}))
        draw = random.Random(name)
        for _ in range(CHATS):
            made = making.make(logged(chat(draw), model="m"))
            if not isinstance(made, Made):
                seen[made.reason] += 1
                continue
            prompt = made.prompt.text
            assert prompt is not None
            right = plain(model, prompt)
            assert given(made.prompt.tokens) == right == given(fast.encode(prompt, False)), repr(prompt)
            assert given(judge.encode(prompt, False)) == right, repr(prompt)
            seen["equal"] += 1
    assert seen["equal"] > 0.6 * CHATS * len(TEMPLATES[name]), seen


def test_bare_texts_too(model: LoadedModel) -> None:
    draw = random.Random(5)
    assert isinstance(model.encoder, CheckedEncoder) and model.encoder._fast is not None
    for _ in range(300):
        prompt = text(draw, 30)
        for special in (False, True):
            right = plain(model, prompt, special)
            assert given(model.encoder._fast.encode(prompt, special)) == right, repr(prompt)
            assert given(TokenizersEncoder(model.tokenizer).encode(prompt, special)) == right, repr(prompt)


def test_segments_are_exact_for_every_tokenizer(model: LoadedModel) -> None:
    """The memo of the slow library, in little room, so that entries come and go."""
    backend = model.tokenizer.backend
    segments = SegmentEncoder(backend, backend.to_str(), memory=20_000)
    specials = list(segments._cuts)[:40]
    assert specials
    draw = random.Random(7)
    kept = [text(draw) for _ in range(30)]
    before = 0
    for _ in range(250):
        pieces = [draw.choice((draw.choice(specials), draw.choice(kept), text(draw, 4))) for _ in range(12)]
        prompt = "".join(pieces)
        before += len(prompt)
        assert given(segments.encode(prompt, False)) == plain(model, prompt), repr(prompt)
    assert segments.encoded_characters < before


def test_a_late_engine_gives_the_same_ids(model: LoadedModel) -> None:
    late = encoder_for(model.tokenizer, build="when_due")
    assert isinstance(late, LateEncoder) and late.name == "tokenizers"
    draw = random.Random(9)
    for _ in range(72):
        prompt = text(draw, 10) + "some words " * 400
        assert given(late.encode(prompt, False)) == plain(model, prompt)
    assert late.name == model.encoder.name and not late.disagreed


def test_dropping_the_left_context_would_be_wrong_for_metaspace() -> None:
    """Why a segment is encoded behind its special token."""
    loaded = load_model(ModelEntry("m", "m", str(or_skip(tokenizer_folder, "mistral_v3"))))
    judge = TokenizersEncoder(loaded.tokenizer)
    assert judge.encode("[INST]hi", False) != judge.encode("[INST]", False) + judge.encode("hi", False)


def test_tokens_that_touch_others_are_no_cuts(model: LoadedModel) -> None:
    import json

    serialised = json.loads(model.tokenizer.backend.to_str())
    contents = [token["content"] for token in serialised["added_tokens"]]
    for cut in list(cut_tokens(serialised))[:60]:
        for other in contents:
            if other != cut:
                assert cut not in other and other not in cut
                assert not any(cut.endswith(other[:end]) or other.endswith(cut[:end])
                               for end in range(1, min(len(cut), len(other))))  # fmt: skip


def test_repeated_chats_are_encoded_once(model: LoadedModel) -> None:
    making: PromptMaker = maker(model.entry, rendering="vllm")
    source = next(iter(model.templates.values()), None) or or_skip(templates)["Qwen-Qwen3-0.6B"]
    making.use(replace(model, templates={"default": source}))
    draw = random.Random(11)
    bodies = [chat(draw) for _ in range(20)]
    first = [making.make(logged(body, model="m", request_id="1")) for body in bodies]
    again = [making.make(logged(body, model="m", request_id="2")) for body in bodies]
    made = [one for one in first if isinstance(one, Made)]
    assert making.repeats.found == len(made) > 10
    for one, other in zip(first, again, strict=True):
        assert isinstance(one, Made) == isinstance(other, Made)
        if isinstance(one, Made) and isinstance(other, Made):
            assert one.prompt == other.prompt and one.notes == other.notes
