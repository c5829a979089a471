"""Whether two requests belong to one conversation: other threads of a session, samples of one answer, summaries."""

from __future__ import annotations

import re
from collections.abc import Sequence

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.forms import canonical, content_text
from prefixscope.breaks.kept import RETURNS, old_turns_return

__all__ = ["another_sample", "other_thread", "same_application", "summed_up"]


def same_application(comparison: Comparison, cause: str) -> bool:
    """Whether two requests of no common session have enough in common for an unproven difference to mean anything.

    Causes that are proven by equality of the rest always do.
    """
    if cause == "system_variant":
        return _similar_systems(comparison)
    if cause == "tools_changed" and comparison.tools is not None:
        new, old = ({canonical(tool) for tool in tools} for tools in comparison.tools)
        return bool(new & old) or _similar_systems(comparison)
    if cause == "content_changed":
        common = comparison.first + sum(gap.agrees for gap in comparison.walk.gaps)
        return 4 * common >= comparison.new.prompt_tokens
    return True


def other_thread(comparison: Comparison, cause: str) -> bool:
    """Whether a request of the same session serves something else: its system prompt has little in common with the
    other one, and no turn but the first is the same. Titles and classifications are made of a question like that."""
    if cause not in ("system_variant", "tools_changed") or comparison.bodies is None:
        return False
    new, old = comparison.bodies
    if len(set(new.messages) & set(old.messages)) > 1:
        return False
    texts = [_system_text(comparison, body.messages[:2]) for body in comparison.bodies]
    ours, theirs = (_telling_words(text) for text in texts)
    return bool(ours and theirs) and 4 * len(ours & theirs) < min(len(ours), len(theirs))


def another_sample(comparison: Comparison) -> bool:
    """Whether the two part in an answer of the model, and nothing of the old conversation comes back behind it."""
    return (
        comparison.changed is not None
        and comparison.changed[0].get("role") == comparison.changed[1].get("role") == "assistant"
        and comparison.place.kind == "message"
        and not old_turns_return(comparison)
    )


_SUMMED_UP = re.compile(
    r"\b(?:earlier|previous|prior|preceding) (?:conversation|messages|turns|session|context|chat)\b"
    r"|\bconversation (?:so far|summary|history|was compacted|compacted)\b"
    r"|\bsummary of (?:the|our|this) (?:conversation|chat|session|dialogue)\b",
    re.IGNORECASE,
)


def summed_up(comparison: Comparison) -> bool:
    """Whether one turn that speaks of the conversation before stands for several of the old ones."""
    if comparison.bodies is None or comparison.changed is None:
        return False
    new, old = (body.messages[comparison.equal_messages :] for body in comparison.bodies)
    ours, theirs = map(content_text, comparison.changed)
    return len(old) > 2 and len(new) < len(old) and bool(_SUMMED_UP.search(ours)) and not _SUMMED_UP.search(theirs)


def _system_text(comparison: Comparison, head: Sequence[int]) -> str:
    messages = [comparison.message(piece) for piece in head]
    return " ".join(content_text(one) for one in messages if one.get("role") in _SYSTEM)


def _telling_words(text: str) -> set[str]:
    """Words of four letters and more, or all where there are none: "the" and "you" stand in all prompts."""
    words = set(text.lower().split())
    return {word for word in words if len(word) >= _TELLING_WORD} or words


def _similar_systems(comparison: Comparison) -> bool:
    """Half of the words of the shorter first message (of four letters and more: "the" and "you" stand in all) are in
    the other, or both continue with the same turn."""
    if comparison.bodies is None:
        return False
    heads = [[comparison.message(piece) for piece in body.messages[:2]] for body in comparison.bodies]
    if not all(heads):
        return False
    turns = [next((content_text(one) for one in head if one.get("role") not in _SYSTEM), "") for head in heads]
    if len(turns[0]) >= RETURNS and turns[0] == turns[1]:
        return True
    ours, theirs = (_telling_words(_system_text(comparison, body.messages[:2])) for body in comparison.bodies)
    return 2 * len(ours & theirs) >= max(min(len(ours), len(theirs)), 1)


_TELLING_WORD = 4
_SYSTEM = ("system", "developer")
