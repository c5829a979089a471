"""Prompts that kept all they could be expected to share: first_seen, append_only, rewound, branched. No faults.

A branch is a difference at a new turn from outside (a user's question, a tool's answer) behind which nothing of the
old conversation comes back. A turn that is the same but for its form, a clock or the order of its passages is no
other question.
"""

from __future__ import annotations

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.forms import content_text, json_canonical
from prefixscope.breaks.passages import reordered_passages
from prefixscope.breaks.volatile import common_chars, volatile_walk

__all__ = [
    "GENERATION",
    "answer_is_approximate",
    "by_length",
    "is_branch",
    "may_be_moved",
    "old_turns_return",
    "reordered_text",
    "rewritten_when_answered",
    "same_turn_in_another_form",
    "stands_elsewhere",
    "went_back",
    "went_on",
]

_TOOLS = ("tool", "function", "ipython", "observation")
_OUTSIDE = ("user", *_TOOLS)
LONG_TURN = 200
"""Characters that must agree behind a clock or id before two turns are one text, not two questions."""
GENERATION = 96
SHORT_TURN = 16
"""The same for a turn that already has an answer."""
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
    """Whether the old conversation goes on in the new one: then the turn was changed or cut, not added.

    One long message or two of any length are a sign of it; so is the old one's last message when more follows it.
    """
    assert comparison.bodies is not None
    new, old = (body.messages[at:] for body in comparison.bodies)
    later = set(old) & set(new)
    if not later:
        return False
    if old[-1] in new[:-1] and len(old) > 1:
        return True
    messages = [comparison.message(piece) for piece in later]
    if len(later) > 1 and any(message.get("role") == "assistant" for message in messages):
        return True
    return any(len(content_text(message)) >= RETURNS or message.get("tool_calls") for message in messages)


def old_turns_return(comparison: Comparison) -> bool:
    """Whether turns of the old conversation stand behind the first difference of the messages."""
    return comparison.bodies is not None and _comes_back(comparison, comparison.equal_messages)


def went_on(comparison: Comparison) -> bool:
    """Whether all of the old messages are shared, and only its generation prompt is not: no answer follows them."""
    if comparison.bodies is None or comparison.old.prompt_tokens - comparison.first > GENERATION:
        return False
    new, old = (len(body.messages) for body in comparison.bodies)
    if new <= old or comparison.role(old) == "assistant" or comparison.old_rendered is None:
        return False
    part = comparison.old_rendered.parts[-1] if comparison.old_rendered.parts else None
    if part is None or part.kind != "generation" or comparison.new_rendered is None:
        return False
    return common_chars(comparison.new_rendered.text, comparison.old_rendered.text) >= part.start_char


def same_turn_in_another_form(comparison: Comparison) -> bool:
    """Whether the two turns at the first difference are one text in two forms, or with other media or ids."""
    assert comparison.changed is not None and comparison.bodies is not None
    new, old = comparison.changed
    ours, theirs = content_text(new), content_text(old)
    if ours == theirs and (ours or new.get("role") == old.get("role")):
        return True
    if ours.split() == theirs.split() or "".join(ours.split()) == "".join(theirs.split()) != "":
        return True
    read = json_canonical(ours)
    if read is not None and read == json_canonical(theirs):
        return True
    if _cut_when_answered(comparison, ours, theirs):
        return True
    walked = volatile_walk(ours, theirs)
    if walked.proven:
        start = walked.stretches[0].new_start
        agreed = walked.new_end - start - sum(one.new_end - one.new_start for one in walked.stretches)
        if agreed >= LONG_TURN:
            return True
        in_history = new.get("role") != "user" or comparison.equal_messages < len(comparison.bodies[0].messages) - 1
        if in_history and walked.complete and start + agreed >= SHORT_TURN:
            return True
    return reordered_text(ours, theirs) and may_be_moved(comparison)


