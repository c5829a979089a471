"""The tree and its lineage against comparing every pair of requests."""

from __future__ import annotations

import random
from array import array

import numpy as np
import pytest

from prefixscope.index.lineage import Lineage
from prefixscope.index.topology import Topology
from prefixscope.index.tree import SYMBOL, PrefixTree, common_prefix_bytes
from tests.index import oracle
from tests.index.logs import random_log

SEEDS = range(120)


def symbols(values: tuple[int, ...]) -> bytes:
    return array("I", values).tobytes()


def insert_all(tree: PrefixTree, log: list[oracle.Request], order: list[int]) -> list:
    ends = [None] * len(log)
    for row in order:
        request = log[row]
        ends[row] = tree.insert(request.namespace, symbols(request.sequence), len(request.prompt))
    return ends


def lineage_of(log: list[oracle.Request]) -> Lineage:
    rows = oracle.lineage(log)
    return Lineage.from_lengths(
        [len(request.prompt) for request in log],
        [shared for shared, _, _ in rows],
        [parent for _, _, parent in rows],
        sequence_tokens=[len(request.sequence) for request in log],
        shared_prompt_tokens=[shared_prompt for _, shared_prompt, _ in rows],
        namespace=np.array([request.namespace for request in log], np.int64),
        namespaces=("a", "b"),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_lineage_equals_comparing_all_pairs_whatever_the_insertion_order(seed: int) -> None:
    log = random_log(seed)
    order = list(range(len(log)))
    random.Random(seed).shuffle(order)
    tree = PrefixTree()
    ends = insert_all(tree, log, order)
    stamps = tree.stamp(ends)
    expected = oracle.lineage(log)
    assert stamps.shared_tokens.tolist() == [shared for shared, _, _ in expected]
    assert stamps.shared_prompt_tokens.tolist() == [shared_prompt for _, shared_prompt, _ in expected]
    assert stamps.parent_row.tolist() == [parent for _, _, parent in expected]
    for request, end in zip(log, ends, strict=True):
        assert tree.tokens_of(end.leaf) == symbols(request.sequence)
        assert tree.tokens_of(end.prompt_node) == symbols(request.prompt)


@pytest.mark.parametrize("seed", SEEDS)
def test_subsets_are_restamped_exactly(seed: int) -> None:
    log = random_log(seed)
    rng = np.random.default_rng(seed)
    lineage = lineage_of(log)
    mask = rng.random(len(log)) < rng.choice([0.2, 0.5, 0.9])
    subset = lineage.where(mask)
    expected = oracle.lineage([request for request, kept in zip(log, mask, strict=True) if kept])
    assert subset.shared_tokens.tolist() == [shared for shared, _, _ in expected]
    assert subset.shared_prompt_tokens.tolist() == [shared_prompt for _, shared_prompt, _ in expected]
    assert subset.parent_row.tolist() == [parent for _, _, parent in expected]


@pytest.mark.parametrize("seed", range(40))
def test_common_prefix_of_any_two_requests(seed: int) -> None:
    log = random_log(seed, rows=20)
    tree = PrefixTree()
    ends = insert_all(tree, log, list(range(len(log))))
    topology = Topology.of(lineage_of(log))
    for a, left in enumerate(log):
        for b, right in enumerate(log):
            same = left.namespace == right.namespace
            expected = oracle.common(left.sequence, right.sequence) if same else 0
            assert tree.common_prefix(ends[a].leaf, ends[b].leaf) == expected
            assert topology.common_prefix(a, b) == expected


def test_unique_symbols_count_each_shared_stretch_once() -> None:
    log = random_log(7, rows=60)
    tree = PrefixTree()
    insert_all(tree, log, list(range(len(log))))
    prefixes = {(r.namespace, r.sequence[:end]) for r in log for end in range(1, len(r.sequence) + 1)}
    assert tree.unique_symbols == len(prefixes)


@pytest.mark.parametrize("seed", range(60))
def test_common_prefix_of_bytes(seed: int) -> None:
    rng = random.Random(seed)
    edge = bytes(rng.randrange(2) for _ in range(SYMBOL * rng.randint(1, 400)))
    keep = rng.randrange(0, len(edge) + 1)
    tokens = b"\x07" * SYMBOL + edge[:keep] + bytes([edge[keep] ^ 1] if keep < len(edge) else []) + b"\x00" * 40
    tokens = tokens[: len(tokens) // SYMBOL * SYMBOL]
    limit = min(len(edge), len(tokens) - SYMBOL)
    same = 0
    while same + SYMBOL <= limit and tokens[SYMBOL + same : 2 * SYMBOL + same] == edge[same : same + SYMBOL]:
        same += SYMBOL
    assert common_prefix_bytes(edge, tokens, SYMBOL) == same


def test_symbols_up_to_the_largest_uint32_are_told_apart() -> None:
    tree = PrefixTree()
    ends = [tree.insert("a", symbols((2**32 - 1, value))) for value in (2**32 - 1, 0, 2**31)]
    stamps = tree.stamp(ends)
    assert stamps.shared_tokens.tolist() == [0, 1, 1]
    assert stamps.parent_row.tolist() == [-1, 0, 1]
