"""Which earlier request a row is compared with: a few look-ups by key, never all pairs.

The session's previous request comes first; sessions are those of the log, else a conversation is continued by the
request whose messages begin with all of its messages. Without either, requests with the same tools, a similar system
prompt, the same pair of messages, or just before in time are candidates, and the one whose text agrees most behind
the difference is taken.
"""

from __future__ import annotations

import re
from array import array
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
_TAIL = 8
"""So many of the last messages are looked up as the end of an earlier request."""
_SHORT_TEXT = 12
"""Characters of a first turn that are too few to know it again."""
_LONG = 56
"""Bytes of a message as JSON from which on it is a sign of one conversation."""


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
        self._nodes: array[int] = array("q")
        self._first_text: dict[tuple[int, int], int] = {}
        self._text_of: dict[int, int] = {NOTHING: NOTHING}
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
        return self._path(node)[:4]

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

    def conversation(self, keys: Keys) -> list[int]:
        """Earlier rows of the same conversation, cut or changed in its history; the latest first.

        They ended with one of its turns, or hold two of its first turns one after the other; one long turn or two
        of any length must be common, so that an "ok" is no sign.
        """
        if not keys.node:
            return []
        pieces = self._turns(keys.node)
        if not pieces:
            return []
        found: set[int] = set()
        for piece in (*pieces[:3], *pieces[-_TAIL - 1 : -1]):
            row = self._last.get((keys.namespace, piece))
            if row is not None and piece != pieces[-1]:
                found.add(row)
        for one, two in pairwise(pieces[:4]):
            row = self._pairs.get((keys.namespace, one, two))
            if row is not None:
                found.add(row)
        related = [row for row in sorted(found, reverse=True) if self._in_common(pieces, self._nodes[row])]
        if related or len(pieces) < 2:
            return related
        same_text = self._first_text.get((keys.namespace, self._text_hash(pieces[0])))
        return [] if same_text is None else [same_text]

    def _text_hash(self, piece: int) -> int:
        """A message's text without white space, hashed: equal for a text and its parts, or trimmed."""
        if piece not in self._text_of:
            try:
                value = self._store.value(piece)
            except LookupError:
                return NOTHING
            text = "".join(content_text(value).split()) if isinstance(value, dict) else ""
            hashed = xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"))
            self._text_of[piece] = hashed if len(text) >= _SHORT_TEXT else NOTHING
        return self._text_of[piece]

    def _in_common(self, pieces: list[int], node: int) -> bool:
        common = set(pieces) & set(self._turns(node))
        return len(common) > 1 or any(self._is_long(piece) for piece in common)

    def _turns(self, node: int) -> list[int]:
        """The messages behind the system prompt, which stands in front where there is one."""
        path = self._path(node)
        return path[next((place for place, piece in enumerate(path[:2]) if not self._is_system(piece)), 2) :]

    def _is_long(self, piece: int) -> bool:
        return self._store.length(piece) >= _LONG

    def _path(self, node: int) -> list[int]:
        pieces = []
        while node:
            pieces.append(self._store.piece_of(node))
            node = self._store.above(node)
        return pieces[::-1]

    def add(self, row: int, keys: Keys) -> None:
        """Makes a row known to those after it."""
        assert row == len(self._nodes)
        self._nodes.append(keys.node)
        if keys.session != NOTHING:
            self._sessions[(keys.namespace, keys.session)].append((row, keys))
        self._recent[keys.namespace].append(row)
        for key in self._named(keys):
            self._by_key[key].append(row)
        if keys.node:
            self._ended[(keys.namespace, keys.node)] = row
            self._last[(keys.namespace, self._store.piece_of(keys.node))] = row
            text = self._text_hash(keys.first_turn)
            if text != NOTHING:
                self._first_text[(keys.namespace, text)] = row
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
