"""Batches of rows against the same rows inserted one by one: the same tree, node by node."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from prefixscope.index.grafting import Grafting
from prefixscope.index.known_symbols import KnownSymbols
from prefixscope.index.tree import EndsTable, PrefixTree

Row = tuple[int, list[int]]


def random_rows(seed: int, rows: int) -> list[Row]:
    """Grown, cut, shuffled and repeated rows in up to three namespaces; most symbols follow one and the same other."""
    draw = random.Random(seed)
    namespaces = draw.choice((1, 1, 2, 3))
    disorder = draw.choice((0.0, 0.05, 0.3))
    found: list[Row] = []
    fresh = 0
    for _ in range(rows):
        namespace, symbols = draw.choice(found) if found and draw.random() < 0.9 else (draw.randrange(namespaces), [])
        symbols = symbols[: draw.choice((len(symbols), len(symbols), draw.randrange(len(symbols) + 1)))]
        new = draw.randrange(4)
        symbols = symbols + list(range(fresh, fresh + new))
        fresh += new
        if draw.random() < disorder:
            symbols = draw.choice((symbols[::-1], symbols + symbols[-1:], draw.sample(symbols, len(symbols)), [0, 1]))
        if draw.random() < disorder:
            namespace = draw.randrange(namespaces)
        found.append((namespace, symbols))
    return found


def as_bytes(symbols: list[int]) -> bytes:
    return np.array(symbols, "<u4").tobytes()


def pieces(rows: list[Row], draw: random.Random) -> Iterator[list[Row]]:
    start = 0
    while start < len(rows):
        length = draw.choice((1, 2, 30))
        yield rows[start : start + length]
        start += length


@pytest.mark.parametrize("seed", range(150))
def test_batches_grow_the_same_tree(seed: int) -> None:
    rows, draw = random_rows(seed, 90), random.Random(seed)
    plain, tree = PrefixTree(), PrefixTree()
    leaves = [plain.insert(namespace, as_bytes(symbols)).leaf for namespace, symbols in rows]
    grafting, ends = Grafting(tree), EndsTable()
    for piece in pieces(rows, draw):
        if draw.random() < 0.4:
            for namespace, symbols in piece:
                grafting.note(len(ends), namespace, as_bytes(symbols))
                ends.append(tree.insert(namespace, as_bytes(symbols)))
            continue
        flat = np.array([symbol for _, symbols in piece for symbol in symbols], np.uint32)
        counts = np.array([len(symbols) for _, symbols in piece])
        grafting.insert(np.array([namespace for namespace, _ in piece]), flat, counts, ends)
    assert (list(ends.leaves), list(ends.prompt_nodes)) == (leaves, leaves)
    assert (list(tree.up), list(tree.depth)) == (list(plain.up), list(plain.depth))
    assert [tree.tokens_of(leaf) for leaf in leaves] == [as_bytes(symbols) for _, symbols in rows]
    assert (tree._child, tree._edge, tree._root_of) == (plain._child, plain._edge, plain._root_of)


def shared_symbols(one: list[int], other: list[int]) -> int:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


@pytest.mark.parametrize("seed", range(150))
def test_known_places_are_the_longest_common_prefixes(seed: int) -> None:
    rows, draw = random_rows(seed, 60), random.Random(seed)
    known, first, told = KnownSymbols(), 0, 0
    for piece in pieces(rows, draw):
        flat = np.array([symbol for _, symbols in piece for symbol in symbols], np.uint32)
        places = known.place(
            first, np.array([namespace for namespace, _ in piece]), flat,
            np.array([len(symbols) for _, symbols in piece]),
        )  # fmt: skip
        for k, (namespace, symbols) in enumerate(piece):
            if not places.known[k]:
                continue
            told += 1
            before = [shared_symbols(symbols, other) if space == namespace else 0 for space, other in rows[: first + k]]
            assert places.shared[k] == max(before, default=0)
            if places.shared[k]:
                assert before[places.with_row[k]] == places.shared[k] and places.with_row[k] < first + k
        first += len(piece)
    assert told > 5
