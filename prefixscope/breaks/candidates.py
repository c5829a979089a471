"""Which earlier request a row is compared with: a few look-ups by key, never all pairs.

The session's previous request comes first; sessions are those of the log, else a conversation is continued by the
request whose messages begin with all of its messages. Without either, requests with the same tools, a similar system
prompt, the same pair of messages, or just before in time are candidates, and the one whose text agrees most behind
the difference is taken.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import xxhash

from prefixscope.breaks.bodies import NOTHING, BodyStore
from prefixscope.breaks.forms import content_text
from prefixscope.breaks.lately import Lately
from prefixscope.breaks.sketches import TextSketches, token_sketches

__all__ = ["Candidates", "Keys"]

_RECENT = 8
_PER_KEY = 4
_SESSION_DEPTH = 8
_ASCII_SPACE = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
_OTHER_SPACE = tuple(chr(code) for code in range(0x80, 0x3001) if chr(code).isspace())
_SYSTEM_ROLES = (b'"system"', b'"developer"')
_HEAD = 4
_HEADS = ("first head", "second head")
_KNOWN = 1 << 17
"""So many keys of a kind are known at least, and twice as many at most; what was not met for longest is forgotten."""
_KNOWN_SESSIONS = 1 << 15
_KNOWN_TEXTS = 1 << 16
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
        self._by_key: Lately[tuple[int, str, int], tuple[int, ...]] = Lately(_KNOWN)
        self._recent: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=_RECENT))
        self._sessions: Lately[tuple[int, int], tuple[tuple[int, Keys], ...]] = Lately(_KNOWN_SESSIONS)
        self._ended: Lately[tuple[int, int], int] = Lately(_KNOWN)
        self._pairs: Lately[tuple[int, int, int], int] = Lately(_KNOWN)
        self._paired: Lately[tuple[int, int], bool] = Lately(_KNOWN)
        self._last: Lately[tuple[int, int], int] = Lately(_KNOWN)
        self._nodes: array[int] = array("i")
        self._first_text: Lately[tuple[int, int], int] = Lately(_KNOWN)
        self._text_of: Lately[int, int] = Lately(_KNOWN_TEXTS)
        self._sketch_of: Lately[int, tuple[int, ...]] = Lately(_KNOWN_TEXTS)
        self._sketches = TextSketches()
        self._sessions_met: dict[int, bytearray] = {}

    def keys_of(self, number: int, namespace: int, session: int, kind: str, tokens: bytes | None) -> Keys:
        """The keys of a row with body `number`; `tokens` where the prompt is not made of messages."""
        if kind != "chat":
            sketches = () if tokens is None else token_sketches(tokens)
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
        return self._path(node)[:_HEAD]

    def _is_system(self, piece: int) -> bool:
        return bool(self._sketch(piece))

    def _sketch(self, piece: int) -> tuple[int, ...]:
        """Two minima over hashes of a system prompt's sentences: similar prompts have one in common."""
        if piece == NOTHING:
            return ()
        known = self._sketch_of.get(piece)
        if known is not None:
            return known
        try:
            message = self._store.message(piece, _SYSTEM_ROLES)
        except LookupError:
            return ()
        found: tuple[int, ...] = ()
        if isinstance(message, dict) and message.get("role") in ("system", "developer"):
            found = self._sketches.of(content_text(message))
        self._sketch_of.put(piece, found)
        return found

    # -- look-ups -------------------------------------------------------------------------------------------------

    def previous(self, keys: Keys) -> tuple[int, bool] | None:
        """The request before in the same session, and whether the log named the session."""
        if keys.session != NOTHING:
            rows = self._sessions.get((keys.namespace, keys.session))
            row = self._same_thread(keys, rows) if rows else None
            return None if row is None else (row, True)
        node = keys.node
        while node:
            row = self._ended.get((keys.namespace, node))
            if row is not None:
                return row, False
            node = self._store.above(node)
        return None

    def _same_thread(self, keys: Keys, rows: Sequence[tuple[int, Keys]]) -> int | None:
        """The last row of a session; one that has neither head nor first turn in common is another thread of it.

        None where nothing at all is common, not even a sentence of the system prompt: a thread of its own begins.
        """
        for row, other in reversed(rows):
            same_head = keys.tools == other.tools and bool(set(keys.sketches) & set(other.sketches))
            if same_head or keys.first_turn == other.first_turn:
                return row
        head = set(keys.sketches)
        alike = next((row for row, other in reversed(rows) if head & set(other.sketches)), None)
        return rows[-1][0] if alike is None and not (head and rows[-1][1].sketches) else alike

    def others(self, keys: Keys) -> list[int]:
        """Rows that may have the same text behind a difference, latest first."""
        found: set[int] = set(self._recent.get(keys.namespace, ()))
        for key in self._named(keys):
            found.update(self._by_key.get(key) or ())
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
        if piece == NOTHING:
            return NOTHING
        known = self._text_of.get(piece)
        if known is not None:
            return known
        try:
            value = self._store.message(piece)
        except LookupError:
            return NOTHING
        characters, raw = _without_space(content_text(value)) if isinstance(value, dict) else (0, b"")
        found = xxhash.xxh3_64_intdigest(raw) if characters >= _SHORT_TEXT else NOTHING
        self._text_of.put(piece, found)
        return found

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
            earlier = self._sessions.get((keys.namespace, keys.session)) or ()
            self._sessions.put((keys.namespace, keys.session), (*earlier[1 - _SESSION_DEPTH :], (row, keys)))
            self._meet(keys)
        self._recent[keys.namespace].append(row)
        for key in self._named(keys):
            rows = self._by_key.get(key)
            self._by_key.put(key, (row,) if rows is None else (*rows[1 - _PER_KEY :], row))
        if keys.node:
            self._ended.put((keys.namespace, keys.node), row)
            self._last.put((keys.namespace, self._store.piece_of(keys.node)), row)
            text = self._text_hash(keys.first_turn)
            if text != NOTHING:
                self._first_text.put((keys.namespace, text), row)
            self._add_pairs(row, keys)

    def _meet(self, keys: Keys) -> None:
        met = self._sessions_met.setdefault(keys.namespace, bytearray())
        if keys.session >= len(met):
            met.extend(bytes(keys.session + 1024 - len(met)))
        met[keys.session] = 1

    def is_forgotten(self, keys: Keys) -> bool:
        """Whether the row's session was met, and nothing is known of it any more."""
        met = self._sessions_met.get(keys.namespace, b"")
        return (
            0 <= keys.session < len(met)
            and bool(met[keys.session])
            and self._sessions.get((keys.namespace, keys.session)) is None
        )

    def _add_pairs(self, row: int, keys: Keys) -> None:
        node, above = keys.node, self._store.above(keys.node)
        while above and self._paired.get((keys.namespace, node)) is None:
            self._paired.put((keys.namespace, node), True)
            self._pairs.put((keys.namespace, self._store.piece_of(above), self._store.piece_of(node)), row)
            node, above = above, self._store.above(above)

    def _named(self, keys: Keys) -> Iterator[tuple[int, str, int]]:
        if keys.tools != NOTHING:
            yield (keys.namespace, "tools", keys.tools)
        if keys.first_turn != NOTHING:
            yield (keys.namespace, "turn", keys.first_turn)
        for place, sketch in enumerate(keys.sketches):
            yield (keys.namespace, _HEADS[place], sketch)


def _without_space(text: str) -> tuple[int, bytes]:
    """How many characters of a text are no white space, and their bytes.

    >>> _without_space("a b\\n c"), _without_space("a\\u2003b")
    ((3, b'abc'), (2, b'ab'))
    """
    raw = text.encode("utf-8", "surrogatepass")
    kept = raw.translate(None, _ASCII_SPACE)
    if len(text) < len(raw) and any(space in text for space in _OTHER_SPACE):
        bare = "".join(text.split())
        return len(bare), bare.encode("utf-8", "surrogatepass")
    return len(text) - (len(raw) - len(kept)), kept
