"""Ways to cut a text into passages, and whether two texts are the same passages in another order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from prefixscope.breaks.forms import same_but_order

__all__ = ["reordered_passages", "segments"]

_MARKER = re.compile(
    r"(?=<(?:document|doc|passage|source|chunk|context|item|result)\b)"
    r"|(?=[\[(](?:doc(?:ument)?|passage|source|chunk|context|result|ref)?\s*#?\d+[\])])"
    r"|(?=\b(?:Document|Doc|Passage|Source|Chunk|Context|Result)\s*#?\d+\s*[:.)\-])",
    re.IGNORECASE,
)
_MARKER_BEGINS = ("<", "[", "(", "doc", "passage", "source", "chunk", "context", "result")
"""What a marker begins with, in lower case."""
_LONG_S = "\u017f"
"""Equal to s where case is ignored, but no lower case of it."""
_NUMBERING = re.compile(
    r"^[\s\W]*(?:(?:document|doc|passage|source|chunk|context|item|result|ref)\b[\s_]*)?(?:(?:id|index|number|no|n)\s*=\s*)?"
    r"[\"'#]*\d*[\"'\])>:.\-\s]*",
    re.IGNORECASE,
)
_BLANK_LINES = re.compile(r"\n\s*\n")
_LINE = re.compile(r"\n")
_ELEMENT = re.compile(
    r"\[\s*(?=[{\"'])"
    r"|,(?<=[}\"'\]],)\s*(?=\{|([\"'])(?:\\.|(?!\1)[^\\])*+\1\s*(?:[,\]]|\Z))"
    r"|\](?<=[}\"'\s]\])"
)
"""Between objects or texts of a list, as JSON or Python print it, and at its ends; not between keys of an object."""
_SENTENCE = re.compile(r"[.!?](\s+)")
_LEAST = 40
"""Characters of passages that must have changed places."""

_Cuts = Iterator[tuple[int, int]]
"""Where a passage ends and where the next one begins."""


def _at_markers(text: str) -> _Cuts:
    lower = text.lower()
    if len(lower) != len(text) or _LONG_S in text:
        return (match.span() for match in _MARKER.finditer(text))
    places = set()
    for begins in _MARKER_BEGINS:
        place = lower.find(begins)
        while place >= 0:
            if _MARKER.match(text, place):
                places.add(place)
            place = lower.find(begins, place + 1)
    return ((place, place) for place in sorted(places))


def _at_blank_lines(text: str) -> _Cuts:
    return (match.span() for match in _BLANK_LINES.finditer(text))


def _at_elements(text: str) -> _Cuts:
    return (match.span() for match in _ELEMENT.finditer(text))


def _at_lines(text: str) -> _Cuts:
    return (match.span() for match in _LINE.finditer(text))


def _at_sentences(text: str) -> _Cuts:
    return (match.span(1) for match in _SENTENCE.finditer(text))


_WAYS = (_at_markers, _at_blank_lines, _at_elements, _at_lines, _at_sentences)
"""From coarse to fine."""


def _passages(text: str, cuts: _Cuts) -> Iterator[str]:
    """The passages one by one, without numbering at their beginning; empty ones are left out."""
    begins = 0
    for ends, next_begins in cuts:
        passage = _without_numbering(text[begins:ends])
        if passage:
            yield passage
        begins = next_begins
    passage = _without_numbering(text[begins:])
    if passage:
        yield passage


def _without_numbering(piece: str) -> str:
    match = _NUMBERING.match(piece)
    return piece[match.end() :].strip() if match else piece.strip()


def segments(text: str) -> Iterator[list[str]]:
    """Ways to cut a text into passages, from coarse to fine; numbering at their beginning is left out.

    >>> first, *_ = segments("[doc 1] Rye on Tuesdays.\\n[doc 2] Orders close at six.")
    >>> first
    ['Rye on Tuesdays.', 'Orders close at six.']
    """
    return (list(_passages(text, way(text))) for way in _WAYS)


def reordered_passages(new: str, old: str) -> bool:
    """Whether, cut in one of the ways, both are the same passages in another order, but for the last ones."""
    return any(_reordered(new, old, way) for way in _WAYS)


def _reordered(new: str, old: str, way: Callable[[str], _Cuts]) -> bool:
    pairs = zip(_passages(new, way(new)), _passages(old, way(old)), strict=False)
    ours, theirs = next(((a, b) for a, b in pairs if a != b), (None, None))
    if ours is None or theirs is None:
        return False
    # each of the two stands further behind in the other text if their order is all that differs
    if ours not in old or theirs not in new:
        return False
    a, b = (list(_passages(text, way(text))) for text in (new, old))
    return same_but_order(a, b) and sum(map(len, a)) >= _LEAST
