"""Where two prompts of equal tokens stop being equal, because a placeholder stands for another image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.forms import canonical, media_of
from prefixscope.breaks.volatile import common_chars

__all__ = ["first_other_medium"]

_MARK = "\ue000"


def first_other_medium(comparison: Comparison) -> int | None:
    """The token at which the first medium begins that differs between both; None where all that both have are equal."""
    changed = comparison.changed
    if changed is None or comparison.bodies is None:
        return None
    new, old = changed
    ours, theirs = media_of(new), media_of(old)
    number = next(
        (n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs))
    )
    if number == len(ours) == len(theirs) or number >= len(ours):
        return None
    messages = [comparison.message(piece) for piece in comparison.bodies[0].messages]
    messages[comparison.equal_messages] = _marked(new, ours[number], number)
    text, marked = comparison.new_rendered, comparison.rendered_with(messages)
    if text is None or marked is None:
        return None
    return _token_at(comparison, common_chars(text.text, marked))


def _marked(message: Mapping[str, Any], medium: str, number: int) -> dict[str, Any]:
    """The message with one medium replaced by a text that no template changes."""
    parts, seen = [], 0
    for part in message["content"]:
        is_medium = isinstance(part, dict) and canonical(part) == medium
        if is_medium and seen == _equal_before(message, medium, number):
            part = {"type": "text", "text": _MARK}
        seen += is_medium
        parts.append(part)
    return {**message, "content": parts}


def _equal_before(message: Mapping[str, Any], medium: str, number: int) -> int:
    return media_of(message)[:number].count(medium)


def _token_at(comparison: Comparison, char: int) -> int:
    """The token that holds a character of the prompt: beginnings of the prompt are decoded until they reach it."""
    low, high = 0, comparison.new.prompt_tokens
    while low < high:
        middle = (low + high) // 2
        text = comparison.decode(comparison.new, 0, middle + 1) or ""
        if len(text) <= char:
            low = middle + 1
        else:
            high = middle
    return low
