"""Whether a cache was emptied in between: from an instant on, nothing that was there before is found again.

Proven by what was measured alone. The cache worked before; from then on no request found more than requests since
then had left; at least two requests with different predecessors, which had found something themselves, lost something;
and at least one of them was not separated from its predecessor by more traffic than another request of the log was
that still found its own, so that no queue of least recently used blocks had dropped it. One old prefix found again
afterwards disproves it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prefixscope.index.lineage import UNKNOWN, Int64, Mask

__all__ = ["Emptied", "MeasuredMemory", "emptied_at"]

LEAST_LOST = 2
"""Predecessors that found something themselves, and were not found."""
MOST_PROOFS = 24
"""So many instants are examined, each over the whole rest of the log: those with most misses behind them."""
_NEAR = 64


@dataclass(frozen=True, slots=True)
class MeasuredMemory:
    """The requests that share one KV memory, in time order, int64[n] each.

    `expected` tokens should have been found, `measured` were (UNKNOWN where the log does not tell, or not for one
    prompt alone); `parent` is the row that shares most; `stored` tokens are what each leaves behind.
    """

    expected: Int64
    measured: Int64
    parent: Int64
    stored: Int64

    @property
    def traffic(self) -> Int64:
        """Tokens stored between a row's predecessor and the row; 0 where they follow one another, or it has none."""
        before = np.concatenate(([0], np.cumsum(self.stored)))
        rows = np.arange(len(self.stored))
        since = np.where(self.parent >= 0, self.parent + 1, rows)
        return np.asarray(before[rows] - before[since], np.int64)


@dataclass(frozen=True, slots=True)
class Emptied:
    """The cache was empty when `row` came; `expected` is what all rows can find since then."""

    row: int
    expected: Int64


def emptied_at(memory: MeasuredMemory, since: Callable[[int], Int64]) -> list[Emptied]:
    """Every time the cache was found empty. `since(row)` gives what the rows from `row` on can find of each other,
    int64[n - row]."""
    found: list[Emptied] = []
    expected = memory.expected
    known = memory.measured != UNKNOWN
    alive = np.flatnonzero(known & (memory.measured > 0))
    missed = np.flatnonzero(known & (memory.measured == 0) & (expected > 0))
    behind = np.searchsorted(alive, missed)
    # all misses between two requests that found something are one instant: right behind the first of the two
    instants = np.unique(alive[behind[behind > 0] - 1] + 1)
    at = 0
    for row in _likeliest(instants, known & (memory.measured < expected)):
        if row <= at:
            continue
        proof = _proof(memory, expected, row, since)
        if proof is not None:
            found.append(proof)
            expected, at = proof.expected, proof.row
    return found


def _likeliest(instants: Int64, short: Mask) -> list[int]:
    """The instants behind which most requests found less than they should, in time order."""
    sums = np.concatenate(([0], np.cumsum(short)))
    misses = sums[np.minimum(instants + _NEAR, len(short))] - sums[instants]
    chosen = np.argsort(-misses, kind="stable")[:MOST_PROOFS]
    return sorted(instants[chosen].tolist())


def _proof(memory: MeasuredMemory, expected: Int64, row: int, since: Callable[[int], Int64]) -> Emptied | None:
    """The cache was emptied between the last request that found something, the one before `row`, and the next miss."""
    known = memory.measured[row:] != UNKNOWN
    left = expected.copy()
    left[row:] = np.minimum(expected[row:], since(row))
    lost: Mask = np.zeros(len(expected), np.bool_)
    lost[row:] = known & (expected[row:] > left[row:])
    if (memory.measured[lost] > left[lost]).any():
        return None
    parents = np.unique(memory.parent[lost])
    if (memory.measured[parents] > 0).sum() < LEAST_LOST:
        return None
    traffic = memory.traffic
    held = (memory.measured != UNKNOWN) & (memory.measured > 0) & (memory.parent >= 0)
    if traffic[lost].min() > traffic[held].max(initial=UNKNOWN):
        return None
    return Emptied(row, left)
