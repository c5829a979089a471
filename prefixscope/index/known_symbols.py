"""Where symbols were first seen, so that many sequences find their place in a tree without a walk from its root.

Ids of block hashes stand for all blocks before them, so a symbol nearly always has one and the same symbol in front of
it. A row is *clean* where this holds for each of its symbols: its first one was first seen at the head of a row of the
same namespace, each other one right behind the one it follows here. Two things follow for a clean row, of whatever ids:

- its symbols that were seen in earlier rows are the first ones, and no earlier row shares more than these, since the
  next symbol is new;
- where the row that first held the last of them is clean, too, that row begins with all of them: going back from that
  symbol, the one in front is the same in both rows, down to the head.

So the tree needs no comparison for it. Every other row is inserted as ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prefixscope.index.lineage import Int64

__all__ = ["KnownSymbols", "Places"]

Symbols = npt.NDArray[np.uint32]

_NEVER = np.iinfo(np.int32).max
_NOWHERE = np.iinfo(np.int32).min
"""In front of a symbol of which only that is known that some row holds it."""


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """For each row, how many symbols it shares with the earlier row `with_row` (-1: none), where `known`; rows that are
    not `known` have to be compared."""

    known: npt.NDArray[np.bool_]
    shared: Int64
    with_row: Int64


class KnownSymbols:
    """What was seen of all rows so far. Symbols are small numbers, given without large gaps."""

    def __init__(self) -> None:
        self._first_row = np.full(1024, _NEVER, np.int32)
        self._before = np.full(1024, _NOWHERE, np.int32)
        self._clean = np.zeros(1024, np.bool_)

    def note_earlier(self, tokens: bytes) -> None:
        """Symbols of rows that came before their namespace was watched: with nothing told of what is in front of them,
        no row that holds them is clean."""
        symbols = np.frombuffer(tokens, "<u4")
        self._reserve(symbols, 1)
        self._first_row[symbols[self._first_row[symbols] == _NEVER]] = 0

    def note(self, row: int, namespace: int, tokens: bytes) -> None:
        """One row that was inserted as ever."""
        symbols = np.frombuffer(tokens, "<u4")
        self._reserve(symbols, row + 1)
        before = np.empty(len(symbols), np.int32)
        before[1:] = symbols[:-1]
        before[:1] = -1 - namespace
        self._learn(symbols, np.full(len(symbols), row, np.int32), before)
        self._clean[row] = (self._before[symbols] == before).all()

    def place(self, first: int, namespaces: Int64, symbols: Symbols, counts: Int64) -> Places:
        """Rows numbered from `first`, and their symbols behind one another."""
        rows = len(counts)
        self._reserve(symbols, first + rows)
        ends = np.cumsum(counts)
        starts = ends - counts
        row_of = np.repeat(np.arange(first, first + rows, dtype=np.int32), counts)
        before = np.empty(len(symbols), np.int32)
        before[1:] = symbols[:-1]
        held = counts > 0
        before[starts[held]] = -1 - namespaces[held]
        self._learn(symbols, row_of, before)
        clean = _per_row(self._before[symbols] == before, starts, ends) == counts
        self._clean[first : first + rows] = clean
        shared = _per_row(self._first_row[symbols] < row_of, starts, ends)
        some = shared > 0
        with_row = np.full(rows, -1, np.int64)
        with_row[some] = self._first_row[symbols[(starts + shared - 1)[some]]]
        return Places(clean & (~some | self._clean[with_row]), shared, with_row)

    def _learn(self, symbols: Symbols, row_of: npt.NDArray[np.int32], before: npt.NDArray[np.int32]) -> None:
        new = np.flatnonzero(self._first_row[symbols] == _NEVER)[::-1]
        # of several values for one place numpy keeps the last: going backwards, that of the first appearance
        self._first_row[symbols[new]] = row_of[new]
        self._before[symbols[new]] = before[new]

    def _reserve(self, symbols: Symbols, rows: int) -> None:
        if len(symbols):
            needed = int(symbols.max()) + 1
            self._first_row = _grown(self._first_row, needed, _NEVER)
            self._before = _grown(self._before, needed, _NOWHERE)
        self._clean = _grown(self._clean, rows, False)


def _grown(values: npt.NDArray[Any], needed: int, fill: int) -> npt.NDArray[Any]:
    if needed <= len(values):
        return values
    larger = np.full(max(needed, len(values) + len(values) // 2), fill, values.dtype)
    larger[: len(values)] = values
    return larger


def _per_row(flags: npt.NDArray[np.bool_], starts: Int64, ends: Int64) -> Int64:
    """How many flags of each row are set."""
    sums = np.concatenate(([0], np.cumsum(flags)))
    return np.asarray(sums[ends] - sums[starts], np.int64)
