"""Rows by what stands in front of them: the same tools, the same first turn, a similar system prompt, or just before.

What a row is filed under is looked at when somebody asks for the first time, not when it passes: most rows of a log
go on from their session's previous request, and nobody ever asks. Reading a system prompt costs steps; where they are
short, a row is found by its system prompt only if that was read for the row's own sake, and the last few rows always.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator

from prefixscope.breaks.bodies import NOTHING, BodyStore
from prefixscope.breaks.effort import Effort
from prefixscope.breaks.forms import content_text
from prefixscope.breaks.keys import Keys
from prefixscope.breaks.lately import Lately
from prefixscope.breaks.sketches import TextSketches, token_sketches

__all__ = ["Heads"]

_RECENT = 8
_PER_KEY = 4
_HEADS = ("first head", "second head")
_KNOWN = 1 << 16
"""So many keys are known at least, and twice as many at most; what was not met for longest is forgotten."""
_KNOWN_TEXTS = 1 << 15
_UNFILED = 1 << 14
"""So many rows wait to be filed; the oldest of more are never found by their heads."""


class Heads:
    """Rows seen so far, by their beginnings. `tokens_of` gives a row's prompt."""

    def __init__(self, store: BodyStore, effort: Effort, tokens_of: Callable[[int], bytes]) -> None:
        self._store = store
        self._effort = effort
        self._tokens_of = tokens_of
        self._recent: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=_RECENT))
        self._unfiled: deque[Keys] = deque(maxlen=_UNFILED)
        self._by_key: Lately[tuple[int, str, int], tuple[int, ...]] = Lately(_KNOWN)
        self._sketch_of: Lately[int, tuple[int, ...]] = Lately(_KNOWN_TEXTS)
        self._sketch_of_row: Lately[int, tuple[int, ...]] = Lately(_UNFILED)
        self._sketches = TextSketches()

    def add(self, keys: Keys) -> None:
        """Makes a row known to those after it."""
        self._recent[keys.namespace].append(keys.row)
        self._unfiled.append(keys)

    def rows_like(self, keys: Keys) -> set[int]:
        """Earlier rows that may have the same text behind a difference."""
        self._file()
        found = set(self._recent.get(keys.namespace, ()))
        for key in self._named(keys):
            found.update(self._by_key.get(key) or ())
        return found

    def alike(self, one: Keys, other: Keys) -> bool:
        """Whether two rows have a similar system prompt, or token sequences with much in common."""
        if one.head == other.head != NOTHING:
            return self._store.is_system(one.head)
        return not set(self.sketches(one)).isdisjoint(self.sketches(other))

    def sketches(self, keys: Keys) -> tuple[int, ...]:
        """Two minima over hashes of the system prompt's sentences, or of the tokens: similar prompts have one in
        common. Nothing where there is no system prompt, or it is no longer held."""
        if keys.has_tokens:
            return self._of_tokens(keys.row)
        if keys.head == NOTHING or not self._store.is_system(keys.head):
            return ()
        known = self._sketch_of.get(keys.head)
        if known is not None:
            return known
        try:
            message = self._store.value(keys.head)
        except LookupError:
            return ()
        text = content_text(message) if isinstance(message, dict) else ""
        self._effort.sketched(len(text))
        found = self._sketches.of(text)
        self._sketch_of.put(keys.head, found)
        return found

    def _known(self, keys: Keys) -> tuple[int, ...]:
        """The same where it was read before."""
        known = self._sketch_of_row.get(keys.row) if keys.has_tokens else self._sketch_of.get(keys.head)
        return known or ()

    def _of_tokens(self, row: int) -> tuple[int, ...]:
        known = self._sketch_of_row.get(row)
        if known is None:
            known = token_sketches(self._tokens_of(row))
            self._effort.sketched_tokens()
            self._sketch_of_row.put(row, known)
        return known

    def _file(self) -> None:
        unfiled = self._unfiled
        while unfiled:
            keys = unfiled.popleft()
            self._effort.filed()
            for key in self._named(keys, self._effort.is_plenty):
                rows = self._by_key.get(key)
                self._by_key.put(key, (keys.row,) if rows is None else (*rows[1 - _PER_KEY :], keys.row))

    def _named(self, keys: Keys, reading: bool = True) -> Iterator[tuple[int, str, int]]:
        """Without `reading`, by its head only where that was read before."""
        if keys.tools != NOTHING:
            yield (keys.namespace, "tools", keys.tools)
        if keys.first_turn != NOTHING:
            yield (keys.namespace, "turn", keys.first_turn)
        for place, sketch in enumerate(self.sketches(keys) if reading else self._known(keys)):
            yield (keys.namespace, _HEADS[place], sketch)
