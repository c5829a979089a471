"""Differences of white space alone."""

from __future__ import annotations

from prefixscope.breaks.volatile import common_chars

__all__ = ["begins_with_space", "folded", "space_only"]

_ENOUGH = 12


def space_only(new: str, old: str) -> bool:
    """Whether the first difference of two texts is white space alone: so is every other one, or text agrees behind it.

    >>> space_only("Yes, on Tuesdays.", "Yes, on Tuesdays. "), space_only("one two", "one too")
    (True, False)
    >>> space_only("a\\nb\\nc", "a\\r\\nb\\r\\nc"), space_only("one two", "one  too")
    (True, False)
    """
    if new != old:
        bare = "".join(new.split())
        if bare and bare == "".join(old.split()):
            return True
    parted = _parted_by_space(new, old)
    if parted is None:
        return False
    ours, theirs = parted
    same = common_chars(ours, theirs)
    return same >= _ENOUGH or same == len(ours) == len(theirs)


def folded(text: str) -> str:
    """The text with one blank for every run of white space."""
    return " ".join(text.split())


def begins_with_space(new: str, old: str) -> bool:
    """Whether two texts differ in white space first, whatever differs behind it."""
    return _parted_by_space(new, old) is not None


def _parted_by_space(new: str, old: str) -> tuple[str, str] | None:
    """What follows the first difference on both sides where that is white space; None where it is not."""
    at = common_chars(new, old)
    start = at
    while start > 0 and new[start - 1].isspace():
        start -= 1
    ours, theirs = new[start:].lstrip(), old[start:].lstrip()
    new_space, old_space = new[start:][: len(new) - start - len(ours)], old[start:][: len(old) - start - len(theirs)]
    return None if new_space == old_space else (ours, theirs)
