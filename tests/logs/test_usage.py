"""Usage dialects: one meaning for prompt and cached tokens; unknown is not zero."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prefixscope.logs.usage import read_usage
from prefixscope.records import Usage
from tests.logs.reading_of import read_rows
from tests.shared import SHARED, needs_shared


@needs_shared
def test_dialects() -> None:
    """../shared/cases/32."""
    case = json.loads((SHARED / "cases/32-usage-dialects.json").read_bytes())
    for request, expected in zip(case["requests"], case["expect"]["measured"], strict=True):
        usage, reason = read_usage(request["usage"])
        assert usage is not None and reason is None
        assert {"prompt_tokens": usage.prompt_tokens, "cached_tokens": usage.cached_tokens} == expected


@pytest.mark.parametrize(
    ("logged", "expected"),
    [
        ({"prompt_tokens": 9, "cached_tokens": 4, "completion_tokens": 2}, Usage(9, 4, 2)),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, Usage(9, None, None)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": None}}, Usage(9, None, None)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}, Usage(9, 0, None)),
        ({"prompt_tokens": None, "input_tokens": 9, "output_tokens": 1}, Usage(9, None, 1)),
        ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 3}, Usage(9, 8, 3)),
        ({"input_tokens": 9, "cache_read_input_tokens": None, "cache_creation_input_tokens": 4}, Usage(13, None, None)),
        ({"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 4}, Usage(10, 6, None)),
        ({"promptTokenCount": 9, "cachedContentTokenCount": 5, "candidatesTokenCount": 2}, Usage(9, 5, 2)),
        ({"promptTokenCount": 9, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}, Usage(9, None, 5)),
        ({"usageMetadata": {"promptTokenCount": 9}}, Usage(9, None, None)),
        ({"id": "x", "prompt_tokens": 9, "completion_tokens": 1, "cached_tokens": 0, "e2e_latency": 1}, Usage(9, 0, 1)),
        ({"prompt_tokens": "9", "completion_tokens": 1.0}, Usage(9, None, 1)),
        ({}, None),
        ({"prompt_tokens": None}, None),
        (None, None),
        ([1], None),
    ],
)  # fmt: skip
def test_more_dialects(logged: Any, expected: Usage | None) -> None:
    assert read_usage(logged) == (expected, None)


@pytest.mark.parametrize("count", [-1, 1.5, True, "x", [], 2**63, float("nan")])
def test_a_count_that_is_none_drops_the_usage(count: Any) -> None:
    assert read_usage({"prompt_tokens": count}) == (None, "invalid_usage")


def test_more_cached_than_prompt_is_a_reading_fault(tmp_path: Path) -> None:
    (record,), ledger = read_rows(
        tmp_path, [{"prompt": "a", "usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}}}]
    )
    assert record.usage is None
    assert [(w["reason"], w["line"]) for w in ledger.warnings if w.get("line")] == [("cached_exceeds_prompt", 1)]
