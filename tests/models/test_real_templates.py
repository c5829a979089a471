"""Rendering and encoding against transformers' own apply_chat_template, on real templates and tokenizers."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from prefixscope.models.parts import tiles
from prefixscope.models.prompt import Made
from prefixscope.models.table import ModelEntry
from prefixscope.models.tokenizer import LoadedModel, load_model
from tests.models.conversations import CONVERSATIONS
from tests.models.prompts import ids, logged, maker
from tests.real_tokenizers import TOKENIZERS, or_skip, templates, tokenizer_folder

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
        expected = own_ids(model.tokenizer, body, template)
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
    model = load_model(ModelEntry("m", "m", str(or_skip(tokenizer_folder, name))))
    seen: Counter[str] = Counter()
    if model.templates:
        compare(model, None, seen)
    for paired in PAIRED[name]:
        compare(model, sources[paired], seen)
    assert seen["equal"] >= 10 * len(PAIRED[name])


def test_every_template_text_for_text() -> None:
    """All templates of the collection over one tokenizer: the text, which decides the ids."""
    from transformers import AutoTokenizer

    from prefixscope.engines.wire import wire
    from prefixscope.models.clock import RequestClock
    from prefixscope.models.template import Unrenderable, render

    tokenizer = AutoTokenizer.from_pretrained(or_skip(tokenizer_folder, "qwen3"))
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
