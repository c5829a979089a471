"""Earlier rows of the same conversation where no session is logged.

A conversation is continued by the request whose messages begin with all of its messages. One that was cut or changed
in its history is known by its turns: it ended with one of them, or holds two of its first turns one after the other.
What a row is filed under is looked at when somebody asks for the first time.
"""

from __future__ import annotations

from array import array
from collections import deque
from itertools import pairwise

import xxhash

from prefixscope.breaks.bodies import NOTHING, BodyStore
from prefixscope.breaks.effort import Effort
from prefixscope.breaks.forms import content_text
from prefixscope.breaks.keys import Keys
from prefixscope.breaks.lately import Lately

__all__ = ["Conversations"]

_ASCII_SPACE = b" \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"
_OTHER_SPACE = tuple(chr(code) for code in range(0x80, 0x3001) if chr(code).isspace())
_KNOWN = 1 << 16
"""So many keys of a kind are known at least, and twice as many at most; what was not met for longest is forgotten."""
_UNFILED = 1 << 14
"""So many rows wait to be filed; the oldest of more are never found by their turns."""
_TAIL = 8
"""So many of the last messages are looked up as the end of an earlier request."""
_SHORT_TEXT = 12
"""Characters of a first turn that are too few to know it again."""
_END = 400
_LONG = 56
"""Bytes of a message as JSON from which on it is a sign of one conversation."""
_Key = tuple[int, int]


class Conversations:
    """Rows of messages seen so far, by their turns."""

    def __init__(self, store: BodyStore, effort: Effort) -> None:
        self._store = store
        self._effort = effort
        self._unfiled: deque[Keys] = deque(maxlen=_UNFILED)
        self._ended: Lately[_Key, int] = Lately(_KNOWN)
        self._last: Lately[_Key, Keys] = Lately(_KNOWN)
        self._pairs: Lately[tuple[int, int, int], Keys] = Lately(_KNOWN)
        self._paired = array("i")  # by node: the namespace whose pairs were filed last, plus one
        self._first_text: Lately[_Key, Keys] = Lately(_KNOWN)
        self._text_of: Lately[int, int] = Lately(_KNOWN)

    def add(self, keys: Keys) -> None:
        """Makes a row known to those after it."""
        if keys.node:
            self._ended.put((keys.namespace, keys.node), keys.row)
            self._unfiled.append(keys)

    def continued(self, keys: Keys) -> int | None:
        """The last row whose messages a row's begin with."""
        node = keys.node
        while node:
            row = self._ended.get((keys.namespace, node))
            if row is not None:
                return row
            node = self._store.above(node)
        return None

    def rows_of(self, keys: Keys) -> list[int]:
        """Rows of the same conversation, the latest first.

        One long turn or two of any length must be common, so that an "ok" is no sign.
        """
        pieces = self._turns(keys.node)
        if len(pieces) < 2:
            return []  # what begins is no part of a conversation yet
        self._file()
        self._effort.looked_up(len(pieces))
        found: dict[int, Keys] = {}
        for piece in (*pieces[:3], *pieces[-_TAIL - 1 : -1]):
            other = self._last.get((keys.namespace, piece))
            if other is not None and piece != pieces[-1]:
                found[other.row] = other
        for one, two in pairwise(pieces[:4]):
            other = self._pairs.get((keys.namespace, one, two))
            if other is not None:
                found[other.row] = other
        related = [row for row in sorted(found, reverse=True) if self._in_common(pieces, found[row].node)]
        if related:
            return related
        same_text = self._first_text.get((keys.namespace, self._text_hash(pieces[0])))
        return [] if same_text is None else [same_text.row]

    # -- filing ---------------------------------------------------------------------------------------------------

    def _file(self) -> None:
        while self._unfiled:
            keys = self._unfiled.popleft()
            self._effort.filed()
            self._last.put((keys.namespace, self._store.piece_of(keys.node)), keys)
            text = self._text_hash(keys.first_turn)
            if text != NOTHING:
                self._first_text.put((keys.namespace, text), keys)
            self._file_pairs(keys)

    def _file_pairs(self, keys: Keys) -> None:
        """Pairs of messages that follow each other, of the nodes that no earlier row passed."""
        store, paired, mark = self._store, self._paired, keys.namespace + 1
        if len(paired) <= keys.node:
            paired.frombytes(bytes(paired.itemsize * (keys.node + 4096 - len(paired))))
        node, above = keys.node, store.above(keys.node)
        while above and paired[node] != mark:
            paired[node] = mark
            self._pairs.put((keys.namespace, store.piece_of(above), store.piece_of(node)), keys)
            node, above = above, store.above(above)

    # -- turns ----------------------------------------------------------------------------------------------------

    def _turns(self, node: int) -> list[int]:
        """The messages behind the system prompt, which stands in front where there is one."""
        store = self._store
        pieces = []
        while node:
            pieces.append(store.piece_of(node))
            node = store.above(node)
        pieces.reverse()
        return pieces[next((place for place, piece in enumerate(pieces[:2]) if not store.is_system(piece)), 2) :]

    def _in_common(self, pieces: list[int], node: int) -> bool:
        common = set(pieces) & set(self._turns(node))
        return len(common) > 1 or any(self._store.length(piece) >= _LONG for piece in common)

    def _text_hash(self, piece: int) -> int:
        """A message's text without white space, hashed: equal for a text and its parts, or trimmed."""
        if piece == NOTHING:
            return NOTHING
        known = self._text_of.get(piece)
        if known is not None:
            return known
        try:
            value = self._store.value(piece)
        except LookupError:
            return NOTHING
        self._effort.looked_up(1)
        characters, raw = _without_space(_ends(content_text(value))) if isinstance(value, dict) else (0, b"")
        found = xxhash.xxh3_64_intdigest(raw) if characters >= _SHORT_TEXT else NOTHING
        self._text_of.put(piece, found)
        return found


def _ends(text: str) -> str:
    """A long text's beginning and end, which tell it from others."""
    return text if len(text) <= 3 * _END else text[: 2 * _END] + text[-_END:]


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
