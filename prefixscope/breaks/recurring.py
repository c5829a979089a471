"""Faults that come back at the same place in request after request: a clock at the top of every prompt.

A cause is proven by reading both sides, which takes longer than anything else here. Where the same cause was proven at
one place many times and nothing else ever was, further differences at that place are taken for the same fault by their
tokens, and only one in some is proven again; one that turns out to be something else ends that. The place is told by
what does not change: the message's number, tools and options, the token of the first difference, the text in front of
it (digits count as one) and the tokens behind it. Only the cause is taken over: tokens lost are counted as always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from prefixscope.breaks.agreement import Gap, agree_close_by, equal_ahead, first_difference, moved_between
from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.found import Found
from prefixscope.breaks.kept import GENERATION

__all__ = ["Again", "Recurring"]

_ENOUGH = 32
"""So often must a cause be proven at a place before it is taken over."""
_PROVEN_ONE_IN = 64
_MOST_PLACES = 1 << 16
_LEFT, _RIGHT = 24, 24
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

    @property
    def holds(self) -> bool:
        return self.found is not None and self.times >= _ENOUGH

    def due(self) -> bool:
        """Whether the fault is to be proven again this time."""
        self.times += 1
        return self.times % _PROVEN_ONE_IN == 0


@dataclass(frozen=True, slots=True)
class _Place:
    address: _Address
    at: int
    left: str
    right: bytes


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
        self._known: dict[tuple[_Address, str, bytes], _Known] = {}
        self._addresses: set[_Address] = set()

    # -- by their tokens ------------------------------------------------------------------------------------------

    def again(
        self, scope: int, tools: int, options: int, new: bytes, old: bytes, old_prompt: int, text_of: TextOf
    ) -> Again | None:
        """The known fault that a prompt has against an earlier sequence, if one of them goes on to its end behind it;
        None where reading both sides has to tell."""
        first = first_difference(new, old)
        if old_prompt - first <= GENERATION:
            return None
        address = (scope, tools, options, first)
        if address not in self._addresses:
            return None
        ends = agree_close_by(new, old, first, first)
        if ends is None:
            return None
        new_end, old_end = ends
        left = text_of(new[4 * max(first - _LEFT, 0) : 4 * first])
        right = new[4 * new_end : 4 * (new_end + _RIGHT)]
        known = None if left is None else self._known.get((address, left.translate(_DIGITS), right))
        if known is None or not known.holds:
            return None
        ahead = equal_ahead(new, new_end, old, old_end)
        if ahead < _RIGHT or max(new_end, old_end) - first > _LONGEST:
            return None
        if new_end + ahead < len(new) // 4 and old_end + ahead < len(old) // 4:
            return None  # something else differs behind it
        if (known.at < 0 and ahead < max(16, (len(new) // 4 - first) // 4)) or known.due():
            return None
        assert known.found is not None
        gaps = (
            Gap(first, new_end, first, old_end, ahead),
            Gap(new_end + ahead, len(new) // 4, old_end + ahead, len(old) // 4, 0),
        )
        return Again(known.found, first, ahead, moved_between(new, old, gaps))

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
        gaps = comparison.walk.gaps
        if not gaps or comparison.old.prompt_tokens - comparison.first <= GENERATION:
            return None
        gap = gaps[0]
        if gap.agrees < _RIGHT or max(gap.new_end - gap.new_start, gap.old_end - gap.old_start) > _LONGEST:
            return None
        left = comparison.decode(comparison.new, comparison.first - _LEFT, comparison.first)
        if left is None:
            return None
        right = comparison.new.tokens[4 * gap.new_end : 4 * (gap.new_end + _RIGHT)]
        return _Place((scope, tools, options, comparison.first), at, left.translate(_DIGITS), right)

    def taken_over(self, place: _Place | None) -> Found | None:
        """The fault known at a place; None where it is not known, or is to be proven again this time."""
        known = self._at(place)
        return None if known is None or not known.holds or known.due() else known.found

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
            if len(self._known) >= _MOST_PLACES:
                self._known.clear()
                self._addresses.clear()
            known = self._known[place.address, place.left, place.right] = _Known(place.at, found)
            self._addresses.add(place.address)
        in_head = found is not None and (found.place.kind == "system" or place.at < 0)
        if found is None or known.found is None or not in_head or found.cause not in _CAUSES:
            known.found = None
        elif not _same(found, known.found):
            known.found = None  # nothing can be taken over here any more
        else:
            known.times += 1

    def _at(self, place: _Place | None) -> _Known | None:
        known = None if place is None else self._known.get((place.address, place.left, place.right))
        return None if known is None or place is None or known.at != place.at else known


def _same(one: Found, other: Found) -> bool:
    return (one.cause, one.place, one.key, one.detail, one.context) == (
        other.cause, other.place, other.key, other.detail, other.context,
    )  # fmt: skip
