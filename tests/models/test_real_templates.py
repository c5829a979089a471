"""Rendering and encoding against transformers' own apply_chat_template, on real templates and tokenizers."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from prefixscope.models.parts import tiles
from prefixscope.models.prompt import Made
from prefixscope.models.tokenizer import LoadedModel
from tests.models.conversations import CONVERSATIONS
from tests.models.prompts import ids, logged, maker, real_model, transformers_tokenizer
from tests.real_tokenizers import TOKENIZERS, or_skip, templates

pytestmark = pytest.mark.real_tokenizers
NOW = datetime.datetime(2026, 3, 30, 10, 0, tzinfo=datetime.UTC)
PAIRED = {
    "qwen3": ("Qwen-Qwen3-0.6B", "Qwen3.5-4B", "Qwen3-Coder", "Qwen-QwQ-32B"),
    "llama3_1": ("meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.2-3B-Instruct"),
    "deepseek_v3": ("deepseek-ai-DeepSeek-V3.1", "llama-cpp-deepseek-r1"),
    "gptoss": ("openai-gpt-oss-120b",),
    "gemma3": ("google-gemma-2-2b-it",),
    "mistral_v3": ("mistralai-Mistral-Nemo-Instruct-2407", "Mistral-Small-3.2-24B-Instruct-2506"),
}


class FixedClock(datetime.datetime):
    @classmethod
    def now(cls, tz: Any = None) -> datetime.datetime:
        del tz
        return NOW.replace(tzinfo=None)


@pytest.fixture(autouse=True)
def fixed_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers.utils.chat_template_utils as theirs

    monkeypatch.setattr(theirs, "datetime", FixedClock)


def own_ids(tokenizer: Any, body: dict[str, Any], template: str | None) -> list[int] | None:
    """What transformers alone makes of a body; None where it refuses."""
    continued = body.get("continue_final_message", False)
    try:
        made = tokenizer.apply_chat_template(
            body["messages"],
            tools=body.get("tools"),
            documents=body.get("documents"),
            chat_template=template,
            add_generation_prompt=body.get("add_generation_prompt", not continued),
            continue_final_message=continued,
            return_dict=False,
            **body.get("chat_template_kwargs", {}),
        )
    except Exception:
        return None
    return list(made)


def compare(model: LoadedModel, template: str | None, seen: Counter[str]) -> None:
    """The same loaded tokenizer on both sides: ids of every conversation, and parts that tile the text."""
    making = maker(model.entry, rendering="transformers")
    making.use(model if template is None else replace(model, templates={"default": template}))
    for name, body in CONVERSATIONS.items():
        made = making.make(logged({**body, "timestamp": NOW.isoformat()}, model="m"), with_parts=True)
        expected = own_ids(transformers_tokenizer(str(model.entry.location)), body, template)
        if expected is None:
            assert not isinstance(made, Made) and made.reason == "refused" and made.message, name
            seen["refused by both"] += 1
            continue
        assert ids(made) == expected, name
        assert isinstance(made, Made) and made.prompt.text is not None
        assert tiles(made.prompt.parts, made.prompt.text)
        seen["equal"] += 1


@pytest.mark.parametrize("name", TOKENIZERS)
def test_own_and_paired_templates_token_for_token(name: str) -> None:
    sources = or_skip(templates)
    model = real_model(name)
    seen: Counter[str] = Counter()
    if model.templates:
        compare(model, None, seen)
    for paired in PAIRED[name]:
        compare(model, sources[paired], seen)
    assert seen["equal"] >= 10 * len(PAIRED[name])


def test_every_template_text_for_text() -> None:
    """All templates of the collection over one tokenizer: the text, which decides the ids."""
    from prefixscope.engines.wire import wire
    from prefixscope.models.clock import RequestClock
    from prefixscope.models.template import Unrenderable, render

    tokenizer = transformers_tokenizer(str(real_model("qwen3").entry.location))
    seen: Counter[str] = Counter()
    for source in or_skip(templates).values():
        for body in CONVERSATIONS.values():
            conversation = wire("transformers", body, source, "string")
            clock = RequestClock(int(NOW.timestamp()) * 10**9)
            try:
                text: str | None = render(source, conversation, tokenizer.special_tokens_map, clock)
            except Unrenderable:
                text = None
            continued = body.get("continue_final_message", False)
            try:
                expected: str | None = tokenizer.apply_chat_template(
                    body["messages"], tools=body.get("tools"), documents=body.get("documents"), chat_template=source,
                    add_generation_prompt=body.get("add_generation_prompt", not continued), tokenize=False,
                    continue_final_message=continued, **body.get("chat_template_kwargs", {}),
                )  # fmt: skip
            except Exception:
                expected = None
            assert text == expected
            seen["equal" if text is not None else "refused by both"] += 1
    assert seen["equal"] > 750 and sum(seen.values()) == 70 * len(CONVERSATIONS)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_completion_prompts_and_answers(name: str) -> None:
    """The engines' rule for bare prompts (special tokens unless the body says no), and an answer's ids behind it."""
    model = real_model(name)
    assert model.encoder.name == ("fastokens (blanks spelled out)" if name == "mistral_v3" else "fastokens")
    making = maker(model.entry, rendering="vllm")
    making.use(model)
    for prompt, answer in (("Once upon a time", " there was rye."), ("a\n", "def f():\n\treturn 1"), ("x", "\n\ny")):
        for special in (True, False):
            body = {"prompt": prompt, "add_special_tokens": special} if not special else {"prompt": prompt}
            made = making.make(logged(body, model="m", response=answer))
            assert ids(made) == transformers_tokenizer(str(model.entry.location)).encode(
                prompt, add_special_tokens=special
            )
        assert isinstance(made, Made) and made.prompt.text is not None
        known = np.frombuffer(made.prompt.tokens, "<u4").tolist()
        told = model.decode(made.prompt.tokens)
        assert (prompt + answer).startswith(told) and len(told) > len(prompt)
        assert len(known) == made.prompt.sequence_tokens
        places = [model.char_of_token(prompt + answer, place) for place in range(len(known) + 1)]
        assert places == sorted(places) and places[0] == 0
