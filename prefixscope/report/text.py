"""User data made safe to look at: control characters are shown, never obeyed."""

from __future__ import annotations

import unicodedata

__all__ = ["shortened", "visible"]

_SHOWN = {"\n": "↵", "\t": "⇥", "\r": "␍", "\x1b": "␛", "\x00": "␀", "\x7f": "␡"}


def visible(text: str) -> str:
    r"""The text with everything a terminal would obey, or hide, written out as something to see.

    Line ends become ↵, tabs ⇥, ESC ␛; other control, format (bidirectional overrides, zero-width), surrogate and
    unassigned characters become their escapes. What is left is printable in one line.

    >>> visible("a\nb"), visible("\x1b[31mred"), visible("\u202eabc"), visible("[red]")
    ('a↵b', '␛[31mred', '\\u202eabc', '[red]')
    """
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    if character in _SHOWN:
        return _SHOWN[character]
    if unicodedata.category(character) == "Zs":
        return " "
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened(text: str, width: int) -> str:
    """The text in at most `width` characters, cut at the end.

    >>> shortened("support assistant", 10), shortened("short", 10)
    ('support...', 'short')
    """
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."[: min(width, 3)]
