"""What a difference costs: tokens that would be shared without it, equal text behind it, and one example."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prefixscope.breaks.agreement import Gap, moved_agreements, moved_between
from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.found import Found
from prefixscope.breaks.header import Spot
from prefixscope.breaks.sides import Place
from prefixscope.breaks.table import BreakExample

__all__ = ["agreed_behind", "almost_hit", "example"]

_FARTHEST = 400
"""Tokens of a gap from which on it is no difference of form any more."""


def agreed_behind(comparison: Comparison, found: Found) -> int:
    """Tokens behind the first difference that would be shared without it, up to the next difference of another kind."""
    if found.moved:
        return _agreed_in_any_order(comparison)
    total = 0
    for number, gap in enumerate(comparison.walk.gaps):
        if number and not gap.agrees:
            break  # nothing is left: gaps behind which nothing agrees end the walk
        if number and not _explained(comparison, found, gap.new_start, gap.old_start, gap.new_end, gap.old_end):
            break
        total += gap.agrees
    return total


def almost_hit(comparison: Comparison) -> int:
    """Equal text behind the first difference, wherever it stands: in order, and moved from one gap to another."""
    gaps = comparison.walk.gaps
    moved = moved_between(comparison.new.prompt, comparison.old.tokens, gaps)
    return sum([gap.agrees for gap in gaps]) + moved


def _explained(comparison: Comparison, found: Found, a: int, b: int, a_end: int, b_end: int) -> bool:
    if found.explains is None or max(a_end - a, b_end - b) > _FARTHEST:
        return False
    new = comparison.decode(comparison.new, a - 12, min(a_end + 16, comparison.new.prompt_tokens))
    old = comparison.decode(comparison.old, b - 12, b_end + 16)
    return new is not None and old is not None and found.explains(new, old)


def _agreed_in_any_order(comparison: Comparison) -> int:
    """Where text only changed places, everything that is found again counts, up to the last gap that is filled."""
    gaps = comparison.walk.gaps
    new, old = comparison.new.prompt, comparison.old.tokens
    first = comparison.first
    moved = moved_agreements(
        new, old, first, [first, *(end for gap in gaps for end in (gap.new_end, gap.new_end + gap.agrees))]
    )
    total = moved[0]
    for number, gap in enumerate(gaps):
        here, behind = moved[2 * number + 1], moved[2 * number + 2]
        if 2 * (here + 64) < gap.new_end - first:
            break
        total = behind
        if _filled(new, old, gaps[: number + 1]):
            # all that left its place has come to another: what differs behind this is another difference
            return gap.new_end + gap.agrees - first
    return total


def _filled(new: bytes, old: bytes, gaps: Sequence[Gap]) -> bool:
    """Whether the gaps of both sides hold the same tokens in any order."""
    if sum(gap.new_end - gap.new_start for gap in gaps) != sum(gap.old_end - gap.old_start for gap in gaps):
        return False
    ours = b"".join(new[4 * gap.new_start : 4 * gap.new_end] for gap in gaps)
    theirs = b"".join(old[4 * gap.old_start : 4 * gap.old_end] for gap in gaps)
    return np.array_equal(np.sort(np.frombuffer(ours, np.uint32)), np.sort(np.frombuffer(theirs, np.uint32)))


def example(row: int, other: int, comparison: Comparison, found: Found, agreed: int) -> BreakExample:
    first = comparison.first
    left = comparison.decode(comparison.new, first - 24, first)
    old = comparison.decode(comparison.old, first, first + 12)
    new = comparison.decode(comparison.new, first, min(first + 12, comparison.new.prompt_tokens))
    spot = None if found.context is None else _spot(comparison, found)
    return BreakExample(row, other, first, str(found.place), left, old, new, found.detail, agreed, found.cause, spot)


def _spot(comparison: Comparison, found: Found) -> Spot:
    return Spot(found.cause, _spot_part(comparison, found.place), found.context or "", found.also)


def _spot_part(comparison: Comparison, place: Place) -> str:
    if comparison.new.kind != "chat":
        return "text"
    return place.kind if place.kind in ("system", "tools") else "message"
