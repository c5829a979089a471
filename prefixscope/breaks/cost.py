"""What a difference costs: tokens that would be shared without it, equal text behind it, and one example."""

from __future__ import annotations

from prefixscope.breaks.agreement import moved_agreement
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
        if number and not _explained(comparison, found, gap.new_start, gap.old_start, gap.new_end, gap.old_end):
            break
        total += gap.agrees
    return total


def almost_hit(comparison: Comparison) -> int:
    """Equal text behind the first difference, wherever it stands: in order, and moved from one gap to another."""
    gaps = comparison.walk.gaps
    new, old = comparison.new.prompt, comparison.old.tokens
    ours = b"".join(new[4 * gap.new_start : 4 * gap.new_end] for gap in gaps)
    theirs = b"".join(old[4 * gap.old_start : 4 * gap.old_end] for gap in gaps)
    return sum(gap.agrees for gap in gaps) + moved_agreement(ours, theirs, 0)


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
    end = comparison.first
    for gap in gaps:
        here = moved_agreement(new[: 4 * gap.new_end], old, comparison.first)
        if 2 * (here + 64) < gap.new_end - comparison.first:
            break
        end = gap.new_end + gap.agrees
    return moved_agreement(new[: 4 * end], old, comparison.first)


def example(row: int, other: int, comparison: Comparison, found: Found, agreed: int) -> BreakExample:
    first = comparison.first
    left = comparison.decode(comparison.new, first - 24, first)
    old = comparison.decode(comparison.old, first, first + 12)
    new = comparison.decode(comparison.new, first, min(first + 12, comparison.new.prompt_tokens))
    spot = None if found.context is None else Spot(found.cause, _spot_part(comparison, found.place), found.context)
    return BreakExample(row, other, first, str(found.place), left, old, new, found.detail, agreed, found.cause, spot)


def _spot_part(comparison: Comparison, place: Place) -> str:
    if comparison.new.kind != "chat":
        return "text"
    return place.kind if place.kind in ("system", "tools") else "message"
