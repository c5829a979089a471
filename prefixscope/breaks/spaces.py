"""Differences of white space alone."""

from __future__ import annotations

from prefixscope.breaks.volatile import common_chars

__all__ = ["space_only"]

_ENOUGH = 12


def space_only(new: str, old: str) -> bool:
    """Whether the first difference of two texts is white space alone.

    >>> space_only("Yes, on Tuesdays.", "Yes, on Tuesdays. "), space_only("one two", "one too")
    (True, False)
    """
    at = common_chars(new, old)
    start = at
    while start > 0 and new[start - 1].isspace():
        start -= 1
    ours, theirs = new[start:].lstrip(), old[start:].lstrip()
    new_space, old_space = new[start:][: len(new) - start - len(ours)], old[start:][: len(old) - start - len(theirs)]
    if new_space == old_space:
        return False
    same = common_chars(ours, theirs)
    return same >= _ENOUGH or same == len(ours) == len(theirs)
