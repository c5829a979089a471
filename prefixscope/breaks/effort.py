"""How much comparing a log is worth: what looking for breaks may cost beside reading the log, counted in steps.

Reading both sides of a difference takes longer than reading a short request. So that looking for breaks takes no more
than half of what reading takes, and ten seconds that every log may use, a row brings some steps, a comparison costs
some, and a request that comes when there are none left is counted as not compared. Steps are counted, not timed: the
same log always gives the same result. One step is about a microsecond.
"""

from __future__ import annotations

__all__ = ["Effort"]

_FREE = 10_000_000
"""Steps at the beginning, about ten seconds: logs of some thousand requests are compared whole, whatever is in them."""
_PER_ROW, _PER_TOKEN = 4.0, 0.008
_MOST_SAVED = 20_000_000
_COMPARISON, _COMPARED_TOKEN, _GAP = 100.0, 0.03, 75.0
_LOOK, _LOOKED_TOKEN = 100.0, 0.03
_SEARCH, _SEARCHED_TOKEN = 60.0, 0.2


class Effort:
    """The account of one run."""

    def __init__(self) -> None:
        self._left = float(_FREE)

    def row(self, prompt_tokens: int) -> None:
        """A row was read."""
        self._left = min(self._left + _PER_ROW + _PER_TOKEN * prompt_tokens, _MOST_SAVED)

    @property
    def is_left(self) -> bool:
        """Whether something may be compared."""
        return self._left > 0

    def compared(self, tokens: int, gaps: int) -> None:
        """Two sides with so many tokens together were read; they differ in so many places."""
        self._left -= _COMPARISON + _COMPARED_TOKEN * tokens + _GAP * gaps

    def looked_at(self, tokens: int) -> None:
        """Two sides were looked at, to tell a branch."""
        self._left -= _LOOK + _LOOKED_TOKEN * tokens

    def searched(self, tokens: int) -> None:
        """Among several earlier requests the one to compare with was looked for."""
        self._left -= _SEARCH + _SEARCHED_TOKEN * tokens
