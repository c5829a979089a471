"""Causes in the history: turns dropped, JSON written anew, null or parts for text, other media."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.forms import (
    canonical,
    content_text,
    json_canonical,
    media_of,
    thoughts_of,
    without,
)
from prefixscope.breaks.found import Found
from prefixscope.breaks.sides import Place
from prefixscope.records import Json

__all__ = [
    "content_format",
    "history_truncated",
    "multimodal_content",
    "null_content",
    "tool_arguments_reserialized",
]

_SUMMARY = re.compile(
    r"\b(?:summar(?:y|ised|ized)|compacted|condensed|(?:earlier|previous|prior) (?:conversation|messages|turns))\b",
    re.I,
)
_LONG_DELETION = 24


def history_truncated(comparison: Comparison) -> Found | None:
    """The oldest turns are gone, or one text stands for them, and what followed them is still there."""
    if comparison.bodies is None:
        return _text_truncated(comparison)
    new, old = comparison.bodies
    at = comparison.equal_messages
    ours, theirs = new.messages[at:], old.messages[at:]
    if not theirs:
        return None
    if _summed_up_in_system(comparison) is False:
        return None  # a changed system prompt is no summary: what differs in it comes first
    for inserted in range(min(len(ours), 3)):
        for dropped in range(inserted + 1, len(theirs)):
            gone = not set(theirs[:dropped]) & set(ours)
            if gone and ours[inserted] == theirs[dropped] and _follows(ours[inserted:], theirs[dropped:]):
                detail = "summarised" if inserted else "dropped"
                return Found("history_truncated", comparison.place, key=detail, detail=detail)
    if ours and len(new.messages) < len(old.messages) + 1 and len(theirs) > 2:
        text = content_text(comparison.message(ours[0]))
        earlier = content_text(comparison.message(theirs[0]))
        if _SUMMARY.search(text) and not _SUMMARY.search(earlier):
            return Found("history_truncated", comparison.place, key="summarised", detail="summarised")
    return None


def _summed_up_in_system(comparison: Comparison) -> bool | None:
    """Whether a summary came into the system prompt, where that is what differs first; None where it is not."""
    if comparison.changed is None or comparison.place.kind != "system":
        return None
    new, old = comparison.changed
    if not all(message.get("role") in ("system", "developer") for message in (new, old)):
        return None
    return bool(_SUMMARY.search(content_text(new))) and not _SUMMARY.search(content_text(old))


def _follows(ours: tuple[int, ...], theirs: tuple[int, ...]) -> bool:
    """Whether both go on alike for three messages, or to the end of one."""
    return ours[: min(3, len(theirs))] == theirs[: min(3, len(ours))]


def _text_truncated(comparison: Comparison) -> Found | None:
    gaps = comparison.walk.gaps
    if not gaps:
        return None
    gap = gaps[0]
    gone = gap.old_end - gap.old_start
    if gap.new_end > gap.new_start or gone < _LONG_DELETION or gap.agrees < _LONG_DELETION:
        return None
    return Found("history_truncated", comparison.place, key="dropped", detail="dropped")


def tool_arguments_reserialized(comparison: Comparison) -> Found | None:
    """The message is equal once the JSON in it is read: arguments of calls, or a content that is JSON."""

    def form(message: Mapping[str, Json]) -> str:
        calls = [_call_form(call) for call in message.get("tool_calls") or () if isinstance(call, dict)]
        form = {**message, "tool_calls": calls}
        if (content := json_canonical(message.get("content"))) is not None:
            form["content"] = content
        return canonical(form)

    return _equal_under(comparison, form, "tool_arguments_reserialized") or _reserialized_in_text(comparison)


def _call_form(call: Mapping[str, Json]) -> Json:
    function = call.get("function")
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    return {**call, "function": {**function, "arguments": json_canonical(arguments) or arguments}}


_OBJECT = re.compile(r"[{\[]")


def _reserialized_in_text(comparison: Comparison) -> Found | None:
    """Where an answer's ids are known: the JSON that was generated and the one sent back are equal as JSON."""
    if comparison.place.kind != "output":
        return None
    pair = []
    for side, end in (
        (comparison.new, comparison.new.prompt_tokens),
        (comparison.old, len(comparison.old.tokens) // 4),
    ):
        text = comparison.decode(side, comparison.first - 400, min(end, comparison.first + 2000))
        behind = comparison.decode(side, comparison.first, min(end, comparison.first + 2000))
        if text is None or behind is None:
            return None
        pair.append(_json_around(text, len(text) - len(behind)))
    if pair[0] is None or pair[0] != pair[1]:
        return None
    return Found("tool_arguments_reserialized", comparison.place, key="answer")


def _json_around(text: str, at: int) -> str | None:
    """The canonical form of the JSON object of `text` that holds the place `at`."""
    import json

    decoder = json.JSONDecoder()
    for match in _OBJECT.finditer(text, 0, at + 1):
        try:
            value, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        if end > at:
            return canonical(value)
    return None


def null_content(comparison: Comparison) -> Found | None:
    """Null against empty or missing."""

    def form(message: Mapping[str, Json]) -> str:
        return canonical({name: value for name, value in message.items() if value not in (None, "", [])})

    return _equal_under(comparison, form, "null_content")


def content_format(comparison: Comparison) -> Found | None:
    """A text against a list of parts, or the same text in other parts."""
    changed = comparison.changed
    if changed is None or not any(isinstance(message.get("content"), list) for message in changed):
        return None
    if media_of(changed[0]) != media_of(changed[1]) or thoughts_of(changed[0]) != thoughts_of(changed[1]):
        return None

    def form(message: Mapping[str, Json]) -> str:
        return canonical({**message, "content": "".join(content_text(message).split())})

    return _equal_under(comparison, form, "content_format")


def _equal_under(comparison: Comparison, form: Callable[[Mapping[str, Json]], str], cause: str) -> Found | None:
    if comparison.changed is None or comparison.place.kind not in ("message", "system", "template", "generation"):
        return None
    new, old = comparison.changed
    if form(new) != form(old):
        return None
    place = comparison.place
    role = new.get("role")
    if place.kind in ("template", "generation"):
        place = Place("message", comparison.equal_messages, role if isinstance(role, str) else None)
    return Found(
        cause,
        place,
        key=place.role or place.kind,
        moved=cause == "tool_arguments_reserialized",
        explains=lambda *_: True,
    )


def multimodal_content(comparison: Comparison) -> Found | None:
    """Another image, audio or video, and the same text around it."""
    changed = comparison.changed
    if changed is None or media_of(changed[0]) == media_of(changed[1]):
        return None
    new, old = changed
    if content_text(new) != content_text(old) or canonical(without(new, "content")) != canonical(
        without(old, "content")
    ):
        return None
    role = new.get("role")
    place = Place("message", comparison.equal_messages, role if isinstance(role, str) else None)
    return Found("multimodal_content", place, key=place.role or "")
