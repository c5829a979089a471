"""Causes inside a text: clocks, dates, ids, white space, the order of passages; and another system prompt."""

from __future__ import annotations

import re

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.forms import canonical, content_text, strings_of
from prefixscope.breaks.found import Found
from prefixscope.breaks.header import context_of, further_of
from prefixscope.breaks.kept import may_be_moved, reordered_text, stands_elsewhere
from prefixscope.breaks.sides import Place
from prefixscope.breaks.spaces import begins_with_space, folded, space_only
from prefixscope.breaks.volatile import VolatileWalk, volatile_walk

__all__ = ["content_changed", "documents_reordered", "system_variant", "volatile_in_text", "whitespace"]

_ENOUGH = 12
_DIGITS = re.compile(r"\d+")


def volatile_in_text(comparison: Comparison) -> Found | None:
    """A clock, a date or an id differs in system, tool or history text, and the text agrees again behind it."""
    if comparison.place.kind not in ("system", "message", "output"):
        return None
    text, walked = _walked(comparison)
    if walked is None or not walked.proven:
        return None
    first = walked.stretches[0]
    context = context_of(text, first.new_start)
    return Found(
        first.kind,
        comparison.place,
        key=context,
        context=context,
        also=further_of(text, walked.stretches),
        explains=lambda a, b: volatile_walk(a, b).proven,
    )


def _walked(comparison: Comparison) -> tuple[str, VolatileWalk | None]:
    """The walk over the string that holds the first difference; over decoded text where there are no messages."""
    for new, old in _differing_strings(comparison):
        walked = volatile_walk(new, old)
        if walked.proven or not walked.stretches or begins_with_space(new, old):
            return new, walked
        # other white space further on must not hide it
        return folded(new), volatile_walk(folded(new), folded(old))
    if comparison.bodies is not None and comparison.changed is not None:
        return "", None
    window = comparison.window
    if window is None:
        return "", None
    walked = volatile_walk(window.new, window.old)
    # a stretch that reaches the end of what was decoded proves nothing
    behind = walked.new_end - (walked.stretches[0].new_end if walked.stretches else 0)
    return window.new, walked if behind >= _ENOUGH or _all_shown(comparison) else None


def _all_shown(comparison: Comparison) -> bool:
    return comparison.new.prompt_tokens - comparison.first < 40


def _differing_strings(comparison: Comparison) -> list[tuple[str, str]]:
    if comparison.changed is None:
        return []
    ours, theirs = (list(strings_of(message)) for message in comparison.changed)
    for (our_path, new), (their_path, old) in zip(ours, theirs, strict=False):
        if our_path != their_path:
            return []
        if new != old:
            return [(new, old)]
    return []


def whitespace(comparison: Comparison) -> Found | None:
    """Only white space differs where the sides part, and the text agrees again behind it."""
    pairs = _differing_strings(comparison)
    if not pairs:
        window = comparison.window
        if window is None or (comparison.bodies is not None and comparison.changed is not None):
            return None
        pairs = [(window.new, window.old)]
    new, old = pairs[0]
    if not space_only(new, old) and not (
        begins_with_space(new, old) and volatile_walk(folded(new), folded(old)).proven
    ):  # a clock may differ, too
        return None
    role = comparison.place.role or comparison.place.kind
    return Found("whitespace", comparison.place, key=role, explains=space_only)


def documents_reordered(comparison: Comparison) -> Found | None:
    """The same passages in another order: in `documents`, in one text, or as messages of their own."""
    new_options, old_options = comparison.options
    new_documents, old_documents = (_documents(options) for options in (new_options, old_options))
    if new_documents != old_documents and sorted(new_documents) == sorted(old_documents):
        return Found("documents_reordered", comparison.place, key="documents", moved=True)
    changed = comparison.changed
    if changed is not None:
        ours, theirs = map(content_text, changed)
        if _parts_reordered(comparison) or (may_be_moved(comparison) and _reordered(ours, theirs)):
            key = comparison.place.role or comparison.place.kind
            return Found("documents_reordered", comparison.place, key=key, moved=True)
        return None
    if comparison.bodies is None and may_be_moved(comparison):
        new = comparison.decode(comparison.new, comparison.first - 64, comparison.new.prompt_tokens)
        old = comparison.decode(comparison.old, comparison.first - 64, comparison.old.prompt_tokens)
        if new is not None and old is not None and reordered_text(new, old):
            return Found("documents_reordered", comparison.place, moved=True)
    return None


def _reordered(new: str, old: str) -> bool:
    """Also where a clock or an id further on is another one, too."""
    if not stands_elsewhere(new, old):
        return False
    if reordered_text(new, old):
        return True
    if volatile_walk(new, old).stretches:
        return False  # a clock or an id comes first
    return reordered_text(_DIGITS.sub("#", new), _DIGITS.sub("#", old))


def _documents(options: object) -> list[str]:
    values = options if isinstance(options, dict) else {}
    inner = values.get("chat_template_kwargs")
    documents = values.get("documents") or (inner.get("documents") if isinstance(inner, dict) else None)
    return [canonical(document) for document in documents] if isinstance(documents, list) else []


def _parts_reordered(comparison: Comparison) -> bool:
    assert comparison.changed is not None and comparison.bodies is not None
    lists = [content for message in comparison.changed if isinstance(content := message.get("content"), list)]
    if len(lists) == 2 and min(map(len, lists)) > 1:
        new, old = ([canonical(part) for part in content] for content in lists)
        if sorted(new) == sorted(old):
            return True
    at = comparison.equal_messages
    ours, theirs = (body.messages[at:] for body in comparison.bodies)
    for length in range(2, min(len(ours), len(theirs), 24) + 1):
        if sorted(ours[:length]) == sorted(theirs[:length]):
            roles = {comparison.message(piece).get("role") for piece in ours[:length]}
            return len(roles) == 1
    return False


def system_variant(comparison: Comparison) -> Found | None:
    """Another system prompt."""
    kind = comparison.place.kind
    changed = comparison.changed
    roles = {message.get("role") for message in changed} if changed is not None else set()
    systems = roles & {"system", "developer"}
    if kind != "system" and not (kind in ("template", "message") and systems and comparison.equal_messages == 0):
        return None
    return Found("system_variant", Place("system", 0, "system"))


def content_changed(comparison: Comparison) -> Found | None:
    """Anything else."""
    return Found("content_changed", comparison.place, key=comparison.place.role or comparison.place.kind)
