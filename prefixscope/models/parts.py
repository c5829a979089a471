"""Where the pieces of a conversation lie in the rendered text: template, tools, system, message i, generation prompt.

Every string of a message or tool is framed by two private-use characters and the conversation is rendered again. If
taking the marks out gives the very same text, their places are exact. A template that looks at the edges of a text
(trim, startswith, split) may answer differently; then messages are marked one by one, further inside, and what still
can't be marked is searched in its order. Parts tile the text; what no message or tool owns is the template's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from prefixscope.models.chat import RenderedChat
from prefixscope.models.template import Unrenderable
from prefixscope.records import Conversation, Part, PartKind

__all__ = ["parts_of_chat"]

_OPEN, _CLOSE = 0xF0000, 0x100000
_ROOM = 0xFFFD
_MARKS = re.compile("[\U000f0000-\U000ffffd\U00100000-\U0010fffd]")
_INSETS = (0, 1, 24)
"""How many characters stay outside the marks at each edge, from the first try to the last."""


@dataclass(frozen=True, slots=True)
class _Owner:
    kind: PartKind
    index: int


def parts_of_chat(chat: RenderedChat) -> tuple[Part, ...]:
    """The parts of a rendered chat, in text order and without gaps; a tool or message that left no trace has none."""
    rendered = len(chat.text) - len(chat.appended)
    start = _generation_start(chat, rendered)
    spans = {owner: _whole_tool(chat, owner, span) for owner, span in _spans(chat).items()}
    pieces = [(span, owner) for owner, span in spans.items() if span[0] < span[1]]
    pieces.sort(key=lambda piece: piece[0])
    parts: list[Part] = []
    place = 0
    for (first, last), owner in pieces:
        first, last = max(first, place), min(last, start)
        if first >= last:
            continue
        if place < first:
            parts.append(Part("template", None, place, first))
        parts.append(Part(owner.kind, owner.index, first, last))
        place = last
    if place < start:
        parts.append(Part("template", None, place, start))
    if start < rendered:
        parts.append(Part("generation", None, start, rendered))
    if chat.appended:
        parts.append(Part("message", len(chat.conversation.messages), rendered, len(chat.text)))
    return tuple(parts)


def _generation_start(chat: RenderedChat, rendered: int) -> int:
    """Where the text ends that a rendering without generation prompt shares with this one."""
    if not chat.conversation.add_generation_prompt:
        return rendered
    try:
        without = chat.again(replace(chat.conversation, add_generation_prompt=False))
    except Unrenderable:
        return rendered
    return len(without) if chat.text[:rendered].startswith(without) else rendered


def _spans(chat: RenderedChat) -> dict[_Owner, tuple[int, int]]:
    owners = _owners(chat.conversation)
    text = chat.text[: len(chat.text) - len(chat.appended)]
    if _MARKS.search(text):
        return _searched(chat.conversation, owners, text, {})
    found = _marked(chat, owners, text, 0)
    if found is not None:
        return found
    single: dict[_Owner, tuple[int, int]] = {}
    for owner in owners:
        for inset in _INSETS:
            one = _marked(chat, [owner], text, inset)
            if one is not None:
                single.update(one)
                break
    return _searched(chat.conversation, owners, text, single)


def _whole_tool(chat: RenderedChat, owner: _Owner, span: tuple[int, int]) -> tuple[int, int]:
    """The span of a tool widened to its whole JSON object, where the template prints it as that."""
    if owner.kind != "tools":
        return span
    tool = _piece(chat.conversation, owner)
    first, last = span
    for value in (tool, tool.get("function") if isinstance(tool, Mapping) else None):
        for indent in (None, 4, 2):
            printed = json.dumps(value, ensure_ascii=False, indent=indent)
            place = chat.text.find(printed, max(0, last - len(printed)), first + len(printed))
            if 0 <= place <= first and last <= place + len(printed):
                return place, place + len(printed)
    return span


def _owners(conversation: Conversation) -> list[_Owner]:
    tools = [_Owner("tools", index) for index in range(len(conversation.tools or ()))]
    messages = [
        _Owner("system" if message.get("role") in ("system", "developer") else "message", index)
        for index, message in enumerate(conversation.messages)
    ]
    return [*tools, *messages]


def _marked(chat: RenderedChat, owners: list[_Owner], text: str, inset: int) -> dict[_Owner, tuple[int, int]] | None:
    """The spans of these owners by marking all of them at once; None where the marks changed the rendering."""
    numbers: dict[int, _Owner] = {}
    marked_pieces = {owner: _mark(_piece(chat.conversation, owner), owner, numbers, inset) for owner in owners}
    if len(numbers) > _ROOM:
        return None
    try:
        marked = chat.again(_with_pieces(chat.conversation, marked_pieces))
    except Unrenderable:
        return None
    if _MARKS.sub("", marked) != text:
        return None
    spans: dict[_Owner, tuple[int, int]] = {}
    for count, mark in enumerate(_MARKS.finditer(marked)):
        place, code = mark.start() - count, ord(mark[0])
        opens = code < _CLOSE
        owner = numbers[code - (_OPEN if opens else _CLOSE)]
        first, last = spans.get(owner, (place, place))
        # an inset mark stands that many characters inside the string it frames
        spans[owner] = (min(first, place - inset if opens else place), max(last, place if opens else place + inset))
    return {owner: (max(first, 0), min(last, len(text))) for owner, (first, last) in spans.items()}


def _piece(conversation: Conversation, owner: _Owner) -> Any:
    if owner.kind == "tools":
        assert conversation.tools is not None
        return conversation.tools[owner.index]
    return conversation.messages[owner.index]


def _with_pieces(conversation: Conversation, pieces: Mapping[_Owner, Any]) -> Conversation:
    messages = tuple(
        pieces.get(_Owner("message", index), pieces.get(_Owner("system", index), message))
        for index, message in enumerate(conversation.messages)
    )
    tools = conversation.tools
    if tools is not None:
        tools = tuple(pieces.get(_Owner("tools", index), tool) for index, tool in enumerate(tools))
    return replace(conversation, messages=messages, tools=tools)


def _mark(value: Any, owner: _Owner, numbers: dict[int, _Owner], inset: int) -> Any:
    """A copy of a message or tool with every string framed; roles, types and ids of calls steer templates and stay."""

    def frame(text: str) -> str:
        body = text.strip()
        if len(body) <= 2 * inset:
            return text
        number = len(numbers)
        numbers[number] = owner
        start = text.index(body) + inset
        end = text.index(body) + len(body) - inset
        if number > _ROOM:
            return text
        return f"{text[:start]}{chr(_OPEN + number)}{text[start:end]}{chr(_CLOSE + number)}{text[end:]}"

    def walk(node: Any, key: str) -> Any:
        if isinstance(node, str):
            return node if key in ("role", "type", "id", "tool_call_id", "index") else frame(node)
        if isinstance(node, Mapping):
            return {name: walk(item, name) for name, item in node.items()}
        if isinstance(node, (list, tuple)):
            return [walk(item, key if key != "required" else "type") for item in node]
        return node

    return walk(value, "")


def _searched(
    conversation: Conversation, owners: list[_Owner], text: str, known: dict[_Owner, tuple[int, int]]
) -> dict[_Owner, tuple[int, int]]:
    """Adds to the known spans those found by searching each message's own strings between its neighbours."""
    spans = dict(known)
    for owner in owners:
        if owner in spans or owner.kind == "tools":
            continue
        earlier = [span[1] for other, span in spans.items() if other.kind != "tools" and other.index < owner.index]
        later = [span[0] for other, span in spans.items() if other.kind != "tools" and other.index > owner.index]
        floor, ceiling = max(earlier, default=0), min(later, default=len(text))
        for string in _strings(_piece(conversation, owner)):
            place = text.find(string, floor, ceiling)
            if place >= 0:
                first, last = spans.get(owner, (place, place))
                spans[owner] = (min(first, place), max(last, place + len(string)))
    return spans


def _strings(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content")
    pieces = content if isinstance(content, list) else [content]
    for piece in pieces:
        string = piece.get("text") if isinstance(piece, dict) else piece
        if isinstance(string, str) and string.strip():
            yield string.strip()


def tiles(parts: tuple[Part, ...], text: str) -> bool:
    """Whether parts cover a text from start to end without gap or overlap.

    >>> tiles((Part("template", None, 0, 2), Part("message", 0, 2, 3)), "abc")
    True
    """
    edges: Callable[[Part, Part], bool] = lambda before, after: before.end_char == after.start_char  # noqa: E731
    if not parts:
        return not text
    return parts[0].start_char == 0 and parts[-1].end_char == len(text) and all(edges(*two) for two in pairwise(parts))
