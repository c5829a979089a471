"""Public agent traffic with a real tokenizer and its real chat template, from the log to the report."""

from __future__ import annotations

import copy
import gzip
import json
from typing import Any

import numpy as np
import pytest

from prefixscope import api
from tests.real_tokenizers import or_skip, tokenizer_folder
from tests.shared import SHARED, needs_shared

pytestmark = [needs_shared, pytest.mark.real_tokenizers]

LOG = SHARED / "traces" / "tau_airline_gpt4o_chat.jsonl.gz"
COMPARED = 120


@pytest.fixture(scope="module")
def folder() -> str:
    return str(or_skip(tokenizer_folder, "qwen3"))


def analyze(folder: str, **options: Any) -> api.Analysis:
    log = api.LogOptions((str(LOG),), models=(f"gpt-4o={folder}",), **options)
    return api.analyze(api.AnalyzeOptions(log), lambda *_: None)


def as_a_server_renders(body: dict[str, Any], tokenizer: Any) -> list[int]:
    """What vLLM hands to the template, written down once more: contents are texts, arguments are objects."""
    messages = copy.deepcopy(body["messages"])
    for message in messages:
        if message.get("content") is None:
            message["content"] = ""
        for call in message.get("tool_calls") or []:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"] or "{}")
        if not message.get("tool_calls"):
            message.pop("tool_calls", None)
    rendered = tokenizer.apply_chat_template(
        messages, tools=body.get("tools"), add_generation_prompt=True, return_dict=False
    )
    return list(rendered)


def test_the_first_requests_equal_transformers_token_for_token(folder: str) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    with gzip.open(LOG, "rt", encoding="utf-8") as lines:
        bodies = [json.loads(line)["request"] for _, line in zip(range(COMPARED), lines, strict=False)]
    prompts = [np.array(as_a_server_renders(body, tokenizer)) for body in bodies]
    rows = analyze(folder, limit=COMPARED).rows
    assert rows["prompt_tokens"] == [len(prompt) for prompt in prompts]
    for row, prompt in enumerate(prompts):
        longest = 0
        for earlier in prompts[:row]:
            length = min(len(earlier), len(prompt))
            different = np.flatnonzero(earlier[:length] != prompt[:length])
            longest = max(longest, int(different[0]) if len(different) else length)
        # answers are known by text here, so a row may share more than with prompts alone, never less
        assert rows["shared_prompt_tokens"][row] == longest
        assert rows["shared_tokens"][row] >= longest


def test_the_whole_log_end_to_end(folder: str) -> None:
    report = analyze(folder).reports[0]
    totals = report.totals
    assert totals.requests == 2454
    assert report.input.skipped == ()
    assert totals.losses.total == totals.reusable_tokens - totals.expected_cached_tokens
    # measured once with this tokenizer package; a change of rendering or tokenising shows here
    assert (totals.prompt_tokens, totals.reusable_tokens, totals.cached_tokens) == (13774721, 13339344, 13321104)
    assert totals.token_hit_rate == pytest.approx(0.9671, abs=5e-5)
