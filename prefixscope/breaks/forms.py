"""Normal forms of messages and tools: what must be equal for a difference to be one of form only."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from prefixscope.records import Json

__all__ = [
    "REASONING_KEYS",
    "canonical",
    "content_text",
    "json_canonical",
    "media_of",
    "printed",
    "strings_of",
    "without",
    "without_thoughts",
]

REASONING_KEYS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_OPENS_THOUGHT = re.compile(r"<(think|thinking|reasoning|thought)>")
_SPACE = re.compile(r"\s*")
_EMPTY_THOUGHT = re.compile(r"<(think|thinking|reasoning|thought)>\s*</\1>\s*")


def canonical(value: Json) -> str:
    """JSON with sorted keys: equal for values that are equal as JSON.

    >>> canonical({"b": 1, "a": [2]}) == canonical({"a": [2], "b": 1})
    True
    """
    try:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, ValueError):  # a lone surrogate, or a number beyond 64 bits
        return _canonical_slowly(value)
    # a number that is none is printed as null too
    return _canonical_slowly(value) if "null" in text and _holds_no_number(value) else text


def _canonical_slowly(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def _holds_no_number(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_no_number(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_no_number(item) for item in value)
    return isinstance(value, float) and not math.isfinite(value)


def printed(value: Json) -> str:
    """JSON as most templates print it: logged key order, `, ` and `: `."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def json_canonical(value: Json) -> str | None:
    """The canonical form of a value, or of the JSON that a string holds; None for a string that is no JSON object."""
    if not isinstance(value, str):
        return None if value is None else _canonical_slowly(value)
    if value.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return _canonical_slowly(json.loads(value))
    except (ValueError, RecursionError):  # nested too deeply to be read
        return None


def without(message: Mapping[str, Json], *keys: str) -> dict[str, Json]:
    """The message without some of its keys."""
    return {name: value for name, value in message.items() if name not in keys}


def without_thoughts(message: Mapping[str, Json]) -> dict[str, Json]:
    """The message without reasoning, in a field of its own or between think tags in its content.

    >>> without_thoughts({"content": "<think>hm</think>\\n\\nYes", "reasoning_content": "hm"})
    {'content': 'Yes'}
    """
    kept = without(message, *REASONING_KEYS)
    content = kept.get("content")
    if isinstance(content, str):
        kept["content"] = _without_thoughts(content)
    elif isinstance(content, list):
        kept["content"] = [
            part
            for part in content
            if not (isinstance(part, dict) and str(part.get("type")) in ("thinking", "reasoning", "redacted_thinking"))
        ]
    return kept


def _thoughts_in(text: str) -> Iterator[tuple[int, int]]:
    """Where think blocks stand, with the white space behind them. In one pass, also where many open and none closes."""
    unclosed, end = set(), 0
    for opening in _OPENS_THOUGHT.finditer(text):
        if opening.start() < end or opening[1] in unclosed:
            continue
        closing = f"</{opening[1]}>"
        at = text.find(closing, opening.end())
        if at < 0:
            unclosed.add(opening[1])
            continue
        behind = _SPACE.match(text, at + len(closing))
        end = at + len(closing) if behind is None else behind.end()
        yield opening.start(), end


def _without_thoughts(text: str) -> str:
    pieces, end = [], 0
    for start, stop in _thoughts_in(text):
        pieces.append(text[end:start])
        end = stop
    return "".join((*pieces, text[end:]))


def thoughts_of(message: Mapping[str, Json]) -> list[str]:
    """The reasoning texts of a message."""
    found = [value for key in REASONING_KEYS if isinstance(value := message.get(key), str) and value.strip()]
    content = message.get("content")
    if isinstance(content, str):
        found += [thought for a, b in _thoughts_in(content) if not _EMPTY_THOUGHT.fullmatch(thought := content[a:b])]
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and str(part.get("type")) in ("thinking", "reasoning"):
            found += [value for key in ("thinking", "text", "reasoning") if isinstance(value := part.get(key), str)]
    return found


def content_text(message: Mapping[str, Json]) -> str:
    """The text of a message's content, parts joined without anything between them."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
    return "".join(texts)


def media_of(message: Mapping[str, Json]) -> list[str]:
    """The canonical forms of parts that are no text: images, audio, video."""
    content = message.get("content")
    return [
        canonical(part)
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict)
        and "text" not in str(part.get("type", "text"))
        and str(part.get("type")) not in ("refusal", "thinking", "reasoning", "redacted_thinking", "tool_reference")
    ]


def strings_of(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """All strings of a message with their place, in logged order; objects given as arguments are printed as JSON."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name == "arguments" and not isinstance(item, str):
                yield f"{path}.{name}", printed(item)
            elif name not in ("role", "type"):
                yield from strings_of(item, f"{path}.{name}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings_of(item, f"{path}[]")


def same_but_order(new: Sequence[str], old: Sequence[str], least: int = 2) -> bool:
    """Whether two lists hold the same passages in another order; the last ones (a question) may differ.

    >>> same_but_order(["b", "a", "q?"], ["a", "b", "r?"]), same_but_order(["a", "b"], ["a", "b"])
    (True, False)
    """
    first = next((place for place, (a, b) in enumerate(zip(new, old, strict=False)) if a != b), None)
    if first is None:
        return False
    ours, theirs = list(new[first:]), list(old[first:])
    while ours and theirs and ours[-1] == theirs[-1]:
        ours.pop()
        theirs.pop()
    for cut in (0, 1):
        a, b = ours[: len(ours) - cut], theirs[: len(theirs) - cut]
        if len(a) >= least and len(set(a)) >= least and sorted(a) == sorted(b):
            return a != b
    return False