def _cut_when_answered(comparison: Comparison, new: str, old: str) -> bool:
    """Whether a turn that has an answer by now stands in the old one, or the old one in it: a reminder, a context or a
    clock in front of it or behind it came or went."""
    if not _is_answered(comparison) or min(len(new), len(old)) < SHORT_TURN:
        return False
    return new in old or old in new or (len(cut := new.rstrip(".… ")) >= SHORT_TURN and old.startswith(cut))


def _is_answered(comparison: Comparison) -> bool:
    """Whether something follows the first message that differs."""
    return comparison.bodies is not None and comparison.equal_messages < len(comparison.bodies[0].messages) - 1


def rewritten_when_answered(comparison: Comparison) -> bool:
    """Whether, within one session, an answered turn is the old one with another text: the result of the same tool call,
    or a question of which much at the end is the same."""
    if comparison.changed is None or not _is_answered(comparison):
        return False
    new, old = comparison.changed
    role = new.get("role")
    if role != old.get("role"):
        return False
    if role in _TOOLS:
        return new.get("tool_call_id") == old.get("tool_call_id")
    ours, theirs = content_text(new), content_text(old)
    least = min(len(ours), len(theirs))
    return common_chars(ours[::-1], theirs[::-1]) >= max(SHORT_TURN, (least + 1) // 2)


_EXCHANGED = 32


def may_be_moved(comparison: Comparison) -> bool:
    """Whether text may have changed places at the first difference.

    A few tokens that stand for a few others, with agreement behind them, were exchanged. What moved away leaves a
    hole on one side.
    """
    gaps = comparison.walk.gaps
    if not gaps:
        return False
    gap = gaps[0]
    sizes = gap.new_end - gap.new_start, gap.old_end - gap.old_start
    return not (min(sizes) > 0 and max(sizes) <= _EXCHANGED <= gap.agrees)


def reordered_text(new: str, old: str) -> bool:
    """Whether two texts are the same passages in another order."""
    if not stands_elsewhere(new, old):
        return False
    start = common_chars(new, old)
    start = max(new.rfind("\n", 0, start), new.rfind(". ", 0, start), start - _BACK, 0)
    end = _common_end(new[start:], old[start:])
    ours, theirs = new[start : len(new) - end], old[start : len(old) - end]
    return reordered_passages(ours, theirs)


def stands_elsewhere(new: str, old: str) -> bool:
    """Whether what stands at the first difference now may stand further behind in the old text."""
    start = common_chars(new, old)
    return any(new[start + skip : start + skip + _CHUNK] in old[start:] for skip in (0, 6, 12, 24))


_CHUNK = 14
_BACK = 400


def _common_end(new: str, old: str) -> int:
    """Characters both end with, to the last line end among them."""
    low, high = 0, min(len(new), len(old))
    while low < high:
        middle = (low + high + 1) // 2
        if new[len(new) - middle :] == old[len(old) - middle :]:
            low = middle
        else:
            high = middle - 1
    return len(new) - new.find("\n", len(new) - low) if low and "\n" in new[len(new) - low :] else 0


def _tail_differs(comparison: Comparison) -> bool:
    """For prompts without messages: nothing much agrees behind the first difference."""
    rest = comparison.new.prompt_tokens - comparison.first
    agreed = sum(gap.agrees for gap in comparison.walk.gaps)
    return agreed < max(16, rest // 4)


def went_back(comparison: Comparison) -> bool:
    """All messages of the new prompt begin the old one, and only its generation prompt is not there."""
    if comparison.bodies is None:
        return False
    new, old = comparison.bodies
    return (
        comparison.equal_messages == len(new.messages) < len(old.messages)
        and comparison.tools is None
        and comparison.place.kind == "generation"
    )


def answer_is_approximate(comparison: Comparison) -> bool:
    """The difference lies in an answer whose ids were made from its text: nothing is proven by it."""
    return comparison.place.kind == "output" and comparison.old.output != "ids"
