"""The request before in the same logged session, and in the same thread of it."""

from __future__ import annotations

from collections.abc import Sequence

from prefixscope.breaks.bodies import NOTHING
from prefixscope.breaks.effort import Effort
from prefixscope.breaks.heads import Heads
from prefixscope.breaks.keys import Keys
from prefixscope.breaks.lately import Lately

__all__ = ["UNTOLD", "Sessions"]

UNTOLD = -2
"""In place of a row: its system prompt would have to be read to tell, and no step is left for that."""
_SESSION_DEPTH = 8
_KNOWN_SESSIONS = 1 << 15


class Sessions:
    """The last rows of the sessions met lately."""

    def __init__(self, heads: Heads, effort: Effort) -> None:
        self._heads = heads
        self._effort = effort
        self._rows: Lately[tuple[int, int], tuple[Keys, ...]] = Lately(_KNOWN_SESSIONS)
        self._met: dict[int, bytearray] = {}

    def previous(self, keys: Keys) -> int | None:
        """The request before in the session; None where it begins one, UNTOLD where that cannot be told."""
        rows = self._rows.get((keys.namespace, keys.session))
        return self._same_thread(keys, rows) if rows else None

    def _same_thread(self, keys: Keys, rows: Sequence[Keys]) -> int | None:
        """The last row of a session; one that has neither head nor first turn in common is another thread of it.

        None where nothing at all is common, not even a sentence of the system prompt: a thread of its own begins.
        """
        alike = self._heads.alike
        for other in reversed(rows):
            if keys.first_turn == other.first_turn:
                return other.row
            if not self._effort.is_left:
                return UNTOLD
            if keys.tools == other.tools and alike(keys, other):
                return other.row
        same = next((other.row for other in reversed(rows) if alike(keys, other)), None)
        if same is None and not (self._heads.sketches(keys) and self._heads.sketches(rows[-1])):
            return rows[-1].row
        return same

    def add(self, keys: Keys) -> None:
        """Makes a row known to those after it."""
        if keys.session == NOTHING:
            return
        session = keys.namespace, keys.session
        earlier = self._rows.get(session) or ()
        self._rows.put(session, (*earlier[1 - _SESSION_DEPTH :], keys))
        met = self._met.setdefault(keys.namespace, bytearray())
        if keys.session >= len(met):
            met.extend(bytes(keys.session + 1024 - len(met)))
        met[keys.session] = 1

    def is_forgotten(self, keys: Keys) -> bool:
        """Whether the row's session was met, and nothing is known of it any more."""
        met = self._met.get(keys.namespace, b"")
        return (
            0 <= keys.session < len(met)
            and bool(met[keys.session])
            and self._rows.get((keys.namespace, keys.session)) is None
        )
