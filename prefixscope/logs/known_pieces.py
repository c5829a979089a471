"""Messages and tools that were read before are not read again: a chat sends its whole history with every turn.

JSON has no context: the bytes of a complete object or array mean the same wherever they stand as a value. So where the
messages of a line begin with bytes that are known, and its tools are, marks are put in their place, and only what is
left is decoded. It counts only if every mark comes back from where it was put. All else is read as ever.

Only what orjson writes as it was read is kept, so that no repeated key and no changed number is in it.

Equal messages of different lines become the same object, so nobody may change one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import orjson

from prefixscope.logs.lines import is_faithful
from prefixscope.records import Json

__all__ = ["KnownPieces"]

ROOM = 8 << 20
"""Bytes that are kept, counted as JSON and what holds a piece; with the values themselves up to twice as many."""

_HOLDING = 700
"""Bytes that a piece takes besides its texts: dicts, keys, list."""

_BEGINNING = 96
_ALIKE = 16
"""So many pieces with the same beginning are kept; of more of them, the last ones."""
_MESSAGES = b'"messages":['
_TOOLS = b'"tools":['
_COMMA = ord(",")
_FEWEST_BYTES = 512
"""Shorter lists are decoded sooner than looked for."""


@dataclass(frozen=True, slots=True)
class _Known:
    raw: bytes
    value: Json


@dataclass(frozen=True, slots=True)
class _Cut:
    """`left` is a line without what is known of it: its messages begin at `start`, those that are left at `fresh`."""

    left: bytes
    start: int
    fresh: int
    messages: list[Json]
    tools: _Known | None


class KnownPieces:
    """Reads lines as `plain_object` does, with a memory. One for each stream of lines; not for several threads.

    >>> pieces = KnownPieces()
    >>> line = b'{"messages":[{"role":"user","content":"%s"}]}' % (b"x" * 999)
    >>> one, other = pieces.plain_object(line), pieces.plain_object(line)
    >>> one == other == orjson.loads(line), one["messages"][0] is other["messages"][0]
    (True, True)
    """

    def __init__(self, room: int = ROOM) -> None:
        self._half = room // 2
        self._left = self._half
        self._young: dict[bytes, list[_Known]] = {}
        self._old: dict[bytes, list[_Known]] = {}
        self._messages_mark, self._tools_mark = secrets.token_hex(16), secrets.token_hex(16)

    def plain_object(self, raw: bytes) -> dict[str, Json] | None:
        """The object of a line that orjson reads without changing anything; None for every other line."""
        cut = self._cut(raw)
        left = raw if cut is None else cut.left
        try:
            value = orjson.loads(left)
            if type(value) is not dict:
                return None
            if cut is None or (holder := self._holder(value, cut)) is None:
                return value if left is raw and is_faithful(raw, orjson.dumps(value)) else None
            return value if self._fill(value, holder, cut) else None
        except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
            return None

    def _cut(self, raw: bytes) -> _Cut | None:
        """The line with marks in place of what is known; None where it holds no messages.

        In valid JSON what is found is the end of a key, perhaps of another one: a quote that is not escaped either
        opens a text or closes one, and behind a closed one no letter follows. Where the marks come back tells whose.
        """
        start = raw.find(_MESSAGES)
        if start < 0 or len(raw) - start < _FEWEST_BYTES:
            return None
        place = start = start + len(_MESSAGES)
        messages = []
        while (known := self._find(raw, place)) is not None:
            messages.append(known.value)
            place += len(known.raw)
            if raw[place : place + 1] != b",":
                break
            place += 1
        tools = None
        tools_start = raw.find(_TOOLS, place)
        if tools_start >= 0:
            tools_start += len(_TOOLS) - 1
            tools = self._find(raw, tools_start)
        if not messages and tools is None:
            return _Cut(raw, start, start, messages, None)
        pieces = [raw[:start], self._mark(self._messages_mark) if messages else b""]
        pieces.append(b"," if messages and raw[place - 1] == _COMMA else b"")
        fresh = sum(map(len, pieces))
        if tools is not None:
            pieces += (raw[place:tools_start], self._mark(self._tools_mark))
            place = tools_start + len(tools.raw)
        pieces.append(raw[place:])
        return _Cut(b"".join(pieces), start, fresh, messages, tools)

    @staticmethod
    def _mark(text: str) -> bytes:
        return b'"%s"' % text.encode()

    def _holder(self, value: dict[str, Json], cut: _Cut) -> dict[str, Json] | None:
        """The object with the messages, the row itself or a request in it; None where it does not hold the marks."""
        for one in (value, *value.values()):
            if type(one) is dict and type(one.get("messages")) is list:
                messages_there = not cut.messages or one["messages"][:1] == [self._messages_mark]
                tools_there = cut.tools is None or one.get("tools") == self._tools_mark
                return one if messages_there and tools_there else None
        return None

    def _fill(self, value: dict[str, Json], holder: dict[str, Json], cut: _Cut) -> bool:
        """Puts what is known in place of the marks, and learns the rest; false where orjson changed something."""
        left, messages = cut.left, holder["messages"][1:] if cut.messages else holder["messages"]
        texts = [orjson.dumps(message) for message in messages]
        end = cut.fresh + sum(map(len, texts)) + max(len(texts) - 1, 0)
        if left[cut.fresh : end] == b",".join(texts):
            # they are as they were read, so only what is around them has to be looked at
            holder["messages"] = []
            if not is_faithful(left[: cut.start] + left[end:], orjson.dumps(value)):
                return False
            place = cut.fresh
            for text, message in zip(texts, messages, strict=True):
                if type(message) is dict:  # a number may go on behind what is known of it
                    self._keep(left[place : place + _BEGINNING], _Known(text, message))
                place += len(text) + 1
        elif not is_faithful(left, orjson.dumps(value)):
            return False
        holder["messages"] = cut.messages + messages
        if cut.tools is not None:
            holder["tools"] = cut.tools.value
        else:
            self._learn_tools(left, end, holder.get("tools"))
        return True

    def _learn_tools(self, left: bytes, behind: int, tools: Json) -> None:
        if isinstance(tools, list) and tools:
            place = left.find(_TOOLS, behind) + len(_TOOLS) - 1
            text = orjson.dumps(tools)
            if left.startswith(text, place):
                self._keep(left[place : place + _BEGINNING], _Known(text, tools))

    def _find(self, raw: bytes, place: int) -> _Known | None:
        key = raw[place : place + _BEGINNING]
        for known in self._young.get(key, ()):
            if raw.startswith(known.raw, place):
                return known
        for known in self._old.get(key, ()):
            if raw.startswith(known.raw, place):
                self._keep(key, known)
                return known
        return None

    def _keep(self, key: bytes, known: _Known) -> None:
        if len(known.raw) > self._half // 4:  # one picture would drive all texts out
            return
        self._left -= len(known.raw) + _HOLDING
        if self._left < 0:
            self._old, self._young, self._left = self._young, {}, self._half - len(known.raw) - _HOLDING
        alike = self._young.setdefault(key, [])
        alike.insert(0, known)
        del alike[_ALIKE:]
