"""Exact hit curves: how much is reused at every capacity, or for every lifetime, from one pass over the log.

A match unit at stack distance d is a hit for every capacity of d blocks and more. Runs of neighbouring units lie at
evenly spaced distances, so the curve is a sum of ramps: two sorted arrays and their running sums answer any capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from prefixscope.index.lineage import Int64

__all__ = ["CurveModel", "Extras", "HitCurve", "LifetimeCurve", "Ramps", "ramps_of"]

CurveModel = Literal["engine", "lru"]
"""`engine`: with the engine's partly filled and duplicate blocks; `lru`: a textbook per-block LRU."""


@dataclass(frozen=True, slots=True)
class Ramps:
    """Runs of hits one apart: `starts` are first distances, `ends` one past the last, both sorted, with running sums.

    >>> ramps = ramps_of(np.array([3]), np.array([4]), 1)[0]
    >>> [int(ramps.value(np.array([c]))[0]) for c in (2, 3, 5, 6, 100)]
    [0, 1, 3, 4, 4]
    """

    starts: Int64
    start_sums: Int64
    ends: Int64
    end_sums: Int64

    def value(self, at: Int64) -> Int64:
        """Hits at or below each distance: the sum over starts <= c of (c - start + 1), less the same over ends."""
        opened = np.searchsorted(self.starts, at, side="right")
        closed = np.searchsorted(self.ends, at, side="right")
        return (opened - closed) * (at + 1) - self.start_sums[opened] + self.end_sums[closed]


def _running(values: Int64) -> Int64:
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def _sorted(values: Int64) -> Int64:
    """Sorted distances; they are many and lie close together, so counting them is several times faster than sorting."""
    if not len(values) or int(values.max()) > 4 * len(values):
        return np.sort(values)
    counts = np.bincount(values)
    return np.repeat(np.arange(len(counts), dtype=np.int64), counts)


def ramps_of(first: Int64, count: Int64, stride: int) -> tuple[Ramps, ...]:
    """Ramps by residue of the distance modulo `stride`: within one residue class neighbours are one step apart."""
    classes = []
    for residue in range(stride):
        if stride == 1:
            starts, ends = first, first + count
        else:
            mine = first % stride == residue
            starts = first[mine] // stride
            ends = starts + count[mine]
        starts, ends = _sorted(starts), _sorted(ends)
        classes.append(Ramps(starts, _running(starts), ends, _running(ends)))
    return tuple(classes)


@dataclass(frozen=True, slots=True)
class Extras:
    """Partly matched blocks: at `distance` (sorted) the hits grow by `tokens` and `blocks`, which may be negative."""

    distance: Int64
    tokens: Int64
    blocks: Int64

    def sums(self, at: Int64) -> tuple[Int64, Int64]:
        """(tokens, blocks) of all extras at or below each distance."""
        place = np.searchsorted(self.distance, at, side="right")
        return _running(self.tokens)[place], _running(self.blocks)[place]


@dataclass(frozen=True, slots=True)
class HitCurve:
    """Cached tokens and hit blocks of some requests for every capacity in usable blocks (per replica).

    `unit_tokens` U tokens make a match unit of `unit_blocks` blocks. `prompt_tokens` and `prompt_blocks` (a partial
    last block counts as one) are the denominators of the two rates. A request longer than the memory leaves its head
    there, as in a textbook; an engine would refuse it. `upper_bound`: the engine keeps some states only at
    some places, so a finite cache may give less than the curve says.
    """

    model: CurveModel
    block_size: int
    unit_blocks: int
    requests: int
    prompt_tokens: int
    prompt_blocks: int
    ramps: tuple[Ramps, ...]
    extras: Extras
    upper_bound: bool = False

    def __post_init__(self) -> None:
        assert len(self.ramps) == self.unit_blocks
        assert 0 <= self.infinite_tokens <= max(self.prompt_tokens, 0)

    def units_at(self, blocks: npt.ArrayLike) -> Int64:
        """Whole match units hit at each capacity."""
        at = np.asarray(blocks, np.int64)
        total = np.zeros(at.shape, np.int64)
        for residue, ramps in enumerate(self.ramps):
            total += ramps.value((at - residue) // self.unit_blocks)
        return total

    def tokens_at(self, blocks: npt.ArrayLike) -> Int64:
        """Cached prompt tokens at each capacity, int64 of the same shape."""
        extra, _ = self.extras.sums(np.asarray(blocks, np.int64))
        return self.units_at(blocks) * (self.unit_blocks * self.block_size) + extra

    def blocks_at(self, blocks: npt.ArrayLike) -> Int64:
        """Hit blocks at each capacity, int64 of the same shape."""
        _, extra = self.extras.sums(np.asarray(blocks, np.int64))
        return self.units_at(blocks) * self.unit_blocks + extra

    def hits_at(self, blocks: int) -> tuple[int, int]:
        """(cached tokens, hit blocks) at one capacity."""
        return int(self.tokens_at(blocks)), int(self.blocks_at(blocks))

    @property
    def largest_useful_blocks(self) -> int:
        """The capacity from which more memory gives nothing; 0 where nothing is ever reused."""
        ends = [(int(r.ends[-1]) - 1) * self.unit_blocks + k for k, r in enumerate(self.ramps) if len(r.ends)]
        last = int(self.extras.distance[-1]) if len(self.extras.distance) else 0
        return max([*ends, last, 0])

    @property
    def infinite_tokens(self) -> int:
        """Cached tokens of a cache that never evicts."""
        return int(self.tokens_at(np.iinfo(np.int64).max // 2))

    @property
    def infinite_blocks(self) -> int:
        """Hit blocks of a cache that never evicts."""
        return int(self.blocks_at(np.iinfo(np.int64).max // 2))

    def capacity_for(self, tokens: int) -> int | None:
        """The smallest capacity in blocks with at least `tokens` cached; None where no capacity gives that many."""
        if tokens > self.infinite_tokens:
            return None
        low, high = -1, self.largest_useful_blocks
        while high - low > 1:
            middle = (low + high) // 2
            if int(self.tokens_at(middle)) >= tokens:
                high = middle
            else:
                low = middle
        return 0 if tokens <= 0 else high

    def corners(self) -> Int64:
        """All capacities where the curve may bend; between two of them (one residue class) it is a straight line."""
        places = [np.zeros(1, np.int64), self.extras.distance, self.extras.distance - 1]
        for residue, ramps in enumerate(self.ramps):
            for edges in (ramps.starts, ramps.ends):
                places.append((edges - 1) * self.unit_blocks + residue)
                if self.unit_blocks > 1:
                    places.append(edges * self.unit_blocks + residue)
        return np.unique(np.maximum(np.concatenate(places), 0))


@dataclass(frozen=True, slots=True)
class LifetimeCurve:
    """Cached tokens for every lifetime (time since last use, refreshed by use) in a cache of unlimited size.

    `age_ns` is sorted; `cached_tokens[i]` is what a lifetime of at least age_ns[i] gives. Requests without a time
    can't be placed and are counted in `requests_without_time`.
    """

    age_ns: Int64
    cached_tokens: Int64
    prompt_tokens: int
    requests_without_time: int

    def tokens_at(self, seconds: npt.ArrayLike) -> Int64:
        """Cached prompt tokens where a block is found for that many seconds after its last use."""
        limits = np.floor(np.asarray(seconds, np.float64) * 1e9).astype(np.int64)
        return np.concatenate(([0], self.cached_tokens))[np.searchsorted(self.age_ns, limits, side="right")]
