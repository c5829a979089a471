"""Recommendations against the curve itself, the working set and evictions against plain counting."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from prefixscope.capacity.distances import reuse_distances
from prefixscope.capacity.pick import RunningNeed, choose_block_size, recommend, running_need
from prefixscope.capacity.pressure import evictions_by, families_of, working_set
from prefixscope.errors import OptionError
from prefixscope.index.lineage import NO_TIME, Labels, Lineage
from tests.capacity.logs import Request, chat_log, lineage_of, profile, random_log

SECOND = 10**9
NOTHING_KNOWN = RunningNeed(None, None, "no logged ends")


def test_smallest_caches_keep_their_share() -> None:
    (found,) = reuse_distances(lineage_of(chat_log(random.Random(1), 100, sessions=12)), [profile(4)])
    curve = found.curve()
    picked = recommend(curve, RunningNeed(30, 40, "logged starts and ends"), block_bytes=2**20, at_blocks=20)
    for share, blocks in picked.cache_blocks_by_share:
        assert curve.tokens_at(blocks) >= share * curve.infinite_tokens > curve.tokens_at(blocks - 1)
    assert picked.cache_blocks == picked.cache_blocks_by_share[0][1]
    assert picked.total_blocks == picked.cache_blocks + 30 and picked.bytes == picked.total_blocks * 2**20
    assert picked.gib_buys_tokens == curve.tokens_at(20 + 1024) - curve.tokens_at(20)
    assert len(picked.why) == 4 and "plus 30 blocks (0.0 GiB)" in picked.why[2]


def test_without_ends_the_cache_alone_is_named_as_such() -> None:
    (found,) = reuse_distances(lineage_of(chat_log(random.Random(1), 40)), [profile(4)])
    picked = recommend(found.curve(), NOTHING_KNOWN)
    assert picked.total_blocks is None and picked.bytes is None and picked.gib_buys_tokens is None
    assert picked.why[-1].startswith("cache only: add the blocks of running requests")


def test_nothing_to_reuse_needs_no_cache() -> None:
    (found,) = reuse_distances(Lineage.from_lengths([9, 9], [0, 0], [-1, -1]), [profile(4)])
    assert recommend(found.curve(), NOTHING_KNOWN).cache_blocks == 0
    assert choose_block_size([found.curve()]) is None


def test_running_need_from_logged_times() -> None:
    lineage = Lineage.from_lengths(
        [40, 40, 80, 16], [0] * 4, [-1] * 4,
        time_ns=np.array([0, 10, 10, 50]) * SECOND,
        finished_ns=np.array([20 * SECOND, 110 * SECOND, 11 * SECOND, NO_TIME]),
    )  # fmt: skip
    need = running_need(lineage, 16)
    # 3 blocks for 10 s, 3 + 3 + 5 for one, 6 for nine, then 3 for 90.
    assert (need.peak_blocks, need.p95_blocks, need.requests_without_end) == (11, 6, 1)
    two = running_need(lineage_with_replicas(lineage), 16)
    assert two.peak_blocks == 8


def lineage_with_replicas(lineage: Lineage) -> Lineage:
    from dataclasses import replace

    return replace(lineage, replica=Labels.of(["a", "b", "b", "a"]))


def test_running_need_from_a_concurrency_or_from_nothing() -> None:
    lineage = Lineage.from_lengths([16] * 19 + [160], [0] * 20, [-1] * 20)
    assert running_need(lineage, 16).p95_blocks is None
    need = running_need(lineage, 16, concurrency=4)
    assert (need.p95_blocks, need.peak_blocks) == (4, 40)
    assert running_need(Lineage.from_lengths([], [], []), 16, concurrency=4).p95_blocks == 0


def test_largest_block_size_that_costs_little() -> None:
    lineage = Lineage.from_lengths([2001] * 3, [0, 2000, 2000], [-1, 0, 1])
    curves = [found.curve() for found in reuse_distances(lineage, [profile(size) for size in (8, 16, 32, 64, 128)])]
    choice = choose_block_size(curves)
    assert choice is not None and (choice.block_size, choice.best_tokens) == (64, 4000)
    assert choice.cached_tokens == 2 * 1984
    narrow = choose_block_size(curves, accepted=(16, 128))
    assert narrow is not None and narrow.block_size == 16
    assert choose_block_size(curves, accepted=(7,)) is None


@pytest.mark.parametrize("seed", range(25))
def test_working_set_against_counting(seed: int) -> None:
    rng = random.Random(seed)
    log = random_log(rng, 40)
    seconds = np.cumsum([rng.choice((0, 1, 2, 7)) for _ in log])
    lineage = lineage_of(log, time_ns=seconds.astype(np.int64) * SECOND)
    for window in (1, 5, 30):
        found = working_set(lineage, profile(2), window)
        last_use: dict[object, int] = {}
        counted = []
        for request, now in zip(log, seconds.tolist(), strict=True):
            for j in range(len(request.sequence) // 2):
                last_use[request.namespace, request.sequence[: 2 * j + 2]] = now
            counted.append(sum(1 for time in last_use.values() if now - time <= window))
        assert found.blocks.tolist() == counted
        assert found.peak_blocks == max(counted) and found.p95_blocks <= found.peak_blocks
    with pytest.raises(OptionError, match="window"):
        working_set(lineage, profile(2), 0)


def test_working_set_without_times_is_empty() -> None:
    lineage = Lineage.from_lengths([50], [0], [-1], time_ns=np.array([NO_TIME]))
    assert working_set(lineage, profile(2), 5).peak_blocks == 0


def test_families_meet_in_their_first_request() -> None:
    lineage = lineage_of([Request((1, 2)), Request((5, 6)), Request((1, 3)), Request((1, 3, 4)), Request((5, 5))])
    assert families_of(lineage).tolist() == [0, 1, 0, 0, 1]


def test_who_evicts_whom_adds_up_to_what_capacity_costs() -> None:
    for seed in range(20):
        lineage = lineage_of(random_log(random.Random(seed), 60, namespaces=3))
        (found,) = reuse_distances(lineage, [profile(2)], "lru")
        for blocks in (0, 8, 30):
            evictions = evictions_by(found, blocks, families_of(lineage), most=2)
            lost = found.cached_tokens(10**9) - found.cached_tokens(blocks)
            assert sum(e.tokens for e in evictions) == lost.sum()
            victims: Counter[int | None] = Counter()
            for e in evictions:
                assert e.tokens > 0
                victims[e.victim] += e.tokens
            named = families_of(lineage)
            for family, tokens in victims.items():
                if family is not None:
                    assert abs(tokens - lost[named == family].sum()) <= 4, "whole numbers, rounded to add up"


def test_a_burst_is_named_as_the_evictor() -> None:
    hot = tuple(range(9))
    burst = [Request(tuple(range(100 * i, 100 * i + 40))) for i in range(2, 6)]
    lineage = lineage_of([Request(hot), Request(hot), *burst, Request(hot)])
    (found,) = reuse_distances(lineage, [profile(4)])
    groups = np.array([0, 0, 7, 7, 7, 7, 0])
    evictions = evictions_by(found, 12, groups)
    assert [(e.victim, e.evictor, e.tokens) for e in evictions] == [(0, 7, 8)]
