"""A file that is one JSON document: an array of requests, or objects printed over several lines.

Each element becomes one line of a batch, so that everything behind reads it like a line; its number is that of the
line in the file on which it starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from prefixscope.logs.lines import BATCH_BYTES, LineBatch, decode_line, ends_early

__all__ = ["MAX_DOCUMENT_BYTES", "document_batches", "is_document"]

MAX_DOCUMENT_BYTES = 1 << 30
"""A larger document is refused: it has to be held in memory as a whole."""

_DECODER = json.JSONDecoder()
_BLANK = " \t\r\n\ufeff"


def is_document(head: bytes, *, whole: bool) -> bool:
    """Whether the file is one JSON document. `head` is its beginning; `whole`: there is nothing more.

    >>> is_document(b'[\\n {"a": 1}\\n]', whole=True), is_document(b'{"a": 1}\\n{"a": 2}', whole=True)
    (True, False)
    """
    start = head.lstrip(b" \t\r\n\xef\xbb\xbf")
    if not start.startswith((b"[", b"{")):
        return False
    if decode_line(start.split(b"\n", 1)[0]).fault in (None, "not_an_object"):
        return False
    text = start.decode(errors="ignore")  # only to tell the layout; nothing read this way is kept
    place = _next(text, 1, separator=False) if text[0] == "[" else 0
    try:
        value, end = _DECODER.raw_decode(text, place)
    except (ValueError, RecursionError) as error:
        return not whole and ends_early(error)  # the first element may be longer than the head
    if not isinstance(value, dict):
        return False
    # An array with one element a line: without this its commas would make every line a broken one.
    return "\n" in text[:end] or (text[0] == "[" and text[end:].lstrip(_BLANK)[:1] in (",", "]"))


def document_batches(data: bytes) -> Iterator[LineBatch]:
    """The elements of a document as batches. What follows a fault can't be read; the fault is located."""
    fault = None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text = data[: error.start].decode()
        fault = "invalid_utf8"
    pieces: list[bytes] = []
    numbers: list[int] = []
    held, counted, line = 0, 0, 1
    for start, end in _elements(text):
        line += text.count("\n", counted, start)
        counted = start
        if end is None:
            fault = fault or ("truncated_document" if _is_cut(text, start) else "invalid_json")
            break
        # Newlines between the tokens of an element are blanks; a string can't hold one unescaped.
        pieces.append(text[start:end].replace("\n", " ").encode())
        numbers.append(line)
        held += len(pieces[-1])
        if held >= BATCH_BYTES:
            yield LineBatch(b"\n".join(pieces), numbers[0], numbers=tuple(numbers))
            pieces, numbers, held = [], [], 0
    else:
        line += text.count("\n", counted)
    skipped = () if fault is None else ((line, fault),)
    yield LineBatch(b"\n".join(pieces), numbers[0] if numbers else line, False, skipped, tuple(numbers))


def _elements(text: str) -> Iterator[tuple[int, int | None]]:
    """Start and end of each element; the end is None where reading fails."""
    place = _next(text, 0, separator=False)
    in_array = text.startswith("[", place)
    if in_array:
        place = _next(text, place + 1, separator=False)
    while place < len(text):
        if in_array and text[place] == "]":
            in_array = False
            place = _next(text, place + 1, separator=False)
            continue
        try:
            _, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            yield place, None
            return
        yield place, end
        place = _next(text, end, separator=True)
    if in_array:
        yield len(text), None


def _is_cut(text: str, start: int) -> bool:
    try:
        _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        return ends_early(error)
    return False


def _next(text: str, place: int, *, separator: bool) -> int:
    """The place of the next character that is no blank (nor, once, a comma)."""
    while place < len(text) and (text[place] in _BLANK or (separator and text[place] == ",")):
        separator = separator and text[place] != ","
        place += 1
    return place
