"""Stretches of ANCHOR tokens, hashed: where those of one sequence stand in another, in a few passes over arrays.

A hash of 64 bits stands for a stretch; two stretches are taken for equal when their hashes are, and whoever goes on
from a place compares the tokens themselves. Hashes of the sequences seen last are kept, for a request is first the new
side of comparisons and then the old side of several.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["ANCHOR", "Occurrences", "hashed_stretches", "occurrences", "occurs"]

ANCHOR = 12
"""So many tokens must agree before two places count as the same place."""

Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int32]
Found = npt.NDArray[np.bool_]

_ROOM = 32 << 20
_ODD = 0x9E3779B97F4A7C15
_POWERS = tuple(np.uint64(pow(_ODD, power, 1 << 64)) for power in (1, 2, 4))
_SPARSE = 4
"""Bits by which a table is wider than what is put into it."""


class _Recent:
    """Arrays by their tokens, the latest used, within `_ROOM` bytes."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Hashes] = OrderedDict()
        self._bytes = 0

    def of(self, tokens: bytes) -> Hashes:
        found = self._kept.get(tokens)
        if found is not None:
            self._kept.move_to_end(tokens)
            return found
        found = self._kept[tokens] = _hashed(np.frombuffer(tokens, "<u4"))
        self._bytes += len(tokens) + found.nbytes
        while self._bytes > _ROOM and len(self._kept) > 1:
            gone, hashes = self._kept.popitem(last=False)
            self._bytes -= len(gone) + hashes.nbytes
        return found


_RECENT = _Recent()


def hashed_stretches(tokens: bytes) -> Hashes:
    """The hash of every stretch of ANCHOR tokens, by the place where it begins."""
    return _RECENT.of(tokens)


def _hashed(values: npt.NDArray[np.uint32]) -> Hashes:
    if len(values) < ANCHOR:
        return np.zeros(0, np.uint64)
    one, two, four = _POWERS
    by_one = values.astype(np.uint64)
    by_one += np.uint64(1)
    by_two = by_one[:-1] * one + by_one[1:]
    by_four = by_two[:-2] * two + by_two[2:]
    by_eight = by_four[:-4] * four + by_four[4:]
    hashed = by_eight[:-4] * four
    hashed += by_four[8:]
    hashed *= one  # the last token, too, reaches the high bits, which choose the slot
    return hashed


@dataclass(frozen=True, slots=True)
class Occurrences:
    """For every asked stretch, the first and the last place where it stands; -1 where it does not."""

    first: Places
    last: Places


def occurs(asked: Hashes, held: Hashes) -> Found:
    """Whether each asked hash is among those held.

    >>> occurs(np.array([3, 1 << 60, 9], np.uint64), np.array([9, 3, 3], np.uint64)).tolist()
    [True, False, True]
    """
    return _places(asked, held, last=True) >= 0


def occurrences(asked: Hashes, held: Hashes) -> Occurrences:
    """Where each asked hash stands among those held.

    >>> found = occurrences(np.array([3, 7], np.uint64), np.array([9, 3, 3], np.uint64))
    >>> found.first.tolist(), found.last.tolist()
    ([1, -1], [2, -1])
    """
    return Occurrences(_places(asked, held, last=False), _places(asked, held, last=True))


_TABLES: dict[int, Places] = {}
"""Scratch tables by their size in bits; what an earlier call left in them is told by comparing, not by clearing."""
_LARGEST = 20


def _places(asked: Hashes, held: Hashes, *, last: bool) -> Places:
    if not len(held) or not len(asked):
        return np.full(len(asked), -1, np.int32)
    bits = max(len(held).bit_length() + _SPARSE, 1)
    table = _TABLES.get(bits)
    if table is None:
        table = np.zeros(1 << bits, np.int32)
        if bits <= _LARGEST:
            _TABLES[bits] = table
    shift = np.uint64(64 - bits)
    slots = (held >> shift).view(np.int64)
    numbers = np.arange(len(held), dtype=np.int32)
    # of several that share a slot the one written last stays
    if last:
        table[slots] = numbers
    else:
        table[slots[::-1]] = numbers[::-1]
    asked_slots = (asked >> shift).view(np.int64)
    places = table.take(asked_slots)
    np.minimum(places, len(held) - 1, out=places)
    missed = np.flatnonzero(held.take(places) != asked)
    if len(missed):
        # only where a slot is taken can it have been taken from another
        beaten = missed[slots.take(places.take(missed)) == asked_slots.take(missed)]
        places[missed] = -1
        collided = np.flatnonzero(held.take(table.take(slots)) != held) if len(beaten) else beaten
        if len(collided):
            places[beaten] = _sorted_places(asked[beaten], held[collided], collided.astype(np.int32), last=last)
    return places


def _sorted_places(asked: Hashes, held: Hashes, places: Places, *, last: bool) -> Places:
    """The same by bisection, for the few that lost their slot to another; `places` are theirs, ascending."""
    order = np.argsort(held, kind="stable")
    ranked = held[order]
    at = np.searchsorted(ranked, asked, side="right" if last else "left")
    at = np.maximum(at - 1, 0) if last else np.minimum(at, len(held) - 1)
    return np.where(ranked[at] == asked, places[order[at]], np.int32(-1))
