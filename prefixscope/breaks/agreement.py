"""Where two token sequences differ and where they agree again: memcmp and substring search, no alignment matrix.

A *gap* is a stretch of the new sequence and the stretch of the old one that stands in its place; between gaps the
two agree token by token. Gaps are found from left to right by looking for the next few tokens of one side in the
other: close by at first, then anywhere. Work is bounded: few gaps, few look-ups each. Sequences are `bytes` of uint32
ids.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prefixscope.breaks.nearest import agree_close_by, find_piece
from prefixscope.breaks.runs import (
    common_suffix,
    equal_ahead,
    equal_at_same_places,
    equal_behind,
    first_difference,
)
from prefixscope.breaks.stretches import ANCHOR, Found, Occurrences, hashed_stretches, occurrences, occurs

__all__ = [
    "Gap",
    "Walk",
    "anything_moved",
    "common_suffix",
    "equal_ahead",
    "equal_at_same_places",
    "first_difference",
    "moved_agreement",
    "moved_agreements",
    "moved_between",
    "walk",
]

_NEAR, _FAR, _FAR_STEP = 72, 40, 24
_STEPS = (*range(_NEAR), *range(_NEAR, _NEAR + _FAR * _FAR_STEP, _FAR_STEP))
_STEP_ARRAY = np.array(_STEPS, np.int64)
_MOST_GAPS = 24
_SHORT = 120
_FEW_HELD = 2 * ANCHOR
_FEW = 4 * 160
_NOWHERE = 1 << 60


@dataclass(frozen=True, slots=True)
class Gap:
    """new[new_start:new_end] stands where old[old_start:old_end] stood; then `agrees` tokens are equal."""

    new_start: int
    new_end: int
    old_start: int
    old_end: int
    agrees: int


@dataclass(frozen=True, slots=True)
class Walk:
    """All gaps from the first difference on; `complete` when both sequences were followed to the end of one."""

    gaps: tuple[Gap, ...]
    complete: bool


def walk(new: bytes, old: bytes, start: int, most_gaps: int = _MOST_GAPS) -> Walk:
    """The gaps behind `start`, the first token that differs."""
    gaps: list[Gap] = []
    a = b = start
    new_tokens, old_tokens = len(new) // 4, len(old) // 4
    far: _Far | None = None
    close = True
    while a < new_tokens and b < old_tokens:
        if len(gaps) == most_gaps:
            return Walk(tuple(gaps), False)
        found = None if far is not None and not close else agree_close_by(new, old, a, b)
        close = found is not None
        if found is None:
            if far is None and not _may_agree(new, old, a, b):
                tail = common_suffix(new, old, a, b)
                found = (new_tokens - tail, old_tokens - tail) if tail else None
            else:
                far = far or _Far(new, old)
                found = far.agree_again(a, b)
        if found is None:
            gaps.append(Gap(a, new_tokens, b, old_tokens, 0))
            return Walk(tuple(gaps), True)
        next_a, next_b = found
        agrees = equal_ahead(new, next_a, old, next_b)
        gaps.append(Gap(a, next_a, b, next_b, agrees))
        a, b = next_a + agrees, next_b + agrees
    if a < new_tokens or b < old_tokens:
        gaps.append(Gap(a, new_tokens, b, old_tokens, 0))
    return Walk(tuple(gaps), True)


def _may_agree(new: bytes, old: bytes, a: int, b: int) -> bool:
    """Whether one of the stretches that would be looked up stands behind (a, b) in the other sequence."""
    ours, theirs, size = len(new) - 4 * a, len(old) - 4 * b, 4 * ANCHOR
    if min(ours, theirs) < size:
        return False
    if ours + theirs > _FEW:
        new_hashes, old_hashes = hashed_stretches(new)[a:], hashed_stretches(old)[b:]
        return bool(
            occurs(new_hashes[_STEP_ARRAY[: _steps_within(len(new_hashes))]], old_hashes).any()
            or occurs(old_hashes[_STEP_ARRAY[: _steps_within(len(old_hashes))]], new_hashes).any()
        )
    held = {old[place : place + size] for place in range(4 * b, len(old) - size + 1, 4)}
    return any(new[place : place + size] in held for place in range(4 * a, len(new) - size + 1, 4))


def _steps_within(stretches: int) -> int:
    """How many of the steps lie among so many stretches."""
    return bisect_left(_STEPS, stretches)


class _Far:
    """Looks for the next agreement of two sequences anywhere, by the hashes of their stretches."""

    def __init__(self, new: bytes, old: bytes) -> None:
        self._new, self._old = new, old
        ours, theirs = hashed_stretches(new), hashed_stretches(old)
        self._new_in_old = occurrences(ours, theirs)
        self._old_in_new = occurrences(theirs, ours)

    def agree_again(self, a: int, b: int) -> tuple[int, int] | None:
        """The nearest places behind (a, b) where the sides agree for ANCHOR tokens, or to both their ends."""
        new, old = self._new, self._old
        ours = self._distances(new, old, a, b, self._new_in_old)
        theirs = self._distances(old, new, b, a, self._old_in_new)
        # both sides in turn, step by step
        sums = np.empty(2 * len(_STEPS), np.int64)
        sums[::2], sums[1::2] = _STEP_ARRAY + ours, _STEP_ARRAY + theirs
        best = np.minimum.accumulate(sums)
        # of two nearer places one would lie less than half as far: nothing is looked up behind that
        enough = 2 * _STEP_ARRAY[1:] > best[1:-1:2]
        looked_up = 2 * (int(enough.argmax()) + 1) if enough.any() else len(sums)
        if best[looked_up - 1] < _NOWHERE:
            place = int(sums[:looked_up].argmin())
            step = _STEPS[place // 2]
            found = (a + int(theirs[place // 2]), b + step) if place % 2 else (a + step, b + int(ours[place // 2]))
            back = equal_behind(new, found[0], old, found[1], a, b)
            return found[0] - back, found[1] - back
        tail = common_suffix(new, old, a, b)
        return None if not tail else (len(new) // 4 - tail, len(old) // 4 - tail)

    @staticmethod
    def _distances(asked: bytes, held: bytes, at: int, other: int, where: Occurrences) -> npt.NDArray[np.int64]:
        """For every step from `at` in `asked`: how far from `other` the stretch that begins there comes first in
        `held`; _NOWHERE where it does not."""
        distances = np.full(len(_STEPS), _NOWHERE, np.int64)
        places = at + _STEP_ARRAY[: _steps_within(len(where.last) - at)]
        first, last = where.first.take(places), where.last.take(places)
        found = np.flatnonzero(last >= other)
        if len(found):
            distances[found] = first.take(found) - other
            # where it stands in front of `other`, too, the first one behind has to be looked for
            for step in found[first.take(found) < other].tolist():
                start = at + _STEPS[step]
                distances[step] = find_piece(held, asked[4 * start : 4 * (start + ANCHOR)], 4 * other) // 4 - other
        return distances


def moved_agreement(new: bytes, old: bytes, start: int) -> int:
    """Tokens of new[start:] inside stretches of ANCHOR tokens that occur anywhere in old[start:].

    What a cache that is independent of position could at most reuse behind the first difference.

    >>> tokens = np.arange(100, dtype="<u4")
    >>> moved_agreement(np.roll(tokens, 40).tobytes(), tokens.tobytes(), 0)
    100
    """
    a, b = len(new) // 4 - start, len(old) // 4 - start
    if a < ANCHOR or b < ANCHOR:
        return 0
    if b < _FEW_HELD:
        return _moved_of_few(new[4 * start :], old[4 * start :])
    if a + b <= _SHORT:
        return _moved_in_short(new[4 * start :], old[4 * start :])
    return moved_agreements(new, old, start, (len(new) // 4,))[0]


def anything_moved(new: bytes, olds: Sequence[tuple[bytes, int]]) -> bool:
    """Whether `moved_agreement` can give anything for one of several old sequences, each from its own start on."""
    held = [hashed_stretches(old)[start:] for old, start in olds]
    start = min((start for _, start in olds), default=0)
    return bool(held) and bool(occurs(hashed_stretches(new)[start:], np.concatenate(held)).any())


def moved_agreements(new: bytes, old: bytes, start: int, ends: Sequence[int]) -> list[int]:
    """The same for new[start:end], for each of several ends."""
    if len(old) // 4 - start < ANCHOR:
        return [0] * len(ends)
    found = occurs(hashed_stretches(new)[start:], hashed_stretches(old)[start:])
    return _covered(found, [end - start for end in ends])


def _covered(found: Found, ends: Sequence[int]) -> list[int]:
    """Of the first so many tokens, those inside the stretches that were found and end among them."""
    starts = np.flatnonzero(found)
    if not len(starts):
        return [0] * len(ends)
    until = np.concatenate(([0], np.cumsum(np.minimum(np.diff(starts), ANCHOR))))
    counts = np.searchsorted(starts, np.asarray(ends) - ANCHOR, side="right").tolist()
    return [int(until[count - 1]) + ANCHOR if count else 0 for count in counts]


def moved_between(new: bytes, old: bytes, gaps: Sequence[Gap]) -> int:
    """Tokens inside stretches of ANCHOR tokens that stand in the gaps of both sides; gaps are read as if they were
    joined."""
    if len(gaps) == 1 and gaps[0].new_end == len(new) // 4 and gaps[0].old_end == len(old) // 4:
        (gap,) = gaps
        a, b = gap.new_end - gap.new_start, gap.old_end - gap.old_start
        if a + b > _SHORT and min(a, b) >= ANCHOR:
            ours, theirs = hashed_stretches(new)[gap.new_start :], hashed_stretches(old)[gap.old_start :]
            return _covered(occurs(ours, theirs), (a,))[0]
    return moved_agreement(
        b"".join([new[4 * gap.new_start : 4 * gap.new_end] for gap in gaps]),
        b"".join([old[4 * gap.old_start : 4 * gap.old_end] for gap in gaps]),
        0,
    )


def _moved_of_few(new: bytes, old: bytes) -> int:
    """The same for an old side of a few stretches, each of which is looked for."""
    size = 4 * ANCHOR
    starts = set()
    for held in {old[place : place + size] for place in range(0, len(old) - size + 1, 4)}:
        place = find_piece(new, held)
        while place >= 0:
            starts.add(place)
            place = find_piece(new, held, place + 4)
    covered = until = 0
    for start in sorted(starts):
        covered += start + size - max(start, until)
        until = start + size
    return covered // 4


def _moved_in_short(new: bytes, old: bytes) -> int:
    """The same without arrays, which cost more than short stretches do."""
    size = 4 * ANCHOR
    held = {old[place : place + size] for place in range(0, len(old) - size + 1, 4)}
    covered = until = 0
    for place in range(0, len(new) - size + 1, 4):
        if new[place : place + size] in held:
            covered += place + size - max(place, until)
            until = place + size
    return covered // 4
