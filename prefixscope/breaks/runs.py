"""How far two token sequences are equal from a pair of places on, forwards, backwards, or place by place: memcmp."""

from __future__ import annotations

import numpy as np

__all__ = ["common_suffix", "equal_ahead", "equal_at_same_places", "equal_behind", "first_difference"]

_CHUNK = 256
"""Bytes that are told apart by the lowest bit in which they differ; longer pieces are compared as a whole first."""


def first_difference(new: bytes, old: bytes) -> int:
    """Tokens both begin with.

    >>> first_difference(b"aaaabbbb", b"aaaacccc")
    1
    """
    return equal_ahead(new, 0, old, 0)


def equal_ahead(new: bytes, at: int, old: bytes, other: int) -> int:
    """Tokens that new[at:] and old[other:] begin with alike; places are tokens."""
    at, other = 4 * at, 4 * other
    most = min(len(new) - at, len(old) - other)
    good, step = 0, _CHUNK
    while good < most:
        size = min(step, most - good)
        ours, theirs = new[at + good : at + good + size], old[other + good : other + good + size]
        if ours == theirs:
            good += size
            step *= 2
        elif size <= _CHUNK:
            bits = int.from_bytes(ours, "little") ^ int.from_bytes(theirs, "little")
            return (good + ((bits & -bits).bit_length() - 1) // 8) // 4
        else:
            most, step = good + size, max(size // 8, _CHUNK)
    return good // 4


def common_suffix(new: bytes, old: bytes, new_floor: int, old_floor: int) -> int:
    """Tokens both end with, not reaching below the floors."""
    return equal_behind(new, len(new) // 4, old, len(old) // 4, new_floor, old_floor)


def equal_behind(new: bytes, end: int, old: bytes, other_end: int, new_floor: int, old_floor: int) -> int:
    """Tokens that new[:end] and old[:other_end] end with alike, not reaching below the floors."""
    most = 4 * min(end - new_floor, other_end - old_floor)
    end, other_end = 4 * end, 4 * other_end
    good, step = 0, 64
    while good < most:
        size = min(step, most - good)
        ours = new[end - good - size : end - good]
        theirs = old[other_end - good - size : other_end - good]
        if ours == theirs:
            good += size
            step *= 2
        elif size <= _CHUNK:
            bits = int.from_bytes(ours, "little") ^ int.from_bytes(theirs, "little")
            return (good + (8 * size - bits.bit_length()) // 8) // 4
        else:
            most, step = good + size, max(size // 8, _CHUNK)
    return max(good, 0) // 4


def equal_at_same_places(new: bytes, old: bytes, start: int) -> int:
    """How many tokens from `start` on are equal at equal positions."""
    end = min(len(new), len(old)) // 4
    if end <= start:
        return 0
    a = np.frombuffer(new, "<u4", count=end - start, offset=4 * start)
    b = np.frombuffer(old, "<u4", count=end - start, offset=4 * start)
    return int(np.count_nonzero(a == b))
