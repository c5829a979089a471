"""The same text as other token ids: generated ids against those of the text that was sent back."""

from __future__ import annotations

from prefixscope.breaks.comparison import Comparison
from prefixscope.breaks.found import Found
from prefixscope.breaks.stretches import ANCHOR
from prefixscope.records import MEDIA_TOKEN

__all__ = ["retokenization"]

_MOST = 64
_BOUNDARY = 4
_MOST_UNREAD = 8


def _is_medium(tokens: bytes, place: int) -> bool:
    return bool(int.from_bytes(tokens[4 * place : 4 * place + 4], "little") & MEDIA_TOKEN)


def retokenization(comparison: Comparison) -> Found | None:
    """Both stretches decode to the same text. Without a tokenizer: a few generated ids were replaced by fewer or more,
    and everything behind them came back as it was.
    """
    gaps = comparison.walk.gaps
    if not gaps:
        return None
    gap = gaps[0]
    added, gone = gap.new_end - gap.new_start, gap.old_end - gap.old_start
    if not added or not gone:
        return None
    if comparison.bodies is not None and comparison.first < comparison.old.prompt_tokens - _BOUNDARY:
        return None  # two rendered texts that are equal have equal ids, but where one of them ends
    if _is_medium(comparison.new.tokens, gap.new_start) and _is_medium(comparison.old.tokens, gap.old_start):
        return None  # both decode to the same placeholder
    new = comparison.decode(comparison.new, gap.new_start, min(gap.new_end, gap.new_start + _MOST))
    old = comparison.decode(comparison.old, gap.old_start, min(gap.old_end, gap.old_start + _MOST))
    if new is not None and old is not None:
        # where one side ends in the middle of a token of the other, the shorter text begins the longer one
        equal = new == old if gap.agrees else (new.startswith(old) or old.startswith(new))
        return Found("retokenization", comparison.place, explains=lambda a, b: a == b) if equal and new else None
    rest = min(comparison.new.prompt_tokens - gap.new_end, len(comparison.old.tokens) // 4 - gap.old_end)
    if (
        comparison.place.kind == "output"
        and added != gone
        and max(added, gone) <= _MOST_UNREAD
        and gap.agrees >= min(ANCHOR, max(rest, 1))
    ):
        return Found("retokenization", comparison.place, detail="by the shape of the ids: no tokenizer to read them")
    return None
