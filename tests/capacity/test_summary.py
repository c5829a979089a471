"""The capacity part of a report: exact points, the sizes asked for, and a count of different blocks."""

from __future__ import annotations

import random

import numpy as np

from prefixscope.capacity.distances import reuse_distances
from prefixscope.capacity.pick import RunningNeed
from prefixscope.capacity.summary import summarize
from prefixscope.engines import EngineOptions, resolve
from prefixscope.index.lineage import Lineage
from tests.capacity.logs import chat_log, lineage_of, profile, random_log

NOTHING_KNOWN = RunningNeed(None, None, "no logged ends")


def test_points_are_exact_and_hold_what_was_asked() -> None:
    lineage = lineage_of(chat_log(random.Random(1), 80, sessions=10))
    (found,) = reuse_distances(lineage, [profile(4)])
    summary = summarize(found, NOTHING_KNOWN, asked=(37, 61), block_bytes=1000)
    blocks = [point.blocks for point in summary.points]
    assert blocks == sorted(set(blocks)) and {37, 61, summary.recommended.cache_blocks} <= set(blocks)
    for point in summary.points:
        cached = int(found.cached_tokens(point.blocks).sum())
        assert point.cached_tokens == cached == 4 * point.hit_blocks
        assert point.token_hit_rate == cached / lineage.prompt_tokens.sum()
        assert point.bytes == 1000 * point.blocks and point.asked == (point.blocks in (37, 61))
    assert summary.points[-1].cached_tokens == summary.infinite_tokens
    assert summary.model == "engine" and not summary.upper_bound


def test_unique_blocks_are_counted_once() -> None:
    for seed in range(10):
        log = random_log(random.Random(seed), 40, namespaces=4, pools=2)
        lineage = lineage_of(log)
        (found,) = reuse_distances(lineage, [profile(3)])
        for pool in (0, 1):
            mine = [r for r in log if r.pool == pool]
            different = {(r.namespace, r.sequence[: 3 * j + 3]) for r in mine for j in range(len(r.sequence) // 3)}
            where = np.array([r.pool == pool for r in log])
            assert summarize(found, NOTHING_KNOWN, where=where).unique_blocks == len(different)


def test_an_empty_pool_has_no_rates() -> None:
    (found,) = reuse_distances(Lineage.from_lengths([], [], []), [profile(16)])
    summary = summarize(found, NOTHING_KNOWN, asked=(5,))
    assert [point.token_hit_rate for point in summary.points] == [None, None, None]


def test_engines_without_a_queue_of_blocks_say_that_the_curve_is_a_textbook_one() -> None:
    lineage = lineage_of(chat_log(random.Random(1), 30))
    sglang, trt, vllm = (
        reuse_distances(lineage, [resolve(name, EngineOptions(block_size=4))])[0].model
        for name in ("sglang", "tensorrt-llm", "vllm@0.26")
    )
    assert (sglang, trt, vllm) == ("lru", "engine", "engine")
