"""Causes that come with the template: special tokens, options, a printed date, the generation prompt."""

from __future__ import annotations

import re

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.found import Found
from prefixscope.breaks.sides import Place
from prefixscope.breaks.stretches import ANCHOR
from prefixscope.breaks.volatile import common_chars, volatile_walk

__all__ = ["generation_prefix", "special_tokens", "template_date", "template_kwargs"]

_SPECIAL = re.compile(
    r"(?:\s*(?:<\|[^|<>\s]{1,40}\|>|<｜[^｜<>]{1,40}｜>|</?s>|<(?:bos|eos|pad|unk|start_of_turn|end_of_turn)>|\[/?INST\]|\[(?:BOS|EOS|gMASK|CLS|SEP)\]|<sop>))+\s*"
)
_MOST_SPECIAL = 4
_GENERATION = 96


def special_tokens(comparison: Comparison) -> Found | None:
    """Doubled or missing BOS or template tokens: without them the rest is the old prompt, shifted."""
    gaps = comparison.walk.gaps
    if not gaps:
        return None
    gap = gaps[0]
    added, gone = gap.new_end - gap.new_start, gap.old_end - gap.old_start
    rest = min(comparison.new.prompt_tokens - gap.new_end, len(comparison.old.tokens) // 4 - gap.old_end)
    if max(added, gone) > _MOST_SPECIAL or added == gone or gap.agrees < min(ANCHOR, max(rest, 4)):
        return None
    new = comparison.decode(comparison.new, gap.new_start, gap.new_end)
    old = comparison.decode(comparison.old, gap.old_start, gap.old_end)
    if new is not None and old is not None:
        # the doubled token is often the same as the one before it, so the gap itself holds the token that was added
        if not all(not side or _SPECIAL.fullmatch(side) for side in (new, old)):
            return None
    elif not (gap.new_start <= 1 and min(added, gone) == 0 and _is_first_token(comparison, added > 0)):
        return None
    detail = ("extra" if added > gone else "missing") + f" {abs(added - gone)}"
    return Found("special_tokens", Place("template"), key=detail, detail=detail)


def _is_first_token(comparison: Comparison, added: bool) -> bool:
    """Without text: the token that is too many is a doubled first one, or a first one that the other side lacks."""
    longer = comparison.new.tokens if added else comparison.old.tokens
    return comparison.first == 0 or longer[:4] == longer[4 * comparison.first : 4 * comparison.first + 4]


def template_kwargs(comparison: Comparison) -> Found | None:
    """A template option differs, and with the old one's options the new prompt agrees for longer."""
    new, old = comparison.options
    differing = sorted(name for name in {*_flat(new), *_flat(old)} if _flat(new).get(name) != _flat(old).get(name))
    if not differing or comparison.place.kind in ("message", "tools") or comparison.new_rendered is None:
        return None
    if comparison.old_rendered is None:
        return None
    again = comparison.rendered_as(options=True)
    if again is None:
        return None
    before = common_chars(comparison.new_rendered.text, comparison.old_rendered.text)
    if common_chars(again, comparison.old_rendered.text) <= before:
        return None
    names = ", ".join(differing)
    return Found("template_kwargs", Place("template"), key=names, detail=names)


def _flat(options: object) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in (options if isinstance(options, dict) else {}).items():
        if name == "documents":
            continue
        if name == "chat_template_kwargs" and isinstance(value, dict):
            flat.update({key: item for key, item in value.items() if key != "documents"})
        else:
            flat[name] = value
    return flat


def template_date(comparison: Comparison) -> Found | None:
    """The template printed another date or time: the text is no message's, and only a clock differs in it."""
    window = comparison.window
    if window is None or comparison.new.kind != "chat" or comparison.place.kind != "template":
        return None
    walked = volatile_walk(window.new, window.old)
    if not walked.proven or walked.stretches[0].kind == "volatile_id":
        return None
    if comparison.new_rendered is not None and comparison.old_rendered is not None:
        again = comparison.rendered_as(time=True)
        before = common_chars(comparison.new_rendered.text, comparison.old_rendered.text)
        if again is not None and common_chars(again, comparison.old_rendered.text) <= before:
            return None
    return Found("template_date", Place("template"), explains=lambda a, b: volatile_walk(a, b).proven)


def generation_prefix(comparison: Comparison) -> Found | None:
    """The old prompt's last words stand only in generation prompts: the history does not repeat them."""
    if comparison.bodies is None:
        return None
    new, old = comparison.bodies
    if comparison.equal_messages != len(old.messages) or len(new.messages) <= len(old.messages):
        return None
    left = comparison.old.prompt_tokens - comparison.first
    if not 0 < left <= _GENERATION or comparison.old_rendered is None:
        return None
    part = comparison.old_rendered.parts[-1] if comparison.old_rendered.parts else None
    if part is None or part.kind != "generation":
        return None
    text = comparison.old_rendered.text
    ends = comparison.decode(comparison.old, comparison.first, comparison.old.prompt_tokens)
    if ends is None or len(ends) > part.end_char - part.start_char + 1 or not text.endswith(ends):
        return None
    return Found("template_generation_prefix", Place("generation"), key=ends.strip()[:40], context=ends)
