"""How far the one-pass curve is from each engine's own memory, block by block: what docs/capacity.md tells."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from prefixscope.capacity.distances import reuse_distances
from prefixscope.capacity.pool import simulate_pool
from prefixscope.capacity.summary import approximation
from prefixscope.engines import EngineOptions, resolve
from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import Lineage
from tests.capacity.logs import chat_log, lineage_of

TINY, SMALL, LARGER = (1.0, 1.5), (3.0, 5.0), (7.0,)
"""Sizes of memory, in requests of the longest kind that fit."""


@pytest.fixture(scope="module")
def chats() -> list[Lineage]:
    """Twelve sessions behind one header; one request in ten is an exact resend."""
    return [
        lineage_of(chat_log(random.Random(seed), 150, sessions=12, header=40, turn=30, resends=0.1))
        for seed in range(4)
    ]


def differences(chats: list[Lineage], engine: EngineProfile, sizes: tuple[float, ...]) -> tuple[float, float]:
    """(share of requests that differ, sum of absolute differences / prompt tokens)."""
    wrong = requests = tokens = prompts = 0
    for lineage in chats:
        (found,) = reuse_distances(lineage, [engine])
        longest = int(-(-lineage.sequence_tokens.max() // engine.block_size))
        for size in sizes:
            ours = found.cached_tokens(int(size * longest))
            theirs = simulate_pool(lineage, engine, int(size * longest)).cached_tokens
            wrong += int((ours != theirs).sum())
            requests += len(ours)
            tokens += int(np.abs(ours - theirs).sum())
            prompts += int(lineage.prompt_tokens.sum())
    return wrong / requests, tokens / prompts


@pytest.mark.parametrize("version", ["0.33", "0.26"])
def test_vllm_is_exact_on_chats(version: str, chats: list[Lineage]) -> None:
    engine = resolve(f"vllm@{version}", EngineOptions(block_size=4))
    assert approximation(engine) is None
    for sizes in (TINY, SMALL, LARGER):
        assert differences(chats, engine, sizes) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "options", "tiny", "larger"),
    [
        ("vllm@0.33", {"speculative": "eagle"}, (0.03, 0.001), (0.015, 0.0005)),
        ("vllm@0.32", {"speculative": "eagle"}, (0.10, 0.010), (0.04, 0.003)),
        ("sglang", {}, (0.08, 0.03), (0.02, 0.002)),
        ("tensorrt-llm", {}, (0.005, 0.0005), (0.0, 0.0)),
        ("tensorrt-llm", {"partial_reuse": False}, (0.07, 0.003), (0.015, 0.0005)),
    ],
)
def test_where_it_is_not_exact_it_says_so_and_is_near(
    name: str, options: dict[str, Any], tiny: tuple[float, float], larger: tuple[float, float], chats: list[Lineage]
) -> None:
    engine = resolve(name, EngineOptions(block_size=4, **options))
    assert approximation(engine) is not None
    for sizes, (most_requests, most_tokens) in ((TINY, tiny), (LARGER, larger)):
        requests, tokens = differences(chats, engine, sizes)
        print(f"{name} {options} memory of {sizes} requests: {requests:.4f} of requests, {tokens:.5f} of tokens")
        assert requests <= most_requests and tokens <= most_tokens
