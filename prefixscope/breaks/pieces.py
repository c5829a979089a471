"""A request's body taken apart into pieces of JSON text: its messages, its tools, its options that reach a prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import xxhash

from prefixscope.records import Json, LoggedRequest

__all__ = ["BodyPieces", "Piece", "body_of", "is_system_prompt", "loads", "pieces_of"]

_ROLE_FIRST = b'{"role":"'
_SYSTEM_FIRST = (b'{"role":"system"', b'{"role":"developer"')
_SYSTEM_ROLES = (b'"system"', b'"developer"')
_OPTIONS = frozenset((
    "chat_template_kwargs", "reasoning_effort", "documents", "add_generation_prompt", "continue_final_message",
    "add_special_tokens", "chat_template", "tool_choice", "echo",
))  # fmt: skip
"""Fields besides messages and tools that can reach a prompt; all others never do and are not kept."""

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


def is_system_prompt(raw: bytes) -> bool:
    """Whether a message's JSON text is that of a system prompt.

    >>> is_system_prompt(b'{"role":"system","content":""}'), is_system_prompt(b'{"content":"system","role":"user"}')
    (True, False)
    """
    if raw.startswith(_ROLE_FIRST):
        return raw.startswith(_SYSTEM_FIRST)
    if not any(role in raw for role in _SYSTEM_ROLES):
        return False
    value = loads(raw)
    return isinstance(value, dict) and value.get("role") in ("system", "developer")


def _dumps(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, or a number beyond 64 bits
        return json.dumps(value, ensure_ascii=True).encode()


def loads(raw: bytes) -> Json:
    """The JSON value of a piece's text."""
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
