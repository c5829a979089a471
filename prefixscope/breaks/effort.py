"""How much comparing a log is worth: what looking for breaks may cost beside reading the log, counted in steps.

Reading both sides of a difference takes longer than reading a short request. So that looking for breaks takes no more
than half of what reading takes, and five seconds that every log may use, a row brings some steps, a comparison costs
some, and a request that comes when there are none left is counted as not compared. Steps are counted, not timed: the
same log always gives the same result. One step is about a microsecond.
"""

from __future__ import annotations

__all__ = ["Effort"]

_FREE = 5_000_000
"""Steps at the beginning, about five seconds: logs of some thousand requests are compared whole, whatever they hold."""
_PER_ROW, _PER_TOKEN = 5.0, 0.002
_AGAIN_PER_ROW, _AGAIN_PER_TOKEN = 12.0, 0.005
_MOST_AGAIN = 20_000
_MOST_SAVED = 20_000_000
_PLENTY = 1_000_000
_COMPARISON, _COMPARED_TOKEN, _GAP = 100.0, 0.07, 75.0
_LOOK, _LOOKED_TOKEN = 40.0, 0.055
_SEARCH, _SEARCHED_TOKEN = 60.0, 0.2
_AGAIN_LOOK, _AGAIN, _AGAIN_TOKEN = 8.0, 20.0, 0.004
_SKETCH, _SKETCHED_CHARACTER, _SKETCHED_TOKENS = 5.0, 0.006, 60.0
_FILING, _LOOK_UP, _LOOKED_UP_MESSAGE = 4.0, 5.0, 1.0


class Effort:
    """The account of one run."""

    def __init__(self) -> None:
        self._left = float(_FREE)
        self._again_left = float(_MOST_AGAIN)
        self.is_left = True
        """Whether the row read last may be compared: a row is compared whole, or not at all."""

    def row(self, prompt_tokens: int) -> None:
        """A row was read. Steps for faults that come back that nobody needs are there for all the rest."""
        self._again_left += _AGAIN_PER_ROW + _AGAIN_PER_TOKEN * prompt_tokens
        over = max(self._again_left - _MOST_AGAIN, 0.0)
        self._again_left -= over
        self._left = min(self._left + _PER_ROW + _PER_TOKEN * prompt_tokens + over, _MOST_SAVED)
        self.is_left = self._left > 0

    @property
    def is_plenty(self) -> bool:
        """Whether something may be read that perhaps nobody asks for."""
        return self._left > _PLENTY

    def compared(self, tokens: int, gaps: int) -> None:
        """Two sides with so many tokens together were read; they differ in so many places."""
        self._left -= _COMPARISON + _COMPARED_TOKEN * tokens + _GAP * gaps

    def looked_at(self, tokens: int) -> None:
        """Two sides were looked at, to tell a branch."""
        self._left -= _LOOK + _LOOKED_TOKEN * tokens

    def searched(self, tokens: int) -> None:
        """Among several earlier requests the one to compare with was looked for."""
        self._left -= _SEARCH + _SEARCHED_TOKEN * tokens

    @property
    def may_take_over(self) -> bool:
        """Whether a row may be compared with a known fault. It has steps of its own, so that a fault in every prompt
        doesn't keep what else breaks from being seen."""
        return self._again_left > 0 or self.is_left

    def looked_for_known(self) -> None:
        """A known fault was looked for by the tokens of a prompt, and none was found."""
        self._spend_on_known(_AGAIN_LOOK)

    def taken_over(self, tokens: int) -> None:
        """A known fault was found by the tokens of a prompt of so many."""
        self._spend_on_known(_AGAIN + _AGAIN_TOKEN * tokens)

    def _spend_on_known(self, steps: float) -> None:
        self._again_left -= steps
        if self._again_left < 0 and self.is_left:
            self._left += self._again_left
            self._again_left = 0.0

    def sketched(self, characters: int) -> None:
        """The sentences of a message were hashed."""
        self._left -= _SKETCH + _SKETCHED_CHARACTER * characters

    def sketched_tokens(self) -> None:
        """The stretches of a prompt that is not made of messages were hashed."""
        self._left -= _SKETCHED_TOKENS

    def filed(self) -> None:
        """A row was made known by one kind of key."""
        self._left -= _FILING

    def looked_up(self, messages: int) -> None:
        """Rows of the same conversation were looked for by so many messages."""
        self._left -= _LOOK_UP + _LOOKED_UP_MESSAGE * messages
