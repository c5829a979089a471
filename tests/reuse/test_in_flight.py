"""Overlapping requests: what is visible to whom and when, against a slow oracle that replays published tokens."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from prefixscope.engines import CacheGroup, EngineOptions, EngineProfile, resolve
from prefixscope.index.lineage import NO_TIME, Lineage
from prefixscope.reuse.in_flight import InFlight, in_flight, missing_times
from tests.engines.traffic import Asked, conversations, lineage_of

SECOND = 1_000_000_000


def timed(
    requests: list[Asked], start: list[int], first: list[int] | None = None, end: list[int] | None = None
) -> Lineage:
    unknown = [NO_TIME] * len(requests)
    return lineage_of(
        requests,
        time_ns=np.array(start, np.int64),
        first_token_ns=np.array(first or unknown, np.int64),
        finished_ns=np.array(end or unknown, np.int64),
    )


def simulated(lineage: Lineage, profile: EngineProfile, **options: Any) -> InFlight:
    found = in_flight(lineage, profile, **options)
    assert found is not None
    return found


def test_a_running_sharer_counts_only_where_scheduled_blocks_are_visible() -> None:
    """A finished sharer of 80 tokens and a running one of 120."""
    prompt = list(range(200))
    requests = [Asked([*prompt[:80], *range(900, 950)]), Asked([*prompt[:120], *range(700, 750)]), Asked(prompt)]
    lineage = timed(requests, [0, 10, 20], first=[1, 30, 40], end=[5, 50, 60])
    for block in (1, 8):
        options = EngineOptions(match_unit=block)
        assert simulated(lineage, resolve("vllm", options)).cached_tokens[2] == 120
        assert simulated(lineage, resolve("sglang", options)).cached_tokens[2] == 80
    assert simulated(lineage, resolve("llama-cpp")).cached_tokens[2] == 80
    assert simulated(lineage, resolve("sglang")).visible_tokens.tolist() == [0, 80, 80]


def test_identical_requests_at_the_same_instant() -> None:
    requests = [Asked(list(range(50))) for _ in range(3)]
    lineage = timed(requests, [0, 0, 0], first=[SECOND] * 3, end=[2 * SECOND] * 3)
    assert simulated(lineage, resolve("vllm")).cached_tokens.tolist() == [0, 48, 48]
    assert simulated(lineage, resolve("sglang")).cached_tokens.tolist() == [0, 0, 0]
    assert simulated(lineage, resolve("llama-cpp")).cached_tokens.tolist() == [0, 0, 0]
    # Without logged ends, a service time stands in; vLLM needs none.
    bare = timed(requests, [0, 0, 0])
    assert simulated(bare, resolve("vllm")).cached_tokens.tolist() == [0, 48, 48]
    assert in_flight(bare, resolve("sglang")) is None
    assert simulated(bare, resolve("sglang"), service_ns=2 * SECOND).cached_tokens.tolist() == [0, 0, 0]


def test_same_step_and_a_chunk_of_forty() -> None:
    prompt = list(range(64))
    lineage = timed([Asked(prompt), Asked(prompt)], [0, 0])
    assert simulated(lineage, resolve("vllm")).cached_tokens.tolist() == [0, 48]
    assert simulated(lineage, resolve("vllm"), max_batched_tokens=40).cached_tokens.tolist() == [0, 32]


def test_a_budget_smaller_than_the_prompt_on_a_running_engine() -> None:
    """Two identical prompts of 600 with 512 tokens per step, block 128: 0 and 512."""
    prompt = list(range(600))
    lineage = timed([Asked(prompt), Asked(prompt)], [0, 0])
    profile = resolve("vllm", EngineOptions(block_size=128))
    assert simulated(lineage, profile, max_batched_tokens=512).cached_tokens.tolist() == [0, 512]


@pytest.mark.parametrize(("start", "expected"), [(0, 100), (99, 100), (101, 200), (299, 300), (301, 400), (400, 400)])
def test_chunks_are_spread_over_the_logged_prefill(start: int, expected: int) -> None:
    prompt = list(range(400))
    lineage = timed([Asked(prompt)] * 2, [0, start], first=[400, NO_TIME])
    found = simulated(lineage, resolve("vllm"), max_batched_tokens=100)
    assert found.visible_tokens.tolist() == [0, expected]


def test_generated_tokens_are_visible_when_the_request_has_ended() -> None:
    turn = Asked(list(range(64)), list(range(500, 540)))
    following = Asked([*turn.prompt, *turn.output, 7])
    early = timed([turn, following], [0, 5], first=[1, 6], end=[10, 20])
    late = timed([turn, following], [0, 15], first=[1, 16], end=[10, 20])
    assert simulated(early, resolve("vllm")).cached_tokens.tolist() == [0, 64]
    assert simulated(late, resolve("vllm")).cached_tokens.tolist() == [0, 96]


def test_partial_blocks_of_running_requests_are_not_stored_yet() -> None:
    prompt = list(range(100))
    lineage = timed([Asked(prompt), Asked([*prompt, 7]), Asked([*prompt, 8])], [0, 5, 20], [1, 6, 21], [10, 12, 30])
    assert simulated(lineage, resolve("tensorrt-llm")).cached_tokens.tolist() == [0, 96, 100]


def test_models_with_states_find_what_was_published_before_they_start() -> None:
    groups = (CacheGroup("full", 16), CacheGroup("sliding_window", 16, 32))
    profile = resolve("vllm", EngineOptions(groups=groups, retention="dense"))
    requests = conversations(seed=3, count=60)
    one_by_one = timed(requests, [10 * row for row in range(60)], end=[10 * row + 5 for row in range(60)])
    serial = profile.rule(one_by_one, profile).tolist()
    assert sum(serial) > 0
    assert simulated(one_by_one, profile).cached_tokens.tolist() == serial


def published(request: Asked, profile: EngineProfile, now: int, times: tuple[int, int, int]) -> list[int]:
    """The tokens of one request that others can find at `now`."""
    start, first, end = times
    ready = {"scheduled": start, "prefill_end": first, "request_end": end}[profile.visible]
    if now >= end:
        return request.sequence
    return request.prompt if now >= ready else []


@pytest.mark.parametrize("spec", ["vllm@0.32", "sglang", "llama-cpp"])
def test_against_replaying_published_tokens(spec: str) -> None:
    draw = random.Random(7)
    requests = conversations(seed=8, count=150)
    start = sorted(draw.randrange(0, 600) for _ in requests)
    first = [time + draw.randrange(0, 30) for time in start]
    end = [time + draw.randrange(0, 60) for time in first]
    profile = resolve(spec)
    expected = []
    for row, request in enumerate(requests):
        best = 0
        for other in range(len(requests)):
            # At one instant, ends come before starts, and starts go in row order.
            if other == row or start[other] > start[row] or (start[other] == start[row] and other > row):
                continue
            seen = published(requests[other], profile, start[row], (start[other], first[other], end[other]))
            pairs = zip(seen, request.sequence, strict=False)
            best = max(
                best, next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(seen), len(request.sequence)))
            )
        expected.append(best)
    found = simulated(timed(requests, start, first, end), profile)
    assert found.visible_tokens.tolist() == expected
    unit = profile.match_unit
    assert found.cached_tokens.tolist() == [
        max(min(tokens, len(r.prompt) - 1), 0) // unit * unit for tokens, r in zip(expected, requests, strict=True)
    ]


def test_the_rung_never_grants_more_than_one_request_after_another() -> None:
    requests = conversations(seed=21, count=150)
    start = [row // 4 for row in range(150)]
    lineage = timed(requests, start, [time + 2 for time in start], [time + 3 for time in start])
    for spec in ("vllm", "sglang", "tensorrt-llm", "dynamo-router", "lmcache", "llama-cpp", "openai", "anthropic"):
        profile = resolve(spec)
        assert (simulated(lineage, profile).cached_tokens <= profile.rule(lineage, profile)).all(), spec


def test_missing_times_are_named() -> None:
    requests = [Asked([1, 2, 3]), Asked([1, 2, 3])]
    bare = timed(requests, [0, 1])
    assert missing_times(bare, resolve("vllm")) is None
    assert "2 requests without first_token_at or finished_at" in str(missing_times(bare, resolve("sglang")))
    assert "2 requests without finished_at" in str(missing_times(bare, resolve("llama-cpp")))
    assert missing_times(bare, resolve("llama-cpp"), service_ns=1) is None
    nowhere = timed(requests, [NO_TIME, NO_TIME])
    assert in_flight(nowhere, resolve("vllm")) is None
