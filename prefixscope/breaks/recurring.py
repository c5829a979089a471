"""Faults that come back at the same place in request after request: a clock at the top of every prompt.

A cause is proven by reading both sides, which takes longer than anything else here. Where the same cause was proven at
one place many times and nothing else ever was, further differences at that place are taken for the same fault by their
tokens, and only one in some is proven again; one that turns out to be something else ends that. The new text must look
as one did that was proven there: the same signs between digits and letters. The place is told by what does not change:
the message's number, tools and options, the token of the first difference, the text in front of it (digits count as
one) and the tokens behind it. Only the cause is taken over: tokens lost are counted as always.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from prefixscope.breaks.agreement import Gap, moved_between
from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.found import Found
from prefixscope.breaks.kept import GENERATION
from prefixscope.breaks.lately import Lately
from prefixscope.breaks.nearest import agree_close_by, find_tokens, none_nearer
from prefixscope.breaks.runs import equal_ahead, equal_behind, first_difference

__all__ = ["Again", "Recurring"]

_ENOUGH = 16
"""So often must a cause be proven at a place before it is taken over."""
_PROVEN_ONE_IN = 64
_MOST_PLACES = 1 << 16
_LEFT, _RIGHT = 24, 24
_MOST_SHAPES = 64
_NUMBERS, _LETTERS, _WORDS = re.compile(r"[0-9]+"), re.compile(r"[^\W\d_]+"), re.compile(r"[^\W_]+")
_KNOWN_LEFTS = 1 << 12
_LONGEST = 64
"""Tokens of a difference that may be a clock or an id."""
_CAUSES = ("timestamp", "date", "volatile_id")
_Address = tuple[int, int, int, int]
"""Scope, tools, options, and the token of the first difference."""
TextOf = Callable[[bytes], str | None]
_DIGITS = str.maketrans("0123456789", "0" * 10)


@dataclass(slots=True)
class _Known:
    at: int
    found: Found | None
    times: int = 0
    shapes: set[str] = field(default_factory=set)

    @property
    def holds(self) -> bool:
        return self.found is not None and self.times >= _ENOUGH

    def due(self) -> bool:
        """Whether the fault is to be proven again this time."""
        self.times += 1
        return self.times % _PROVEN_ONE_IN == 0


_Places = dict[tuple[str, bytes], _Known]
"""By the text in front of the difference and the tokens behind it."""


@dataclass(frozen=True, slots=True)
class _Place:
    address: _Address
    at: int
    left: str
    right: bytes
    gaps: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Again:
    """A fault taken over: tokens that agree behind it, and those of them that stand at another place."""

    found: Found
    first: int
    agreed: int
    moved: int


class Recurring:
    """The places seen so far in one log."""

    def __init__(self) -> None:
        self._places: dict[_Address, _Places] = {}
        self._count = 0
        self._lefts: Lately[tuple[int, bytes], str] = Lately(_KNOWN_LEFTS)

    # -- by their tokens ------------------------------------------------------------------------------------------

    def again(
        self, scope: int, tools: int, options: int, new: bytes, old: bytes, old_prompt: int, text_of: TextOf
    ) -> Again | None:
        """The known fault that a prompt has against an earlier sequence, if one of them goes on to its end behind it;
        None where reading both sides has to tell."""
        first = first_difference(new, old)
        places = self._places.get((scope, tools, options, first))
        if places is None:
            return None
        behind = self._behind(places, new, old, first)
        if behind is None:
            return None
        right, new_end, old_end = behind
        left = self._left(scope, new[4 * max(first - _LEFT, 0) : 4 * first], text_of)
        known = None if left is None else places.get((left, right))
        if known is None or not known.holds:
            return None
        if _shape(text_of(new[4 * first : 4 * new_end]), known.found) not in known.shapes:
            return None
        ahead = equal_ahead(new, new_end, old, old_end)
        if max(new_end, old_end) - first > _LONGEST:
            return None
        if new_end + ahead < len(new) // 4 and old_end + ahead < len(old) // 4:
            return None  # something else differs behind it
        if known.at < 0 and (
            ahead < max(16, (len(new) // 4 - first) // 4) or old_prompt - first <= GENERATION
        ):  # without messages, a difference near the end may be the template's
            return None
        if known.due():
            return None
        assert known.found is not None
        gaps = (
            Gap(first, new_end, first, old_end, ahead),
            Gap(new_end + ahead, len(new) // 4, old_end + ahead, len(old) // 4, 0),
        )
        return Again(known.found, first, ahead, moved_between(new, old, gaps))

    def _behind(self, places: _Places, new: bytes, old: bytes, first: int) -> tuple[bytes, int, int] | None:
        """The text known behind one of the places that follows the difference on both sides, and where it is reached:
        the nearest place where the sides agree."""
        until = 4 * (first + _LONGEST + _RIGHT)
        for _, right in places:
            new_end = find_tokens(new, right, first, until)
            old_end = find_tokens(old, right, first, until) if new_end >= 0 else -1
            if old_end < 0:
                continue
            back = equal_behind(new, new_end, old, old_end, first, first)
            ends = new_end - back, old_end - back
            if not none_nearer(new, old, first, first, *ends) and agree_close_by(new, old, first, first) != ends:
                return None
            return right, *ends
        return None

    def _left(self, scope: int, tokens: bytes, text_of: TextOf) -> str | None:
        """The text in front of a difference, digits alike."""
        text = self._lefts.get((scope, tokens))
        if text is None:
            text = text_of(tokens)
            if text is not None:
                text = text.translate(_DIGITS)
                self._lefts.put((scope, tokens), text)
        return text

    # -- while both sides are read --------------------------------------------------------------------------------

    def place_of(self, comparison: Comparison, scope: int) -> _Place | None:
        """What names the place of a difference; None where it can be no clock or id in a system prompt or a text."""
        at, tools, options = -1, -1, -1
        if comparison.bodies is not None:
            new, old = comparison.bodies
            at, tools, options = comparison.equal_messages, new.tools, new.options
            if tools != old.tools or options != old.options or at != 0:
                return None
            if not new.messages or not old.messages:
                return None
        elif comparison.new.kind == "chat" or comparison.old.kind != comparison.new.kind:
            return None
        gap = comparison.first_gap
        if gap is None or (at < 0 and comparison.old.prompt_tokens - comparison.first <= GENERATION):
            return None
        if gap.agrees < _RIGHT or max(gap.new_end - gap.new_start, gap.old_end - gap.old_start) > _LONGEST:
            return None
        left = comparison.decode(comparison.new, comparison.first - _LEFT, comparison.first)
        if left is None:
            return None
        right = comparison.new.tokens[4 * gap.new_end : 4 * (gap.new_end + _RIGHT)]
        gaps = (
            comparison.decode(comparison.new, gap.new_start, gap.new_end) or "",
            comparison.decode(comparison.old, gap.old_start, gap.old_end) or "",
        )
        return _Place((scope, tools, options, comparison.first), at, left.translate(_DIGITS), right, gaps)

    def taken_over(self, place: _Place | None) -> Found | None:
        """The fault known at a place; None where it is not known, or is to be proven again this time."""
        known = self._at(place)
        if known is None or place is None or not known.holds:
            return None
        return None if _shape(place.gaps[0], known.found) not in known.shapes or known.due() else known.found

    def is_known(self, place: _Place | None) -> bool:
        """Whether a fault is known at a place."""
        known = self._at(place)
        return known is not None and known.holds

    def learn(self, place: _Place | None, found: Found | None) -> None:
        """What was proven at a place; None for no fault at all."""
        if place is None:
            return
        known = self._at(place)
        if known is None:
            if self._count >= _MOST_PLACES:
                self._places.clear()
                self._count = 0
            known = _Known(place.at, found)
            self._places.setdefault(place.address, {})[place.left, place.right] = known
            self._count += 1
        in_head = found is not None and (found.place.kind == "system" or place.at < 0)
        if found is None or known.found is None or not in_head or found.cause not in _CAUSES:
            known.found = None
        elif not _same(found, known.found):
            known.found = None  # nothing can be taken over here any more
        else:
            known.times += 1
            if len(known.shapes) < _MOST_SHAPES:
                known.shapes.update(_shape(gap, found) for gap in place.gaps)

    def _at(self, place: _Place | None) -> _Known | None:
        if place is None:
            return None
        known = self._places.get(place.address, {}).get((place.left, place.right))
        return None if known is None or known.at != place.at else known


def _shape(text: str | None, found: Found | None) -> str:
    """What a difference looks like: runs of digits and of letters in a clock or date, of both in an id.

    >>> from prefixscope.breaks.sides import Place
    >>> clock, id_ = (Found(cause, Place("system")) for cause in ("timestamp", "volatile_id"))
    >>> _shape("9:37:19Z", clock), _shape("5a28-c1", id_)
    ('0:0:0a', '0-0')
    """
    if found is not None and found.cause == "volatile_id":
        return _WORDS.sub("0", text or "")
    return _LETTERS.sub("a", _NUMBERS.sub("0", text or ""))


def _same(one: Found, other: Found) -> bool:
    return (one.cause, one.place, one.key, one.detail, one.context) == (
        other.cause, other.place, other.key, other.detail, other.context,
    )  # fmt: skip
