"""Reasoning of earlier turns that is gone: not sent back by the client, or not shown by the template."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.forms import canonical, content_text, thoughts_of, without, without_thoughts
from prefixscope.breaks.found import Found
from prefixscope.breaks.sides import Place
from prefixscope.records import Json

__all__ = ["reasoning_dropped"]


def reasoning_dropped(comparison: Comparison) -> Found | None:
    """Reasoning of an earlier turn is gone: dropped by the client (field absent) or by the template (field present)."""
    if comparison.place.kind == "output":
        return _thought_not_sent_back(comparison)
    if comparison.bodies is None:
        return _thought_cut_from_text(comparison)
    changed = comparison.changed
    if changed is not None and comparison.place.kind in ("message", "template"):
        new, old = changed
        if len(thoughts_of(new)) < len(thoughts_of(old)) and _same_but_thoughts(new, old):
            place = Place("message", comparison.equal_messages, _role(new))
            return Found("reasoning_dropped", place, key="client", detail="client", explains=_thought_gone)
    return _dropped_by_template(comparison)


def _same_but_thoughts(new: Mapping[str, Json], old: Mapping[str, Json]) -> bool:
    ours, theirs = without_thoughts(new), without_thoughts(old)
    if canonical(without(ours, "content")) != canonical(without(theirs, "content")):
        return False
    return content_text(ours).split() == content_text(theirs).split()


def _role(message: Mapping[str, Json]) -> str | None:
    role = message.get("role")
    return role if isinstance(role, str) else None


def _dropped_by_template(comparison: Comparison) -> Found | None:
    """The message still carries its reasoning; the old prompt shows it at the first difference, the new one not."""
    window = comparison.window
    if window is None or comparison.bodies is None:
        return None
    for index in range(comparison.equal_messages):
        message = comparison.message(comparison.bodies[0].messages[index])
        for thought in thoughts_of(message):
            begins = " ".join(_unwrapped(thought).split())[:16]
            if begins and _opens(window.old, window.left, begins) and not _opens(window.new, window.left, begins):
                place = Place("message", index, _role(message))
                return Found("reasoning_dropped", place, key="template", detail="template", explains=_thought_gone)
    return None


def _unwrapped(text: str) -> str:
    """A think block's text without what opens it."""
    return re.sub(r"^[^\w]*(?:think|thinking|reasoning|thought)\b\s*[>|]*\s*", "", text, count=1)


_MOST_OPENING = 64
_OPENING = re.compile(r"(?:[\W_]|think(?:ing)?|thoughts?|reasoning|analysis|channel|message|assistant|start)*", re.I)


def _opens(text: str, at: int, begins: str) -> bool:
    """Whether a thought begins at a place of a prompt, behind nothing but what opens one in some template; `begins`
    is its first text (of which a window may hold less)."""
    tag = text.rfind("<", max(at - 16, 0), at)
    start = tag if tag >= 0 and ">" not in text[tag:at] else at  # the sides may part within a tag
    shown = " ".join(text[start : start + 4 * _MOST_OPENING].split())
    place = shown.find(begins)
    if place < 0 and len(shown) < _MOST_OPENING:  # the window ends in it
        place = next((n for n in range(len(shown)) if begins.startswith(shown[n:])), -1)
    return 0 <= place <= _MOST_OPENING and _OPENING.fullmatch(shown, 0, place) is not None


def _thought_gone(new: str, old: str) -> bool:
    return "think" in old and "think" not in new


def _thought_not_sent_back(comparison: Comparison) -> Found | None:
    """The generated answer began with a think block that the history does not repeat."""
    end = len(comparison.old.tokens) // 4
    old = comparison.decode(comparison.old, comparison.first - 8, end)
    new = comparison.decode(comparison.new, comparison.first, min(comparison.first + 48, comparison.new.prompt_tokens))
    if old is None or new is None:
        return None
    match = re.search(r"</(?:think|thinking|reasoning|thought)>\s*", old)
    if match is None or not new.strip():
        return None
    answer = old[match.end() :][:16].strip()
    if not answer or not new.lstrip().startswith(answer):
        return None
    detail = "template" if _still_logged(comparison) else "client"
    return Found("reasoning_dropped", comparison.place, key=detail, detail=detail)


def _still_logged(comparison: Comparison) -> bool:
    """Whether the message that the answer became still carries its reasoning in the log."""
    if comparison.bodies is None:
        return False
    new, old = comparison.bodies
    at = len(old.messages)
    return at < len(new.messages) and bool(thoughts_of(comparison.message(new.messages[at])))


def _thought_cut_from_text(comparison: Comparison) -> Found | None:
    gaps = comparison.walk.gaps
    if not gaps or gaps[0].new_end - gaps[0].new_start > 4 or not gaps[0].agrees:
        return None
    old = comparison.decode(comparison.old, gaps[0].old_start - 8, gaps[0].old_end + 8)
    new = comparison.decode(comparison.new, gaps[0].new_start - 8, gaps[0].new_end + 8)
    if old is None or new is None or not re.search(r"<(?:think|thinking|reasoning|thought)>", old):
        return None
    if "think" in new and old.count("<think") <= new.count("<think"):
        return None
    return Found("reasoning_dropped", comparison.place, key="text", detail="client", explains=_thought_gone)
