"""Where a clock, date or id may begin: trying their many forms at each character takes long, and few places qualify.

They begin with a digit, with the name of a day or month, with "a", "an", "one", "two" or "three" (minutes ago), or with
a letter of a uuid. Words are known again, for texts repeat them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from prefixscope.breaks.calendar_words import DAY, MONTH, SIGN_DAY

__all__ = ["beginnings"]

_RUN = re.compile(r"\d|(?:[^\W\d_]|-)+")
"""A digit, or a word with its hyphens: names of days have some."""
_NAME = re.compile(rf"{DAY}|{MONTH}|{SIGN_DAY}|\b(?:an?|one|two|three)\Z")
_HEX = frozenset("abcdefABCDEF")
_KNOWN_WORDS = 1 << 14
_LONGEST_WORD = 40


def beginnings(text: str, start: int, last: int) -> Iterator[int]:
    """Places from `start` to `last`, ascending: all at which a volatile stretch can begin, and some others.

    >>> text = "The offer of 3 May, or an hour ago."
    >>> [text[place:][:3] for place in beginnings(text, 0, len(text))]
    ['3 M', 'May', 'ay,', 'y, ', 'an ', 'n h']
    """
    end = last + 1 + _LONGEST_WORD
    for run in _RUN.finditer(text, start, end):
        begins, ends = run.span()
        if begins > last:
            return
        if text[begins].isdigit() and ends == begins + 1:
            yield begins
        elif ends == end or _holds_name(run[0]):  # a word that may be longer than what was looked at may hold one
            yield from range(begins, min(ends, last + 1))
        else:
            for place in range(begins, min(ends, last + 1)):
                if text[place] in _HEX and text[place + 8 : place + 9] == "-":
                    yield place


@lru_cache(maxsize=_KNOWN_WORDS)
def _holds_name(word: str) -> bool:
    return _NAME.search(word) is not None
