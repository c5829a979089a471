"""Version numbers of engines, compared as tuples of ints, and the sentences about versions that were not read."""

from __future__ import annotations

import re

from prefixscope.errors import OptionError

__all__ = ["Version", "parse_version"]

Version = tuple[int, ...]
_PATTERN = r"[vb]?(\d+(?:\.\d+)*)(?:[.\-]?(?:rc|post|dev|a|b)\d*)*(?:[+\-].*)?"
_LONGEST = 64
"""Characters a version can have; Python reads no numbers of thousands of digits."""


def parse_version(engine: str, text: str, known: str) -> Version:
    """`0.33.0rc1` -> (0, 33, 0); anything that does not start with a number is an OptionError naming what is known.

    >>> parse_version("vllm", "v0.33.0rc1", "0.11 and later")
    (0, 33, 0)
    >>> parse_version("vllm", "0.32.1.dev7+g12ab.cpu", "0.11 and later"), parse_version("llama-cpp", "b11434-00dc", "")
    ((0, 32, 1), (11434,))
    """
    match = re.fullmatch(
        r"[vb]?(\d+(?:\.\d+)*)(?:[.\-]?(?:rc|post|dev|a|b)\d*)*(?:[+\-].*)?", text.strip()[: _LONGEST + 1]
    )
    if match is None or len(text) > _LONGEST:
        raise OptionError(f"--engine {engine}@{text[:_LONGEST]}: not a version of {engine} (known: {known})")
    return tuple(int(part) for part in match.group(1).split("."))
