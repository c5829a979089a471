"""The capacity part of a report for one pool: exact points of the curve, and what to pick."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prefixscope.capacity.curve import CurveModel, HitCurve
from prefixscope.capacity.distances import ReuseDistances, memory_groups, stored_lineage
from prefixscope.capacity.pick import Recommendation, RunningNeed, recommend
from prefixscope.engines.profile import EngineProfile
from prefixscope.results import rate
from prefixscope.results.capacity import CapacityPoint

__all__ = ["CapacityPoint", "CapacitySummary", "approximation", "point_at", "round_capacities", "summarize"]


@dataclass(frozen=True, slots=True)
class CapacitySummary:
    """`unique_blocks`: different full blocks ever stored (in all replicas). `model`: what the curve is of.

    `points` are exact; `largest_useful_blocks` is where the curve ends. `upper_bound`: see HitCurve.
    """

    model: CurveModel
    block_size: int
    block_bytes: int | None
    unique_blocks: int
    largest_useful_blocks: int
    infinite_tokens: int
    points: tuple[CapacityPoint, ...]
    recommended: Recommendation
    upper_bound: bool


def summarize(
    distances: ReuseDistances, running: RunningNeed, *, where: npt.NDArray[np.bool_] | None = None,
    asked: Sequence[int] = (), block_bytes: int | None = None,
) -> CapacitySummary:  # fmt: skip
    """Points at round capacities and at those asked for (in blocks); the first asked is the user's size."""
    curve = distances.curve(where)
    picked = recommend(curve, running, block_bytes=block_bytes, at_blocks=asked[0] if asked else None)
    wanted = {*round_capacities(curve.largest_useful_blocks), *asked}
    wanted.update(blocks for _, blocks in picked.cache_blocks_by_share)
    return CapacitySummary(
        model=distances.model,
        block_size=curve.block_size,
        block_bytes=block_bytes,
        unique_blocks=_unique_blocks(distances, where),
        largest_useful_blocks=curve.largest_useful_blocks,
        infinite_tokens=curve.infinite_tokens,
        points=tuple(point_at(curve, blocks, block_bytes, blocks in asked) for blocks in sorted(wanted)),
        recommended=picked,
        upper_bound=curve.upper_bound,
    )


def point_at(curve: HitCurve, blocks: int, block_bytes: int | None = None, asked: bool = False) -> CapacityPoint:
    """The exact value of the curve at one capacity."""
    tokens, hits = curve.hits_at(blocks)
    size = None if block_bytes is None else blocks * block_bytes
    return CapacityPoint(
        blocks, size, tokens, rate(tokens, curve.prompt_tokens), hits, rate(hits, curve.prompt_blocks), asked
    )


def round_capacities(largest: int) -> list[int]:
    """1, 2, 5, 10, ... up to the first that is enough for everything, the last five decades only.

    >>> round_capacities(300)
    [1, 2, 5, 10, 20, 50, 100, 200, 500]
    """
    found = [1]
    while found[-1] < largest:
        digits = str(found[-1])
        found.append(found[-1] * 5 // 2 if digits[0] == "2" else found[-1] * 2)
    return found[-16:]


def _unique_blocks(distances: ReuseDistances, where: npt.NDArray[np.bool_] | None) -> int:
    block = distances.profile.block_size
    total = 0
    for rows, members in memory_groups(distances.lineage):
        _, shared, kept = stored_lineage(members, distances.profile)
        mine = slice(None) if where is None else where[rows]
        total += int((kept // block - shared // block)[mine].sum())
    return total


def approximation(profile: EngineProfile) -> str | None:
    """Where the curve of this engine is not exact, in words; None where requests one after another give just this.

    The sizes of the differences are measured in tests/capacity/test_approximations.py and told in docs/capacity.md.
    """
    said = []
    if profile.platform == "hosted":
        said.append("the provider sizes its memory and names no order of eviction: this is an LRU of its increments")
    elif profile.eviction == "leaf-lru":
        said.append("whole leaves of the tree are evicted, not pages one by one: this is a textbook LRU of pages")
    elif profile.eviction == "slot-lru":
        said.append("whole slots are overwritten, not tokens one by one: this is a textbook LRU of tokens")
    elif profile.eviction == "leaf-priority-lru":
        said.append("blocks stored twice and partly matched ones are moved in ways that one pass can't follow")
    if profile.grouping is not None:
        said.append("states of some layers are kept only at some places: an upper bound")
    if (profile.drop_units or profile.lookahead_tokens) and profile.eviction == "lru":
        said.append("which of two copies of an unmatched block stays depends on the size: one pass can't be exact")
    return "approximate: " + "; ".join(said) if said else None
