"""Tiers: known gains, books that add up, never a negative gain."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from prefixscope.capacity.distances import reuse_distances
from prefixscope.capacity.sizes import parse_tier
from prefixscope.capacity.tiers import tiers_of
from prefixscope.engines import resolve
from prefixscope.errors import OptionError
from tests.capacity.logs import Request, chat_log, lineage_of, profile
from tests.shared import SHARED, needs_shared


@needs_shared
def test_case_06_a_coarser_tier_adds_nothing_and_never_less() -> None:
    case = json.loads((SHARED / "cases" / "06-two-tiers-different-granularity.json").read_text())
    log = [Request(tuple(range(*r["prompt_token_ids_range"]))) for r in case["requests"]]
    tiers = [parse_tier("hbm=1Mblocks"), parse_tier("dram=1Mblocks")]
    own, outside = tiers_of(
        lineage_of(log), profile(case["setup"]["block_size"]), tiers,
        chunk_tokens=case["setup"]["external_tier"]["chunk_size"],
    )  # fmt: skip
    assert own.gain_tokens.tolist() == case["expect"]["gpu_cached_tokens"]
    assert outside.found_tokens.tolist() == case["expect"]["external_hit_tokens"]
    assert outside.gain_tokens.tolist() == case["expect"]["external_gain_tokens"]
    short = lineage_of([Request(tuple(range(200)))] * 2)
    assert tiers_of(short, profile(16), [parse_tier("a=0blocks"), parse_tier("b=99blocks")], chunk_tokens=256)[
        1
    ].found_tokens.tolist() == [0, 0]


def test_block_tiers_are_points_of_one_curve() -> None:
    lineage = lineage_of(chat_log(random.Random(1), 80, sessions=12))
    engine = profile(4)
    (found,) = reuse_distances(lineage, [engine])
    tiers = [parse_tier("a=20blocks"), parse_tier("b=50blocks"), parse_tier("c=40blocks")]
    exclusive = tiers_of(lineage, engine, tiers)
    inclusive = tiers_of(lineage, engine, tiers, inclusive=True)
    assert sum(use.gain_tokens for use in exclusive).tolist() == found.cached_tokens(110).tolist()
    assert sum(use.gain_tokens for use in inclusive).tolist() == found.cached_tokens(50).tolist()
    assert exclusive[1].total_gain_tokens > 0 and inclusive[2].total_gain_tokens == 0
    assert all((use.gain_tokens >= 0).all() for use in (*exclusive, *inclusive))


def chunk_hits(log: list[Request], chunk: int, capacity: int) -> list[int]:
    """Tokens found per request in a least-recent cache of whole chunks of prompts; never the whole prompt."""
    stack: list[tuple[int, ...]] = []
    found = []
    for request in log:
        keys = [request.prompt[: (j + 1) * chunk] for j in range(len(request.prompt) // chunk)]
        hit = 0
        while hit < len(keys) and keys[hit] in stack[:capacity]:
            hit += 1
        found.append(min(hit * chunk, len(request.prompt) - 1))
        stack = keys + [key for key in stack if key not in keys]
    return found


def test_chunk_tier_is_a_least_recent_cache_of_chunks() -> None:
    for seed in range(8):
        log = chat_log(random.Random(seed), 80, sessions=6, header=40, turn=30, resends=0.3)
        tiers = [parse_tier("a=10blocks"), parse_tier("b=320tok")]
        own, chunks = tiers_of(lineage_of(log), profile(4), tiers, inclusive=True, chunk_tokens=16)
        assert chunks.found_tokens.tolist() == chunk_hits(log, 16, 20)
        assert (chunks.gain_tokens == np.maximum(chunks.found_tokens - own.found_tokens, 0)).all()


def test_fetching_is_compared_with_computing() -> None:
    shared = tuple(range(1000))
    lineage = lineage_of([Request((*shared, 1)), Request((*shared, 2)), Request((*shared[:40], 3))])
    tiers = [parse_tier("hbm=0blocks"), parse_tier("dram=100kblocks@1MB/s+1s")]
    own, dram = tiers_of(lineage, resolve("vllm"), tiers, token_bytes=1000, recompute=500.0)
    assert own.read_bytes == 0 and own.fetch_seconds is None
    assert dram.gain_tokens.tolist() == [0, 992, 32] and dram.read_bytes == 1024 * 1000
    assert dram.fetch_seconds == pytest.approx(2 + 0.992 + 0.032)
    assert dram.recompute_seconds == pytest.approx(992 / 500 + 32 / 500)
    # 1.992 s against 1.984 s and 1.032 s against 0.064 s: computing wins both times, and nothing is lost by asking.
    assert dram.slower_requests == 2 and dram.saved_seconds == 0
    slow = tiers_of(lineage, resolve("vllm"), tiers, token_bytes=1000, recompute=lambda before, n: n / 100.0)[1]
    assert slow.slower_requests == 1 and slow.saved_seconds == pytest.approx(9.92 - 1.992)


def test_written_bytes() -> None:
    lineage = lineage_of([Request(tuple(range(40))), Request(tuple(range(100, 140)))])
    tiers = [parse_tier("a=3blocks"), parse_tier("b=90blocks@1GB/s")]
    exclusive = tiers_of(lineage, profile(16), tiers, token_bytes=10)
    assert [use.written_bytes for use in exclusive] == [64 * 10, (64 - 48) * 10]
    inclusive = tiers_of(lineage, profile(16), tiers, token_bytes=10, inclusive=True)
    assert inclusive[1].written_bytes == 64 * 10
    assert tiers_of(lineage, profile(16), tiers)[1].written_bytes is None


def test_impossible_tiers_are_refused() -> None:
    lineage = lineage_of([Request((1, 2))])
    with pytest.raises(OptionError, match="at least one tier"):
        tiers_of(lineage, profile(16), [])
    with pytest.raises(OptionError, match="chunk of 0"):
        tiers_of(lineage, profile(16), [parse_tier("a=1blocks")], chunk_tokens=0)
    with pytest.raises(OptionError, match="bytes of a block"):
        tiers_of(lineage, profile(16), [parse_tier("a=1GiB")])
