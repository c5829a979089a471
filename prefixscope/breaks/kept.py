"""Prompts that kept all they could be expected to share: first_seen, append_only, rewound, branched. No faults.

A branch is a difference at a new turn from outside (a user's question, a tool's answer) behind which nothing of the
old conversation comes back. A turn that is the same but for its form, a clock or the order of its passages is no
other question.
"""

from __future__ import annotations

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.forms import content_text, media_of, same_but_order, segments
from prefixscope.breaks.volatile import volatile_walk

__all__ = ["by_length", "is_branch", "same_turn_in_another_form"]

_OUTSIDE = ("user", "tool", "function", "ipython", "observation")
LONG_TURN = 200
"""Characters that must agree behind a clock or id before two turns are one text, not two questions."""
RETURNS = 24
"""Characters of one message that make it a sign of the same conversation."""


def by_length(first: int, prompt_tokens: int, old_prompt: int, old_known: int) -> str | None:
    """The class where lengths alone decide: everything of the new prompt, or of the old sequence, is shared.

    >>> by_length(218, 318, 218, 218), by_length(50, 50, 50, 50), by_length(40, 50, 50, 50)
    ('append_only', 'rewound', None)
    """
    if first >= prompt_tokens:
        return "rewound"
    if first >= old_known and first >= old_prompt:
        return "append_only"
    return None


def is_branch(comparison: Comparison) -> bool:
    """Whether the histories are equal up to a new turn."""
    if comparison.place.kind == "output":
        return False
    if comparison.bodies is None:
        return _tail_differs(comparison)
    if comparison.tools is not None and comparison.place.kind in ("tools", "template"):
        return False
    changed = comparison.changed
    if changed is None:
        return False
    new, old = changed
    at = comparison.equal_messages
    if new.get("role") not in _OUTSIDE:
        return False
    if comparison.place.kind == "template":
        if at not in comparison.neighbours:
            return False
    elif comparison.place.kind != "message" or comparison.place.index != at:
        return False
    if _comes_back(comparison, at):
        return False
    return new.get("role") != old.get("role") or not same_turn_in_another_form(comparison)


def _comes_back(comparison: Comparison, at: int) -> bool:
    """Whether a later message of the old conversation stands in the new one: then the turn was changed, not added."""
    assert comparison.bodies is not None
    new, old = comparison.bodies
    later = set(old.messages[at:]) & set(new.messages[at:])
    return any(len(content_text(message := comparison.message(piece))) >= RETURNS or message.get("tool_calls") for piece in later)


def same_turn_in_another_form(comparison: Comparison) -> bool:
    """Whether the two turns at the first difference are one text in two forms."""
    assert comparison.changed is not None
    new, old = comparison.changed
    ours, theirs = content_text(new), content_text(old)
    if media_of(new) != media_of(old) and ours == theirs:
        return True
    if "".join(ours.split()) == "".join(theirs.split()):
        return True
    walked = volatile_walk(ours, theirs)
    if walked.proven:
        start = walked.stretches[0].new_start
        agreed = walked.new_end - start - sum(one.new_end - one.new_start for one in walked.stretches)
        if agreed >= LONG_TURN or (new.get("role") != "user" and walked.complete and start + agreed >= RETURNS):
            return True
    return reordered_text(ours, theirs)


def reordered_text(new: str, old: str) -> bool:
    """Whether two texts are the same passages in another order."""
    if len(new) < 40:
        return False
    for ours, theirs in zip(segments(new), segments(old), strict=False):
        if same_but_order(ours, theirs) and sum(map(len, ours)) >= 40:
            return True
    return False


def _tail_differs(comparison: Comparison) -> bool:
    """For prompts without messages: nothing much agrees behind the first difference."""
    rest = comparison.new.prompt_tokens - comparison.first
    agreed = sum(gap.agrees for gap in comparison.walk.gaps)
    return agreed < max(16, rest // 4)
