"""Of several earlier requests, the one whose text agrees most with a new one behind their difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prefixscope.breaks.agreement import anything_moved, equal_at_same_places, first_difference, moved_agreement

__all__ = ["MOST_CANDIDATES", "RELATED", "best_of"]

MOST_CANDIDATES = 16
"""So many earlier requests are looked at, the latest first."""
RELATED = 16
"""Tokens two requests must have in common, in front of the difference or behind it, to be compared at all."""
_MOST_MOVED = 4


def best_of(new: bytes, others: Sequence[int], tokens_of: Callable[[int], bytes]) -> int | None:
    """The row with most equal tokens at equal positions behind the first difference; ties go to the latest.

    `others` are rows, latest first. None where none of them has enough in common.
    """
    scored = []
    for other in others[:MOST_CANDIDATES]:
        old = tokens_of(other)
        first = first_difference(new, old)
        scored.append((equal_at_same_places(new, old, first), first, other))
    if not scored:
        return None
    rest = max(len(new) // 4 - min(first for _, first, _ in scored), 1)
    if max(equal for equal, _, _ in scored) * 4 >= rest:
        return max(scored, key=lambda one: (one[0], one[2]))[2]
    return _best_moved(new, scored, tokens_of)


def _best_moved(new: bytes, scored: Sequence[tuple[int, int, int]], tokens_of: Callable[[int], bytes]) -> int | None:
    """Where little agrees at equal positions: among rows with half as much equal text at any place as the best one,
    the row with most at equal positions."""
    nearest = sorted(scored, key=lambda one: (-one[1], -one[2]))[:_MOST_MOVED]
    moves = anything_moved(new, [(tokens_of(other), first) for _, first, other in nearest])
    agreed = {}
    for equal, first, other in nearest:
        moved = moved_agreement(new, tokens_of(other), first) if moves else 0
        agreed[other] = (first + max(equal, moved), equal)
    most = max(total for total, _ in agreed.values())
    if most < min(RELATED, max(len(new) // 16, 1)):
        return None
    near = {other: equal for other, (total, equal) in agreed.items() if 2 * total >= most}
    return max(near, key=lambda other: (near[other], other))
