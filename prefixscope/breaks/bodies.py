"""Request bodies, kept small: every message once, in compressed pages, within a byte budget.

Conversations send their history again with every turn, so a body is a path in a tree of messages: two bodies that
begin with the same messages share that path, and comparing them is comparing numbers. What a message says is read
back only where a prompt broke. Pages that were not needed for longest are dropped when the budget is spent; a body
that needs a dropped page is gone, and the comparison with it is counted as not made.
"""

from __future__ import annotations

import json
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import xxhash
import zstandard

from prefixscope.breaks.packed import PackedTable
from prefixscope.records import Json, LoggedRequest

__all__ = ["DEFAULT_BUDGET", "NOTHING", "Body", "BodyPieces", "BodyStore", "Piece", "pieces_of"]

DEFAULT_BUDGET = 256 << 20
"""Bytes of compressed pages that are kept."""

NOTHING = -1
_PAGE = 1 << 18
_OPEN_PAGES = 24
_READ_MESSAGES = 64
_ROLE_FIRST = b'{"role":"'
_SYSTEM_FIRST = (b'{"role":"system"', b'{"role":"developer"')
_SYSTEM_ROLES = (b'"system"', b'"developer"')
_OPTIONS = frozenset((
    "chat_template_kwargs", "reasoning_effort", "documents", "add_generation_prompt", "continue_final_message",
    "add_special_tokens", "chat_template", "tool_choice", "echo",
))  # fmt: skip
"""Fields besides messages and tools that can reach a prompt; all others never do and are not kept."""


@dataclass(frozen=True, slots=True)
class Body:
    """What of a request can reach its prompt, by piece numbers: equal numbers are equal JSON text."""

    messages: tuple[int, ...]
    tools: int
    options: int


Piece = tuple[int, bytes | None]
"""The hash of a JSON value (63 bits) and its text; None where the text was handed over before."""


@dataclass(frozen=True, slots=True)
class BodyPieces:
    """What of a request can reach its prompt, ready to be kept."""

    messages: tuple[Piece, ...]
    tools: Piece | None
    options: Piece | None


def pieces_of(request: LoggedRequest) -> BodyPieces:
    """The pieces of a request's body. Prompts that are no messages have options only."""
    body = request.body
    chat = request.kind == "chat"
    messages = body.get("messages") if chat else None
    tools = body.get("tools") if chat else None
    options = None
    if not _OPTIONS.isdisjoint(body):
        options = {name: value for name, value in sorted(body.items()) if name in _OPTIONS and value is not None}
    return BodyPieces(
        tuple([_piece(message) for message in messages]) if isinstance(messages, list) else (),
        _piece(tools) if tools else None,
        _piece(options) if options else None,
    )


def _piece(value: Json) -> Piece:
    raw = _dumps(value)
    return xxhash.xxh3_64_intdigest(raw) >> 1, raw


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
        self._child = PackedTable()
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
        return None if piece == NOTHING else _loads(self._raw(piece))

    def message(self, piece: int) -> Json:
        """The same for a message that is likely to be read again soon; not to be changed by whoever reads it."""
        if piece in self._read:
            self._read.move_to_end(piece)
            return self._read[piece]
        value = self._read[piece] = _loads(self._raw(piece))
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
            self._system.append(_is_system(raw))
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


def _is_system(raw: bytes) -> bool:
    """Whether a message's JSON text is that of a system prompt.

    >>> _is_system(b'{"role":"system","content":""}'), _is_system(b'{"content":"system","role":"user"}')
    (True, False)
    """
    if raw.startswith(_ROLE_FIRST):
        return raw.startswith(_SYSTEM_FIRST)
    if not any(role in raw for role in _SYSTEM_ROLES):
        return False
    value = _loads(raw)
    return isinstance(value, dict) and value.get("role") in ("system", "developer")


def _dumps(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, or a number beyond 64 bits
        return json.dumps(value, ensure_ascii=True).encode()


def _loads(raw: bytes) -> Json:
    try:
        return orjson.loads(raw)
    except ValueError:
        return json.loads(raw)


def body_of(values: Mapping[str, Json], messages: Sequence[Json], tools: Json) -> dict[str, Json]:
    """A body as it would be logged, from its pieces.

    >>> body_of({"echo": True}, [{"role": "user"}], None)
    {'echo': True, 'messages': [{'role': 'user'}]}
    """
    body = {**values, "messages": list(messages)}
    return body if tools is None else {**body, "tools": tools}
