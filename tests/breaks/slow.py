"""Slow, obvious versions of what the break finder does fast: every look-up is a search over the whole sequence."""

from __future__ import annotations

import re
from collections.abc import Iterator

from prefixscope.breaks.agreement import ANCHOR, Gap, Walk
from prefixscope.breaks.forms import same_but_order

_NEAR, _FAR, _FAR_STEP = 72, 40, 24
_MOST_GAPS = 24


def common_prefix(new: bytes, old: bytes, at: int, other: int) -> int:
    """Tokens that follow alike."""
    same = 0
    while new[4 * (at + same) : 4 * (at + same + 1)] == old[4 * (other + same) : 4 * (other + same + 1)] != b"":
        same += 1
    return same


def common_suffix(new: bytes, old: bytes, new_floor: int, old_floor: int) -> int:
    """Tokens both end with."""
    a, b = len(new) // 4, len(old) // 4
    same = 0
    while a - same > new_floor and b - same > old_floor:
        if new[4 * (a - same - 1) : 4 * (a - same)] != old[4 * (b - same - 1) : 4 * (b - same)]:
            break
        same += 1
    return same


def walk(new: bytes, old: bytes, start: int, most_gaps: int = _MOST_GAPS) -> Walk:
    """The gaps behind `start`, the first token that differs."""
    gaps: list[Gap] = []
    a = b = start
    new_tokens, old_tokens = len(new) // 4, len(old) // 4
    while a < new_tokens and b < old_tokens:
        if len(gaps) == most_gaps:
            return Walk(tuple(gaps), False)
        found = _agree_again(new, old, a, b)
        if found is None:
            gaps.append(Gap(a, new_tokens, b, old_tokens, 0))
            return Walk(tuple(gaps), True)
        next_a, next_b = found
        agrees = common_prefix(new, old, next_a, next_b)
        gaps.append(Gap(a, next_a, b, next_b, agrees))
        a, b = next_a + agrees, next_b + agrees
    if a < new_tokens or b < old_tokens:
        gaps.append(Gap(a, new_tokens, b, old_tokens, 0))
    return Walk(tuple(gaps), True)


def _agree_again(new: bytes, old: bytes, a: int, b: int) -> tuple[int, int] | None:
    """The nearest places behind (a, b) where the sides agree for ANCHOR tokens, or to both their ends."""
    steps = [*range(_NEAR), *range(_NEAR, _NEAR + _FAR * _FAR_STEP, _FAR_STEP)]
    new_tokens, old_tokens = len(new) // 4, len(old) // 4
    best: tuple[int, int] | None = None
    for step in steps:
        if best is not None and 2 * step > best[0] - a + best[1] - b:
            break  # of two nearer places one would lie less than half as far
        if a + step + ANCHOR <= new_tokens:
            place = _find(old, new[4 * (a + step) : 4 * (a + step + ANCHOR)], b)
            if place >= 0:
                best = _nearer(best, (a + step, place), a, b)
        if b + step + ANCHOR <= old_tokens:
            place = _find(new, old[4 * (b + step) : 4 * (b + step + ANCHOR)], a)
            if place >= 0:
                best = _nearer(best, (place, b + step), a, b)
    if best is not None:
        back = common_suffix(new[: 4 * best[0]], old[: 4 * best[1]], a, b)
        return best[0] - back, best[1] - back
    tail = common_suffix(new, old, a, b)
    return None if not tail else (new_tokens - tail, old_tokens - tail)


def _nearer(best: tuple[int, int] | None, other: tuple[int, int], a: int, b: int) -> tuple[int, int]:
    return other if best is None or sum(other) < sum(best) else best


def _find(tokens: bytes, piece: bytes, start: int) -> int:
    """The place of `piece` in `tokens` from token `start` on; -1 where it is not."""
    place = tokens.find(piece, 4 * start)
    while place >= 0 and place % 4:
        place = tokens.find(piece, place + 1)
    return -1 if place < 0 else place // 4


def moved_agreement(new: bytes, old: bytes, start: int) -> int:
    """Tokens of new[start:] in stretches that old[start:] has anywhere."""
    size = 4 * ANCHOR
    held = {old[place : place + size] for place in range(4 * start, len(old) - size + 1, 4)}
    covered: set[int] = set()
    for place in range(4 * start, len(new) - size + 1, 4):
        if new[place : place + size] in held:
            covered.update(range(place, place + size, 4))
    return len(covered)


_MARKER = re.compile(
    r"(?=<(?:document|doc|passage|source|chunk|context|item|result)\b)"
    r"|(?=[\[(](?:doc(?:ument)?|passage|source|chunk|context|result|ref)?\s*#?\d+[\])])"
    r"|(?=\b(?:Document|Doc|Passage|Source|Chunk|Context|Result)\s*#?\d+\s*[:.)\-])",
    re.IGNORECASE,
)
_NUMBERING = re.compile(
    r"^[\s\W]*(?:(?:document|doc|passage|source|chunk|context|item|result|ref)\b[\s_]*)?(?:(?:id|index|number|no|n)\s*=\s*)?"
    r"[\"'#]*\d*[\"'\])>:.\-\s]*",
    re.IGNORECASE,
)


def _elements(text: str) -> list[str]:
    """Cut between the objects or texts of lists and at their ends, looked at place by place."""
    pieces, begins, place = [], 0, 0
    while place < len(text):
        before, sign, behind = text[place - 1 : place], text[place], _behind_space(text, place + 1)
        cut = None
        if sign == "[" and text[behind : behind + 1] in ("{", '"', "'"):
            cut = behind
        elif sign == "," and before in ("}", '"', "'", "]"):
            cut = behind if text[behind : behind + 1] == "{" or _is_text(text, behind) else None
        elif sign == "]" and (before in ("}", '"', "'") or before.isspace()):
            cut = place + 1
        if cut is None:
            place += 1
            continue
        pieces.append(text[begins:place])
        begins = place = cut
    return [*pieces, text[begins:]]


def _behind_space(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _is_text(text: str, place: int) -> bool:
    """Whether a whole quoted text stands here with a comma, the end of a list or nothing behind it."""
    quote = text[place : place + 1]
    if quote not in ("'", '"') or not quote:
        return False
    at = place + 1
    while at < len(text) and text[at] != quote:
        if text[at] == "\\" and text[at + 1 : at + 2] in ("", "\n"):
            return False
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        return False
    return text[_behind_space(text, at + 1) :][:1] in (",", "]", "")


def segments(text: str) -> Iterator[list[str]]:
    """Ways to cut a text into passages, from coarse to fine; numbering at their beginning is left out."""
    blank_lines, sentences = re.split(r"\n\s*\n", text), re.split(r"(?<=[.!?])\s+", text)
    for pieces in (_MARKER.split(text), blank_lines, _elements(text), text.split("\n"), sentences):
        cut = [_NUMBERING.sub("", piece, count=1).strip() for piece in pieces]
        yield [piece for piece in cut if piece]


def reordered(new: str, old: str) -> bool:
    """Whether both are the same passages in another order, cut in one of the ways."""
    return any(
        same_but_order(a, b) and sum(map(len, a)) >= 40 for a, b in zip(segments(new), segments(old), strict=False)
    )
