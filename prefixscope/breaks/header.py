"""Taking a clock, a date or an id out of a text: the stretch alone, or the whole line where it holds nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from prefixscope.breaks.found import shape_of
from prefixscope.breaks.volatile import Volatile, all_stretches, stretch_at
from prefixscope.records import Json, LoggedRequest

__all__ = ["CONTEXT", "Spot", "context_of", "further_of", "without_spots"]

CONTEXT = 16
"""Characters in front of a volatile stretch by which its place is known again."""
_REACH = 600
"""Characters behind the first stretch in which others are looked for."""
_WORDS_OF_A_TEXT = 12
"""Letters that a line must have besides its clocks and ids to be kept."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a volatile stretch stands: `part` is system, tools, message (any role) or text, `context` the shape of what
    is in front of it (all there is, where that is shorter). `also`: which of the stretches behind it vary as well."""

    cause: str
    part: str
    context: str
    also: tuple[int, ...] = ()


def context_of(text: str, start: int) -> str:
    """The shape of the characters in front of a place.

    >>> context_of("It is now 20:37", 10)
    'It is now'
    """
    return shape_of(text[max(0, start - CONTEXT) : start])


def without_spots(
    request: LoggedRequest, spots: tuple[Spot, ...], taken: list[str] | None = None
) -> Mapping[str, Json]:
    """The body without what stands at these spots. `taken` gets what stood in front of all turns: in system prompts,
    tools and prompts that are no messages."""
    body = dict(request.body)
    if request.kind == "text" and isinstance(body.get("prompt"), str):
        body["prompt"] = _cleaned(body["prompt"], spots, taken)
    if request.kind != "chat":
        return body
    messages = body.get("messages")
    if isinstance(messages, list):
        body["messages"] = [_message(message, spots, taken) for message in messages]
    wanted = tuple(spot for spot in spots if spot.part == "tools")
    if wanted and isinstance(body.get("tools"), list):
        body["tools"] = _everywhere(body["tools"], wanted, taken)
    return body


def _message(message: Any, spots: tuple[Spot, ...], taken: list[str] | None) -> Any:
    if not isinstance(message, dict):
        return message
    part = "system" if str(message.get("role")) in ("system", "developer") else "message"
    wanted = tuple(spot for spot in spots if spot.part == part)
    if not wanted:
        return message
    return {
        name: value
        if name in ("role", "type", "name")
        else _everywhere(value, wanted, taken if part == "system" else None)
        for name, value in message.items()
    }


def _everywhere(value: Any, spots: tuple[Spot, ...], taken: list[str] | None) -> Any:
    if isinstance(value, str):
        return _cleaned(value, spots, taken)
    if isinstance(value, dict):
        return {name: _everywhere(item, spots, taken) for name, item in value.items()}
    return [_everywhere(item, spots, taken) for item in value] if isinstance(value, list) else value


def _cleaned(text: str, spots: tuple[Spot, ...], taken: list[str] | None) -> str:
    for spot in spots:
        for start in reversed(_places(text, spot.context)):
            end = stretch_at(text, start)
            if end is None:
                continue
            behind = all_stretches(text[end : end + _REACH]) if spot.also else []
            found = [
                (start, end),
                *((end + behind[one][0], end + behind[one][1]) for one in spot.also if one < len(behind)),
            ]
            pieces = sorted({_extent(text, *one) for one in found})
            if taken is not None:
                taken += [text[first:last].rstrip("\n") for first, last in pieces]
            for first, last in reversed(pieces):
                text = text[:first] + text[last:]
    return text


def further_of(text: str, stretches: Sequence[Volatile]) -> tuple[int, ...]:
    """Which of the clocks, dates and ids behind the first of some stretches the others are.

    >>> from prefixscope.breaks.volatile import volatile_walk
    >>> walked = volatile_walk("[08:00 | 7 | req 8f3e] Be brief.", "[09:30 | 7 | req 02bd] Be brief.")
    >>> further_of("[08:00 | 7 | req 8f3e] Be brief.", walked.stretches)
    (1,)
    """
    end = stretches[0].new_end
    places = [(end + first, end + last) for first, last in all_stretches(text[end : end + _REACH])]
    return tuple(
        number
        for number, (first, last) in enumerate(places)
        if any(first < one.new_end and one.new_start < last for one in stretches[1:])
    )


def _places(text: str, context: str) -> list[int]:
    """Where a stretch with this context may begin."""
    if not context:
        return [0]
    return [match.end() for match in _pattern(context).finditer(text)]


@lru_cache(maxsize=256)
def _pattern(context: str) -> re.Pattern[str]:
    signs = {"0": r"\d", " ": r"\s+"}
    body = "".join(signs.get(character, re.escape(character)) for character in context)
    anchor = r"\A\s*" if len(context) < CONTEXT // 2 else ""
    return re.compile(f"{anchor}{body}\\s*")


def _extent(text: str, start: int, end: int) -> tuple[int, int]:
    """From where to where is cut: the stretch, or its whole line where clocks and ids are all it has."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    if line_end >= 0 and _only_volatile(line):
        return line_start, line_end + 1
    return start, end


def _only_volatile(line: str) -> bool:
    rest = line
    for first, last in reversed(all_stretches(line)):
        rest = rest[:first] + rest[last:]
    return sum(character.isalpha() for character in rest) < _WORDS_OF_A_TEXT
