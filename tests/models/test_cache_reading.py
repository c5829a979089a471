"""Requests that may not read the cache, by what their body asks for."""

from __future__ import annotations

from typing import Any

import pytest

from prefixscope.models.cache_reading import reads_cache


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ({}, True),
        ({"prompt_logprobs": 0}, False),
        ({"prompt_logprobs": None}, True),
        ({"prompt_logprob_token_ids": [1]}, False),
        ({"task": "token_embed"}, False),
        ({"task": "token_classify"}, False),
        ({"task": "embed"}, True),
        ({"skip_reading_prefix_cache": True}, False),
        ({"skip_reading_prefix_cache": False, "prompt_logprobs": 1}, True),
        ({"return_logprob": True, "logprob_start_len": 0}, False),
        ({"return_logprob": True, "logprob_start_len": -1}, True),
        ({"return_logprob": True}, True),
        ({"positional_embed_overrides": [1]}, False),
        ({"echo": True, "messages": []}, False),
        ({"echo": True, "logprobs": 1}, False),
        ({"echo": True}, True),
    ],
)
def test_what_a_request_asks_for_decides(body: dict[str, Any], reads: bool) -> None:
    assert reads_cache(body) is reads
