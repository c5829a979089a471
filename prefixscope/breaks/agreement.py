"""Where two token sequences differ and where they agree again: memcmp and substring search, no alignment matrix.

A *gap* is a stretch of the new sequence and the stretch of the old one that stands in its place; between gaps the
two agree token by token. Gaps are found from left to right by looking for the next few tokens of one side in the
other. Work is bounded: few gaps, few look-ups each. Sequences are `bytes` of uint32 ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prefixscope.index.tree import common_prefix_bytes

__all__ = ["Gap", "Walk", "common_suffix", "equal_at_same_places", "first_difference", "moved_agreement", "walk"]

ANCHOR = 12
"""So many tokens must agree before two places count as the same place."""
_NEAR, _FAR, _FAR_STEP = 72, 40, 24
_MOST_GAPS = 24
_SHORT = 600


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


def first_difference(new: bytes, old: bytes) -> int:
    """Tokens both begin with.

    >>> first_difference(b"aaaabbbb", b"aaaacccc")
    1
    """
    return common_prefix_bytes(new, old, 0) // 4


def common_suffix(new: bytes, old: bytes, new_floor: int, old_floor: int) -> int:
    """Tokens both end with, not reaching below the floors."""
    most = min(len(new) // 4 - new_floor, len(old) // 4 - old_floor)
    if most <= 0:
        return 0
    a = np.frombuffer(new, "<u4")[len(new) // 4 - most :]
    b = np.frombuffer(old, "<u4")[len(old) // 4 - most :]
    differs = np.flatnonzero(a != b)
    return most if not len(differs) else most - 1 - int(differs[-1])


def equal_at_same_places(new: bytes, old: bytes, start: int) -> int:
    """How many tokens from `start` on are equal at equal positions."""
    end = min(len(new), len(old)) // 4
    if end <= start:
        return 0
    a = np.frombuffer(new, "<u4", count=end - start, offset=4 * start)
    b = np.frombuffer(old, "<u4", count=end - start, offset=4 * start)
    return int(np.count_nonzero(a == b))


def walk(new: bytes, old: bytes, start: int, most_gaps: int = _MOST_GAPS) -> Walk:
    """The gaps behind `start`, the first token that differs."""
    gaps: list[Gap] = []
    a = b = start
    new_tokens, old_tokens = len(new) // 4, len(old) // 4
    while a < new_tokens and b < old_tokens:
        if len(gaps) == most_gaps:
            return Walk(tuple(gaps), False)
        found = _agree_again(new, old, a, b)
        if found is None:
            gaps.append(Gap(a, new_tokens, b, old_tokens, 0))
            return Walk(tuple(gaps), True)
        next_a, next_b = found
        agrees = common_prefix_bytes(new[4 * next_a :], old, 4 * next_b) // 4
        gaps.append(Gap(a, next_a, b, next_b, agrees))
        a, b = next_a + agrees, next_b + agrees
    if a < new_tokens or b < old_tokens:
        gaps.append(Gap(a, new_tokens, b, old_tokens, 0))
    return Walk(tuple(gaps), True)


def _agree_again(new: bytes, old: bytes, a: int, b: int) -> tuple[int, int] | None:
    """The nearest places behind (a, b) where the sides agree for ANCHOR tokens, or to both their ends."""
    steps = [*range(_NEAR), *range(_NEAR, _NEAR + _FAR * _FAR_STEP, _FAR_STEP)]
    new_tokens, old_tokens = len(new) // 4, len(old) // 4
    best: tuple[int, int] | None = None
    for step in steps:
        if best is not None and 2 * step > best[0] - a + best[1] - b:
            break  # of two nearer places one would lie less than half as far
        if a + step + ANCHOR <= new_tokens:
            place = _find(old, new[4 * (a + step) : 4 * (a + step + ANCHOR)], b)
            if place >= 0:
                best = _nearer(best, (a + step, place), a, b)
        if b + step + ANCHOR <= old_tokens:
            place = _find(new, old[4 * (b + step) : 4 * (b + step + ANCHOR)], a)
            if place >= 0:
                best = _nearer(best, (place, b + step), a, b)
    if best is not None:
        back = common_suffix(new[: 4 * best[0]], old[: 4 * best[1]], a, b)
        return best[0] - back, best[1] - back
    tail = common_suffix(new, old, a, b)
    return None if not tail else (new_tokens - tail, old_tokens - tail)


def _nearer(best: tuple[int, int] | None, other: tuple[int, int], a: int, b: int) -> tuple[int, int]:
    return other if best is None or sum(other) < sum(best) else best


def _find(tokens: bytes, piece: bytes, start: int) -> int:
    """The place of `piece` in `tokens` from token `start` on; -1 where it is not."""
    place = tokens.find(piece, 4 * start)
    while place >= 0 and place % 4:
        place = tokens.find(piece, place + 1)
    return -1 if place < 0 else place // 4


def moved_agreement(new: bytes, old: bytes, start: int) -> int:
    """Tokens of new[start:] inside stretches of ANCHOR tokens that occur anywhere in old[start:].

    What a cache that is independent of position could at most reuse behind the first difference.

    >>> tokens = np.arange(100, dtype="<u4")
    >>> moved_agreement(np.roll(tokens, 40).tobytes(), tokens.tobytes(), 0)
    100
    """
    a, b = np.frombuffer(new, "<u4")[start:], np.frombuffer(old, "<u4")[start:]
    if len(a) < ANCHOR or len(b) < ANCHOR:
        return 0
    if len(a) + len(b) <= _SHORT:
        return _moved_in_short(a.tobytes(), b.tobytes())
    hits = np.flatnonzero(np.isin(_rolled(a), np.unique(_rolled(b))))
    covered = np.zeros(len(a) + 1, np.int64)
    np.add.at(covered, hits, 1)
    np.add.at(covered, hits + ANCHOR, -1)
    return int(np.count_nonzero(np.cumsum(covered[:-1])))


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


def _rolled(values: np.ndarray) -> np.ndarray:
    """A hash of every stretch of ANCHOR tokens."""
    hashed = np.zeros(len(values) - ANCHOR + 1, np.uint64)
    with np.errstate(over="ignore"):
        for place in range(ANCHOR):
            hashed = (
                hashed * np.uint64(0x9E3779B97F4A7C15)
                + values[place : place + len(hashed)].astype(np.uint64)
                + np.uint64(1)
            )
    return hashed
