"""Accounting against looking up every block's whole prefix, and the worked example of the contract."""

from __future__ import annotations

from array import array

import numpy as np
import pytest

from prefixscope.engines import EngineOptions, resolve
from prefixscope.index.lineage import Lineage
from prefixscope.index.tree import PrefixTree
from prefixscope.reuse.accounting import account, blocks_of, hit_blocks_of
from prefixscope.reuse.ladder import ladder_of
from prefixscope.reuse.prefixes import shared_prefixes
from prefixscope.reuse.sweep import largest_unit_with_reuse, sweep, unique_blocks
from prefixscope.reuse.totals import totals_of
from tests.index import oracle
from tests.index.logs import random_log


def lineage_of(log: list[oracle.Request]) -> Lineage:
    tree = PrefixTree()
    ends = [tree.insert(r.namespace, array("I", r.sequence).tobytes(), len(r.prompt)) for r in log]
    stamps = tree.stamp(ends)
    return Lineage.from_lengths(
        [len(request.prompt) for request in log],
        stamps.shared_tokens.tolist(),
        stamps.parent_row.tolist(),
        sequence_tokens=[len(request.sequence) for request in log],
        shared_prompt_tokens=stamps.shared_prompt_tokens.tolist(),
        namespace=np.array([request.namespace for request in log], np.int64),
        namespaces=("a", "b"),
    )


def everything(lineage: Lineage) -> np.ndarray:
    return np.ones(len(lineage), np.bool_)


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 7, 16])
def test_cached_tokens_equal_block_by_block_look_up(seed: int, block_size: int) -> None:
    log = random_log(seed)
    lineage = lineage_of(log)
    profile = resolve("vllm", EngineOptions(block_size=block_size))
    rows = account(lineage, profile)
    assert rows.cached.tolist() == oracle.cached_blocks(log, block_size)
    for losses in (rows.last_token, rows.block_rounding, rows.engine_rule):
        assert (losses >= 0).all()
    stored = {
        (r.namespace, r.sequence[:end]) for r in log for end in range(block_size, len(r.sequence) + 1, block_size)
    }
    assert unique_blocks(lineage, profile, everything(lineage), block_size) == len(stored)


@pytest.mark.parametrize("seed", range(30))
def test_sweep_equals_one_profile_per_size_and_the_largest_unit_is_the_largest(seed: int) -> None:
    log = random_log(seed)
    lineage = lineage_of(log)
    for row in sweep(lineage, resolve("vllm"), everything(lineage), range(1, 60)):
        hits = oracle.cached_blocks(log, row.block_size)
        assert row.cached_tokens == sum(hits)
        assert row.wasted_slot_tokens == sum(-len(r.sequence) % row.block_size for r in log)
    largest = largest_unit_with_reuse(lineage, resolve("vllm")) or 0
    assert largest == max((size for size in range(1, 200) if sum(oracle.cached_blocks(log, size))), default=0)


@pytest.mark.parametrize("seed", range(60))
def test_shared_prefixes_add_up_to_what_is_reusable(seed: int) -> None:
    log = random_log(seed)
    lineage = lineage_of(log)
    prefixes = shared_prefixes(lineage, everything(lineage), 10**6)
    assert sum(prefix.saved_tokens for prefix in prefixes) == int(lineage.reusable_tokens.sum())
    for prefix in prefixes:
        text = log[prefix.row].sequence[: prefix.tokens]
        holders = [r for r in log if r.namespace == prefix.namespace and r.prompt[: prefix.tokens] == text]
        assert prefix.requests == len(holders)


def worked_example(identical: bool) -> Lineage:
    log = [
        oracle.Request(
            0, tuple(range(1024)) + tuple(range(5000, 5128) if identical else range(5000 + 200 * row, 5128 + 200 * row))
        )
        for row in range(10)
    ]
    return lineage_of(log)


def test_the_worked_example() -> None:
    lineage = worked_example(identical=False)
    profile = resolve("vllm")
    totals = totals_of(lineage, account(lineage, profile), profile, everything(lineage))
    assert (totals.prompt_tokens, totals.ideal_prefill_tokens, totals.reusable_tokens) == (11520, 2304, 9216)
    assert totals.cached_tokens == 9216


def test_the_worked_example_with_identical_prompts() -> None:
    lineage = worked_example(identical=True)
    profile = resolve("vllm")
    totals = totals_of(lineage, account(lineage, profile), profile, everything(lineage))
    assert (totals.reusable_tokens, totals.cached_tokens) == (10368, 10224)
    assert (totals.losses.last_token, totals.losses.block_rounding) == (9, 135)
    rungs = {rung.rung: rung for rung in ladder_of(totals, profile)}
    assert rungs["last_token"].cached_tokens == 10359
    assert rungs["block_rounding"].cached_tokens == 10224
    assert rungs["in_flight"].cached_tokens is None


def test_trace_counts_partial_last_ids() -> None:
    profile = resolve("trace", EngineOptions(unit=512))
    lineage = Lineage.from_lengths([1000, 1000, 1400], [0, 1000, 512], [-1, 0, 1], unit=np.full(3, 512, np.int64))
    rows = account(lineage, profile)
    assert rows.cached.tolist() == [0, 1000, 512]
    assert hit_blocks_of(lineage, rows.cached, 512).tolist() == [0, 2, 1]
    assert blocks_of(lineage.prompt_tokens, 512).tolist() == [2, 2, 3]
    assert unique_blocks(lineage, profile, everything(lineage), 512) == 4
