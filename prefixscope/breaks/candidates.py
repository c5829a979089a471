"""Which earlier request a row is compared with: a few look-ups by key, never all pairs.

The session's previous request comes first; sessions are those of the log, else a conversation is continued by the
request whose messages begin with all of its messages. Without either, requests with the same tools, a similar system
prompt, the same pair of messages, or just before in time are candidates, and the one whose text agrees most behind
the difference is taken.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import xxhash

from prefixscope.breaks.bodies import NOTHING, BodyStore
from prefixscope.breaks.forms import content_text

__all__ = ["Candidates", "Keys"]

_RECENT = 8
_PER_KEY = 4
_SESSION_DEPTH = 8
_CHUNK = re.compile(r"[\n.!?;]+")
_STRIDE = 8


@dataclass(frozen=True, slots=True)
class Keys:
    """What of a row leads to earlier ones: namespace, session, the node of its messages, and sketches of its head."""

    namespace: int
    session: int
    node: int
    tools: int
    sketches: tuple[int, ...]
    first_turn: int


class Candidates:
    """Rows seen so far, by key. Rows come in time order."""

    def __init__(self, store: BodyStore) -> None:
        self._store = store
        self._by_key: dict[tuple[object, ...], deque[int]] = defaultdict(lambda: deque(maxlen=_PER_KEY))
        self._recent: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=_RECENT))
        self._sessions: dict[tuple[int, int], deque[tuple[int, Keys]]] = defaultdict(
            lambda: deque(maxlen=_SESSION_DEPTH)
        )
        self._ended: dict[tuple[int, int], int] = {}
        self._pairs: dict[tuple[int, int, int], int] = {}
        self._paired: set[tuple[int, int]] = set()
        self._last: dict[tuple[int, int], int] = {}
        self._sketch_of: dict[int, tuple[int, ...]] = {}

    def keys_of(self, number: int, namespace: int, session: int, kind: str, tokens: bytes | None) -> Keys:
        """The keys of a row with body `number`; `tokens` where the prompt is not made of messages."""
        if kind != "chat":
            sketches = () if tokens is None else _token_sketches(tokens)
            return Keys(namespace, session, 0, NOTHING, sketches, NOTHING)
        node = self._store.node[number]
        first, turn = NOTHING, NOTHING
        for piece in self._head(node):
            if first == NOTHING:
                first = piece
            if turn == NOTHING and not self._is_system(piece):
                turn = piece
        return Keys(namespace, session, node, self._store.tools(number), self._sketch(first), turn)

    def _head(self, node: int) -> list[int]:
        pieces = []
        while node:
            pieces.append(self._store.piece_of(node))
            node = self._store.above(node)
        return pieces[::-1][:4]

    def _is_system(self, piece: int) -> bool:
        return bool(self._sketch(piece))

    def _sketch(self, piece: int) -> tuple[int, ...]:
        """Two minima over hashes of a system prompt's sentences: similar prompts have one in common."""
        if piece == NOTHING:
            return ()
        if piece not in self._sketch_of:
            try:
                message = self._store.value(piece)
            except LookupError:
                return ()
            role = str(message.get("role")) if isinstance(message, dict) else ""
            text = content_text(message) if role in ("system", "developer") else ""
            self._sketch_of[piece] = _text_sketches(text) if role in ("system", "developer") else ()
        return self._sketch_of[piece]

    # -- look-ups -------------------------------------------------------------------------------------------------

    def previous(self, keys: Keys) -> tuple[int, bool] | None:
        """The request before in the same session, and whether the log named the session."""
        if keys.session != NOTHING:
            rows = self._sessions.get((keys.namespace, keys.session))
            return None if not rows else (self._same_thread(keys, rows), True)
        node = keys.node
        while node:
            row = self._ended.get((keys.namespace, node))
            if row is not None:
                return row, False
            node = self._store.above(node)
        return None

    def _same_thread(self, keys: Keys, rows: deque[tuple[int, Keys]]) -> int:
        """The last row of a session; one that has neither head nor first turn in common is another thread of it."""
        for row, other in reversed(rows):
            same_head = keys.tools == other.tools and bool(set(keys.sketches) & set(other.sketches))
            if same_head or keys.first_turn == other.first_turn:
                return row
        return rows[-1][0]

    def others(self, keys: Keys) -> list[int]:
        """Rows that may have the same text behind a difference, latest first."""
        found: set[int] = set(self._recent.get(keys.namespace, ()))
        for key in self._named(keys):
            found.update(self._by_key.get(key, ()))
        found.update(self.conversation(keys))
        return sorted(found, reverse=True)

    def conversation(self, keys: Keys) -> Iterator[int]:
        """Rows that hold two of the first turns of this one one after the other, or ended with one of them: the same
        conversation, cut or changed."""
        pieces = [piece for piece in self._head(keys.node) if not self._is_system(piece)]
        for one, two in pairwise(pieces):
            for row in (self._pairs.get((keys.namespace, one, two)), self._last.get((keys.namespace, one))):
                if row is not None:
                    yield row

    def add(self, row: int, keys: Keys) -> None:
        """Makes a row known to those after it."""
        if keys.session != NOTHING:
            self._sessions[(keys.namespace, keys.session)].append((row, keys))
        self._recent[keys.namespace].append(row)
        for key in self._named(keys):
            self._by_key[key].append(row)
        if keys.node:
            self._ended[(keys.namespace, keys.node)] = row
            self._last[(keys.namespace, self._store.piece_of(keys.node))] = row
            self._add_pairs(row, keys)

    def _add_pairs(self, row: int, keys: Keys) -> None:
        node, above = keys.node, self._store.above(keys.node)
        while above and (keys.namespace, node) not in self._paired:
            self._paired.add((keys.namespace, node))
            self._pairs[keys.namespace, self._store.piece_of(above), self._store.piece_of(node)] = row
            node, above = above, self._store.above(above)

    def _named(self, keys: Keys) -> Iterator[tuple[object, ...]]:
        if keys.tools != NOTHING:
            yield (keys.namespace, "tools", keys.tools)
        if keys.first_turn != NOTHING:
            yield (keys.namespace, "turn", keys.first_turn)
        for place, sketch in enumerate(keys.sketches):
            yield (keys.namespace, "head", place, sketch)


def _text_sketches(text: str) -> tuple[int, ...]:
    pieces = [piece.strip() for piece in _CHUNK.split(text)]
    long = [piece for piece in pieces if len(piece) >= 16] or [text.strip() or "-"]
    hashes = [xxhash.xxh3_64_intdigest(piece.encode("utf-8", "surrogatepass")) for piece in long]
    return min(hashes), min(value ^ 0x5555555555555555 for value in hashes)


def _token_sketches(tokens: bytes) -> tuple[int, ...]:
    """As for text, over stretches of eight tokens at any place of the first few thousand."""
    values = np.frombuffer(tokens[:16384], "<u4").astype(np.uint64)
    if len(values) <= _STRIDE:
        return ()
    with np.errstate(over="ignore"):
        hashed = np.zeros(len(values) - _STRIDE, np.uint64)
        for place in range(_STRIDE):
            hashed = (hashed ^ values[place : place + len(hashed)]) * np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(29)
        return int(hashed.min()), int((hashed ^ np.uint64(0x5555555555555555)).min())
