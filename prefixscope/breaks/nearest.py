"""The nearest place behind a difference where two token sequences agree again, looked for close by."""

from __future__ import annotations

from prefixscope.breaks.runs import equal_behind
from prefixscope.breaks.stretches import ANCHOR

__all__ = ["agree_close_by", "find_piece", "find_tokens", "none_nearer"]

_CLOSE = 40
"""So many steps are looked up close by first, in a window that holds every place nearer than twice as many tokens."""
_BLOCK = ANCHOR // 2
_WINDOW = 2 * _CLOSE + ANCHOR


def agree_close_by(new: bytes, old: bytes, a: int, b: int) -> tuple[int, int] | None:
    """The nearest places behind (a, b) where the sides agree for ANCHOR tokens, if one is proven the nearest by looking
    close by; None where that is not enough."""
    ours, theirs = new[4 * a : 4 * (a + _WINDOW)], old[4 * b : 4 * (b + _WINDOW)]
    size = 4 * ANCHOR
    best_a = best_b = 0
    nearest = 1 << 60
    for step in range(0, 4 * _CLOSE, 4):
        if 2 * step > nearest:
            break  # of two nearer places one would lie less than half as far
        if step + size <= len(ours):
            place = theirs.find(ours[step : step + size])
            if place % 4 and place > 0:
                place = find_piece(theirs, ours[step : step + size], place + 1)
            if place >= 0 and step + place < nearest:
                best_a, best_b, nearest = step, place, step + place
        if step + size <= len(theirs):
            place = ours.find(theirs[step : step + size])
            if place % 4 and place > 0:
                place = find_piece(ours, theirs[step : step + size], place + 1)
            if place >= 0 and step + place < nearest:
                best_a, best_b, nearest = place, step, step + place
    else:
        return None  # a place further on, or not looked at yet, may be nearer
    best_a, best_b = a + best_a // 4, b + best_b // 4
    back = equal_behind(new, best_a, old, best_b, a, b)
    return best_a - back, best_b - back


def none_nearer(new: bytes, old: bytes, a: int, b: int, end_a: int, end_b: int) -> bool:
    """Whether the sides surely agree nowhere nearer to (a, b) than at (end_a, end_b), where they do for ANCHOR tokens
    and not one token before.

    An agreement holds one of the blocks of half its length into which a side is cut; none of those that begin in front
    of its own end or just behind it may stand on the other side, but at the known place.
    """
    reach = (end_a - a) + (end_b - b) + ANCHOR
    return _blocks_differ(new, old, (a, b), (end_a, end_b), reach) and _blocks_differ(
        old, new, (b, a), (end_b, end_a), reach
    )


def _blocks_differ(new: bytes, old: bytes, start: tuple[int, int], end: tuple[int, int], reach: int) -> bool:
    window = old[4 * start[1] : 4 * (start[1] + reach)]
    for place in range(start[0], end[0] + _BLOCK, _BLOCK):
        block = new[4 * place : 4 * (place + _BLOCK)]
        at = find_piece(window, block)
        if at >= 0 and (place < end[0] or at != 4 * (place - end[0] + end[1] - start[1])):
            return False
        if at >= 0 and find_piece(window, block, at + 4) >= 0:
            return False
    return True


def find_tokens(tokens: bytes, piece: bytes, start: int, until: int) -> int:
    """The first token from `start` on at which `piece` stands, within the first `until` bytes; -1 where it does not."""
    place = tokens.find(piece, 4 * start, until)
    while place >= 0 and place % 4:
        place = tokens.find(piece, place + 1, until)
    return place // 4 if place >= 0 else -1


def find_piece(tokens: bytes, piece: bytes, start: int = 0) -> int:
    """The byte of a whole token at which `piece` stands in `tokens`, from byte `start` on; -1 where it does not."""
    place = tokens.find(piece, start)
    while place >= 0 and place % 4:
        place = tokens.find(piece, place + 1)
    return place
