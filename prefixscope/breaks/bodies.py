"""Request bodies, kept small: every message once, in compressed pages, within a byte budget.

Conversations send their history again with every turn, so a body is a path in a tree of messages: two bodies that
begin with the same messages share that path, and comparing them is comparing numbers. What a message says is read
back only where a prompt broke. Pages that were not needed for longest are dropped when the budget is spent; a body
that needs a dropped page is gone, and the comparison with it is counted as not made.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import zstandard

from prefixscope.breaks.lately import Lately
from prefixscope.breaks.packed import PackedTable
from prefixscope.breaks.pieces import BodyPieces, Piece, is_system_prompt, loads, pieces_of
from prefixscope.records import Json, LoggedRequest

__all__ = ["DEFAULT_BUDGET", "NOTHING", "Body", "BodyStore"]

DEFAULT_BUDGET = 256 << 20
"""Bytes of compressed pages that are kept."""

NOTHING = -1
_PAGE = 1 << 18
_KNOWN_NODES = 1 << 17
"""So many nodes are found again at least; a path that was not met for longest becomes a new one."""
_OPEN_PAGES = 24
_READ_MESSAGES = 64


@dataclass(frozen=True, slots=True)
class Body:
    """What of a request can reach its prompt, by piece numbers: equal numbers are equal JSON text."""

    messages: tuple[int, ...]
    tools: int
    options: int


class BodyStore:
    """Bodies by row, in the order they were added.

    >>> from prefixscope.records import Source
    >>> store = BodyStore()
    >>> body = {"messages": [{"role": "user", "content": "hi"}], "user": "x"}
    >>> request = LoggedRequest(Source("log", 1), "chat", body)
    >>> store.add(request), store.body(0).tools, store.value(store.body(0).messages[0])
    (0, -1, {'role': 'user', 'content': 'hi'})
    """

    def __init__(self, budget: int = DEFAULT_BUDGET) -> None:
        self._budget = budget
        self._number_of = PackedTable()
        self._place: array[int] = array("q")  # page << 32 | offset
        self._length: array[int] = array("i")
        self._pages: dict[int, bytes] = {}
        self._kept_bytes = 0
        self._current = bytearray()
        self._page = 0
        self._oldest = 0
        self._renewed_below = 0  # what lies on older pages and is still in use moves to the young end
        self._open: OrderedDict[int, bytes] = OrderedDict()
        self._read: OrderedDict[int, Json] = OrderedDict()
        self._up: array[int] = array("i", [NOTHING])
        self._piece: array[int] = array("i", [NOTHING])
        self._first: array[int] = array("i", [NOTHING])
        self._turn: array[int] = array("i", [NOTHING])
        self._system = bytearray()
        self._child: Lately[int, int] = Lately(_KNOWN_NODES)
        self.node: array[int] = array("i")
        self._tools: array[int] = array("i")
        self._options: array[int] = array("i")
        self._compress = zstandard.ZstdCompressor(level=1).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def __len__(self) -> int:
        return len(self.node)

    def add(self, request: LoggedRequest) -> int:
        """Keeps a body; gives its number."""
        return self.add_pieces(pieces_of(request))

    def add_pieces(self, pieces: BodyPieces) -> int:
        """The same for a body that was taken apart elsewhere."""
        node = 0
        known, below, place = self._number_of.recent, self._child.recent, self._place
        for message in pieces.messages:  # nearly all were met before, at the same place of a conversation
            piece = known.get(message[0])
            if piece is None or place[piece] < self._renewed_below:
                piece = self._intern(message)
            child = below.get(node << 32 | piece)
            node = self._below(node, piece) if child is None else child
        self.node.append(node)
        self._tools.append(NOTHING if pieces.tools is None else self._intern(pieces.tools))
        self._options.append(NOTHING if pieces.options is None else self._intern(pieces.options))
        return len(self.node) - 1

    def body(self, number: int) -> Body:
        """The piece numbers of a body."""
        messages = []
        node = self.node[number]
        while node:
            messages.append(self._piece[node])
            node = self._up[node]
        return Body(tuple(reversed(messages)), self._tools[number], self._options[number])

    def tools(self, number: int) -> int:
        """The piece of a body's tool list; NOTHING where it has none."""
        return self._tools[number]

    def options(self, number: int) -> int:
        """The piece of a body's other options; NOTHING where it has none."""
        return self._options[number]

    def above(self, node: int) -> int:
        """The node of the same messages without the last one; 0 stands for no message at all."""
        return self._up[node]

    def piece_of(self, node: int) -> int:
        """The piece of a node's last message."""
        return self._piece[node]

    def first_message(self, node: int) -> int:
        """The piece of a node's first message; NOTHING where there is none."""
        return self._first[node]

    def first_turn(self, node: int) -> int:
        """The piece of a node's first message that is no system prompt; NOTHING where there is none."""
        return self._turn[node]

    def is_system(self, piece: int) -> bool:
        """Whether a message is a system prompt."""
        return bool(self._system[piece])

    def value(self, piece: int) -> Json:
        """The JSON value of a piece, keys in logged order. Raises LookupError where its page was dropped."""
        return None if piece == NOTHING else loads(self._raw(piece))

    def message(self, piece: int) -> Json:
        """The same for a message that is likely to be read again soon; not to be changed by whoever reads it."""
        if piece in self._read:
            self._read.move_to_end(piece)
            return self._read[piece]
        value = self._read[piece] = loads(self._raw(piece))
        if len(self._read) > _READ_MESSAGES:
            self._read.popitem(last=False)
        return value

    def _raw(self, piece: int) -> bytes:
        page, offset = divmod(self._place[piece], 1 << 32)
        if page == self._page:
            return bytes(self._current[offset : offset + self._length[piece]])
        return self._opened(page)[offset : offset + self._length[piece]]

    def length(self, piece: int) -> int:
        """Bytes of a piece as JSON."""
        return self._length[piece]

    def holds(self, pieces: Sequence[int]) -> bool:
        """Whether all these pieces can still be read."""
        return all(piece == NOTHING or self._place[piece] >> 32 >= self._oldest for piece in pieces)

    def _opened(self, page: int) -> bytes:
        if page in self._open:
            self._open.move_to_end(page)
            return self._open[page]
        if page not in self._pages:
            raise LookupError(page)
        opened = self._open[page] = self._decompress(self._pages[page])
        if len(self._open) > _OPEN_PAGES:
            self._open.popitem(last=False)
        return opened

    def _below(self, node: int, piece: int) -> int:
        key = node << 32 | piece
        child = self._child.get(key)
        if child is None:
            child = len(self._up)
            self._child.put(key, child)
            self._up.append(node)
            self._piece.append(piece)
            self._first.append(self._first[node] if node else piece)
            turn = self._turn[node]
            self._turn.append(piece if turn == NOTHING and not self._system[piece] else turn)
        return child

    def _intern(self, given: Piece) -> int:
        key, raw = given
        piece = self._number_of.get(key)
        if piece is None:
            assert raw is not None, "a piece is handed over with its text the first time"
            piece = len(self._place)
            self._place.append(0)
            self._length.append(len(raw))
            self._system.append(is_system_prompt(raw))
            self._write(piece, raw)
            self._number_of.put(key, piece)
        elif self._place[piece] < self._renewed_below:
            if raw is None and self.holds((piece,)):
                raw = self._raw(piece)
            if raw is not None:
                self._write(piece, raw)
        return piece

    def _write(self, piece: int, raw: bytes) -> None:
        self._place[piece] = self._page << 32 | len(self._current)
        self._current += raw
        if len(self._current) >= _PAGE:
            self._close_page()

    def _close_page(self) -> None:
        compressed = self._compress(bytes(self._current))
        self._pages[self._page] = compressed
        self._kept_bytes += len(compressed)
        self._current = bytearray()
        self._page += 1
        while self._kept_bytes > self._budget and self._oldest < self._page:
            self._kept_bytes -= len(self._pages.pop(self._oldest))
            self._open.pop(self._oldest, None)
            self._oldest += 1
        self._renewed_below = self._oldest + (self._page - self._oldest) // 4 << 32
