"""Clocks, dates and ids in text, recognised only where two texts really differ.

A stretch counts as volatile when both sides have one of the same shape at the same place and the texts agree again
behind it. A text that merely looks like a date, equal on both sides, is never looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from prefixscope.breaks.id_labels import LABELS
from prefixscope.breaks.volatile_forms import from_digit, whole
from prefixscope.breaks.volatile_places import beginnings

__all__ = ["Volatile", "VolatileWalk", "all_stretches", "common_chars", "stretch_at", "volatile_walk"]

VolatileKind = Literal["timestamp", "date", "volatile_id"]

_WORD = re.compile(r"[A-Za-z0-9_+/=\-]")
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])")
_LAST_WORD = re.compile(r"[A-Za-z]+$")
_BEFORE, _AFTER = 48, 96
_CHUNK = 48
ENOUGH = 12
"""Characters that must agree behind a volatile stretch (or all there are)."""


@dataclass(frozen=True, slots=True)
class Volatile:
    """One stretch: new[new_start:new_end] against old[old_start:old_end]."""

    kind: VolatileKind
    new_start: int
    new_end: int
    old_start: int
    old_end: int


@dataclass(frozen=True, slots=True)
class VolatileWalk:
    """The volatile stretches passed from the first difference on, and where the walk ended in both texts."""

    stretches: tuple[Volatile, ...]
    new_end: int
    old_end: int
    complete: bool

    @property
    def proven(self) -> bool:
        """Whether the first difference is volatile and enough text agrees behind it."""
        if not self.stretches:
            return False
        agreed = self.new_end - self.stretches[0].new_end
        return self.complete or agreed >= ENOUGH


def common_chars(one: str, other: str, at: int = 0, other_at: int = 0) -> int:
    """Characters that one[at:] and other[other_at:] begin with alike.

    >>> common_chars("abcd", "xxabzz", 0, 2)
    2
    """
    most = min(len(one) - at, len(other) - other_at)
    good, step = 0, _CHUNK
    while good < most:
        size = min(step, most - good)
        ours, theirs = one[at + good : at + good + size], other[other_at + good : other_at + good + size]
        if ours == theirs:
            good += size
            step *= 2
        elif size <= _CHUNK:
            bits = _as_number(ours) ^ _as_number(theirs)
            return good + ((bits & -bits).bit_length() - 1) // 32
        else:
            most, step = good + size, max(size // 8, _CHUNK)
    return good


def _as_number(text: str) -> int:
    """Characters as digits of 32 bits, the first one lowest."""
    return int.from_bytes(text.encode("utf-32-le", "surrogatepass"), "little")


def volatile_walk(new: str, old: str, most: int = 64) -> VolatileWalk:
    """Walks both texts from their beginning over equal text and volatile stretches, to the first other difference.

    >>> walked = volatile_walk("It is 20:37:52. You are", "It is 9:37:19. You are")
    >>> walked.proven, walked.stretches[0].kind, walked.complete
    (True, 'timestamp', True)
    >>> volatile_walk("id 9f2c: a", "id 71ab: a").stretches[0].kind, volatile_walk("on 2 May", "on 2 May").proven
    ('volatile_id', False)
    """
    at = other = 0
    found: list[Volatile] = []
    while True:
        same = common_chars(new, old, at, other)
        at, other = at + same, other + same
        if at == len(new) and other == len(old):
            return VolatileWalk(tuple(found), at, other, True)
        if len(found) == most:
            return VolatileWalk(tuple(found), at, other, False)
        floor = found[-1].new_end if found else 0
        stretch = _stretch(new, old, at, other, at - min(at - floor, same if found else at))
        if stretch is None:
            return VolatileWalk(tuple(found), at, other, False)
        found.append(stretch)
        at, other = stretch.new_end, stretch.old_end


def _stretch(new: str, old: str, at: int, other: int, floor: int) -> Volatile | None:
    """The volatile stretch that holds the first difference new[at] | old[other]; it begins at or before it."""
    back = min(at - floor, _BEFORE)
    ours = _match(new, at, at - back)
    if ours is not None:
        theirs = _match(old, other, other - back)
        if theirs is not None and at - ours.start() == other - theirs.start():
            kind = "timestamp" if "timestamp" in (ours.lastgroup, theirs.lastgroup) else ours.lastgroup
            if _is_id_run(new, ours) and _is_id_run(old, theirs):
                kind = "volatile_id"
            if ours[0].isdigit() and _is_labelled(new, ours.start()):
                kind = "volatile_id"  # so many digits, and called an id
            return Volatile(kind, ours.start(), ours.end(), theirs.start(), theirs.end())  # type: ignore[arg-type]
    return _id(new, old, at, other, floor)


def _match(text: str, at: int, floor: int) -> re.Match[str] | None:
    for match in _matches(text, floor, at, at + _AFTER):
        if at <= match.end() and (at < match.end() or text[at - 1].isalnum()):
            return match
    return None


def _matches(text: str, start: int, last: int, end: int) -> Iterator[re.Match[str]]:
    """What `whole().finditer(text, start, end)` gives, up to those that begin at `last`."""
    for place in beginnings(text, start, last):
        if place >= start:
            match = (from_digit() if text[place].isdigit() else whole()).match(text, place, end)
            if match is not None:
                yield match
                start = match.end()  # matches do not overlap


def _is_id_run(text: str, match: re.Match[str]) -> bool:
    """Whether a clock-like stretch is only a piece of a longer word."""
    before = text[match.start() - 1] if match.start() else " "
    after = text[match.end()] if match.end() < len(text) else " "
    return any(sign == "_" or (sign.isascii() and sign.isalnum()) for sign in (before, after))


def _id(new: str, old: str, at: int, other: int, floor: int) -> Volatile | None:
    """An id, counter or nonce: a word with digits on one side at least, or any word behind a label such as `id:`."""
    start = at
    while start > floor and at - start < 200 and _WORD.match(new[start - 1]):
        start -= 1
    new_end, old_end = _word_end(new, at), _word_end(old, other)
    old_start = other - (at - start)
    counters = _grouped(new, at, floor), _grouped(old, other, 0)
    if counters[0] is not None and counters[1] is not None and at - counters[0][0] == other - counters[1][0]:
        return Volatile("volatile_id", *counters[0], *counters[1])
    ours, theirs = new[start:new_end], old[old_start:old_end]
    if not ours or not theirs:
        return None
    labelled = _is_labelled(new, start)
    if not _like_ids(ours, theirs, labelled):
        return None
    return Volatile("volatile_id", start, new_end, old_start, old_end)


def _grouped(text: str, at: int, floor: int) -> tuple[int, int] | None:
    """Where a number with commas between its thousands stands that holds a place."""
    for match in _GROUPED.finditer(text, max(at - 16, floor), at + 16):
        if match.start() <= at < match.end():
            return match.span()
    return None


def _is_labelled(text: str, start: int) -> bool:
    """Whether a word such as `id` or `request` stands in front, with nothing but signs between."""
    word = _LAST_WORD.search(text[max(0, start - 24) : start].rstrip(" \t\n\"'`:=#>([-<"))
    return word is not None and word[0].lower() in LABELS


def _word_end(text: str, at: int) -> int:
    end = at
    while end < len(text) and end - at < 400 and _WORD.match(text[end]):
        end += 1
    return end


def _like_ids(ours: str, theirs: str, labelled: bool) -> bool:
    if ours.isdigit() and theirs.isdigit() and max(len(ours), len(theirs)) <= 2:
        return labelled  # "3 tools" against "4 tools" is a change of text, "request 3" a counter
    digits = any(c.isdigit() for c in ours), any(c.isdigit() for c in theirs)
    if all(digits):
        return True
    hexes = all(re.fullmatch(r"(?:[A-Za-z]+[_-])?[0-9a-fA-F]{4,}", word) for word in (ours, theirs))
    if any(digits):
        return hexes or labelled or (len(ours) == len(theirs) and len(ours) >= 8)
    if labelled and min(len(ours), len(theirs)) >= 3:
        return hexes or not (_looks_like_word(ours) and _looks_like_word(theirs))
    return all(_mixed_case(word) and len(word) >= 10 for word in (ours, theirs))


def _looks_like_word(text: str) -> bool:
    """Lower case, and vowels at the rate of language: a nonce of random letters rarely has both."""
    vowels = sum(character in "aeiouy" for character in text.lower())
    return text[1:] == text[1:].lower() and 0.25 <= vowels / len(text) <= 0.65


def _mixed_case(text: str) -> bool:
    return text != text.lower() and text != text.upper() and text != text.capitalize()


_IDS = re.compile(r"[A-Za-z0-9_+/=\-]*\d[A-Za-z0-9_+/=\-]*")


def stretch_at(text: str, start: int) -> int | None:
    """Where a clock, date or id that begins at `start` ends; None where none begins there.

    >>> stretch_at("now 20:37:19.", 4), stretch_at("now 5a287ca530a2 ok", 4), stretch_at("now then", 4)
    (12, 16, None)
    """
    match = whole().match(text, start)
    if match is not None and not _is_id_run(text, match):
        return match.end()
    grouped = _GROUPED.match(text, start)
    if grouped is not None:
        return grouped.end()
    end = _word_end(text, start)
    labelled = _is_labelled(text, start)
    word = text[start:end]
    return end if word and (labelled or any(character.isdigit() for character in word)) else None


def all_stretches(text: str) -> list[tuple[int, int]]:
    """Every clock, date and word with digits of a text, in order, without overlap.

    >>> [("2026-03-17T08:00:01Z 5a287c")[a:b] for a, b in all_stretches("2026-03-17T08:00:01Z 5a287c")]
    ['2026-03-17T08:00:01Z', '5a287c']
    """
    found = [(match.start(), match.end()) for match in _matches(text, 0, len(text), len(text))]
    for match in (*_GROUPED.finditer(text), *_IDS.finditer(text)):
        if all(match.end() <= first or last <= match.start() for first, last in found):
            found.append((match.start(), match.end()))
    return sorted(found)
