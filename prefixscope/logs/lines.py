"""Bytes to JSON objects, one line at a time: exact, located, never guessed.

orjson reads almost every line. Python's own `json` reads what orjson refuses (byte order mark, NaN, several objects
on a line, a lone surrogate) or would change without a word (a repeated key, an integer beyond 64 bits). Bytes that
are not UTF-8 are never repaired: that would change token ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from prefixscope.records import Json

__all__ = [
    "MAX_DEPTH",
    "MAX_LINE_BYTES",
    "Decoded",
    "LineBatch",
    "Note",
    "decode_line",
    "ends_early",
    "is_faithful",
    "line_batches",
    "plain_object",
]

BATCH_BYTES = 4 << 20
MAX_LINE_BYTES = 128 << 20
"""A longer line is skipped and counted (`line_too_long`)."""
MAX_DEPTH = 254
"""A value nested deeper is refused (`too_deeply_nested`); orjson writes no deeper one either."""

Note = tuple[str, dict[str, Json]]
"""A warning: its reason and what else to say."""


@dataclass(frozen=True, slots=True)
class LineBatch:
    """Whole lines as bytes, without a half line at the end unless the file ends there.

    `first_line` is the 1-based number of the first line; `numbers` gives every line's own where they do not follow
    one another. `ends_cut`: the file ends without a newline. `skipped_lines` gives (line, reason) of lines left out.
    """

    data: bytes
    first_line: int
    ends_cut: bool = False
    skipped_lines: tuple[tuple[int, str], ...] = ()
    numbers: tuple[int, ...] | None = None

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Each line with its number, without its newline."""
        pieces = self.data.split(b"\n")
        if not pieces[-1]:
            pieces.pop()
        return zip(self.numbers or range(self.first_line, self.first_line + len(pieces)), pieces, strict=True)

    @property
    def last_line(self) -> int:
        """The number of the last line (of the one before where there is none)."""
        if self.numbers:
            return self.numbers[-1]
        skipped = self.skipped_lines[-1][0] if self.skipped_lines else 0
        return max(self.first_line + self.data.count(b"\n") - (0 if self.ends_cut else 1), skipped)


@dataclass(frozen=True, slots=True)
class Decoded:
    """What one line holds: its objects, warnings, and the reason why the (rest of the) line was skipped."""

    values: tuple[dict[str, Json], ...] = ()
    notes: tuple[Note, ...] = ()
    fault: str | None = None


def line_batches(
    chunks: Iterator[bytes], *, size: int = BATCH_BYTES, longest: int = MAX_LINE_BYTES
) -> Iterator[LineBatch]:
    """Cuts a byte stream into batches of whole lines, about `size` bytes each; memory stays below `longest`."""
    parts: list[bytes] = []
    held, line = 0, 1
    too_long = False
    for chunk in chunks:
        if too_long:
            end = chunk.find(b"\n")
            if end < 0:
                continue
            yield LineBatch(b"", line, skipped_lines=((line, "line_too_long"),))
            line, too_long, chunk = line + 1, False, chunk[end + 1 :]
        parts.append(chunk)
        held += len(chunk)
        if held < size:
            continue
        if b"\n" in chunk:
            cut = chunk.rindex(b"\n") + 1
            parts[-1] = chunk[:cut]
            data = b"".join(parts)
            yield LineBatch(data, line)
            line += data.count(b"\n")
            parts, held = [chunk[cut:]], len(chunk) - cut
        elif held > longest:
            data = b"".join(parts)
            cut = data.rfind(b"\n") + 1
            if cut:
                yield LineBatch(data[:cut], line)
                line += data.count(b"\n", 0, cut)
            too_long, parts, held = len(data) - cut > longest, [], 0
            if not too_long:
                parts, held = [data[cut:]], len(data) - cut
    if too_long:
        yield LineBatch(b"", line, skipped_lines=((line, "line_too_long"),))
    elif held:
        data = b"".join(parts)
        yield LineBatch(data, line, ends_cut=not data.endswith(b"\n"))


_AS_DIGITS = bytes(48 if 48 <= byte <= 57 else byte for byte in range(256))
_NOTHING: tuple[Note, ...] = ()


def decode_line(raw: bytes, *, may_be_cut: bool = False) -> Decoded:
    """Reads one line that is not blank. `may_be_cut`: the file ends here without a newline.

    >>> decode_line(b'{"a": 1, "a": 2}').notes
    (('duplicate_key', {'key': 'a', 'kept': 'last'}),)
    >>> decode_line(b'[1, 2]').fault
    'not_an_object'
    """
    value = plain_object(raw)
    if value is not None:
        return Decoded((value,))
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        cut = may_be_cut and error.reason == "unexpected end of data"
        return Decoded(fault="truncated_last_line" if cut else "invalid_utf8")
    return decode_text(text, may_be_cut=may_be_cut)


def plain_object(raw: bytes) -> dict[str, Json] | None:
    """The object of a line that orjson reads without changing anything; None for every other line."""
    try:
        value = orjson.loads(raw)
        if type(value) is dict and is_faithful(raw, orjson.dumps(value)):
            return value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        pass
    return None


def is_faithful(raw: bytes, written: bytes) -> bool:
    """Whether orjson kept everything: no repeated key, no integer turned into a float. `written` is what it writes.

    Proof for keys: outside strings a colon belongs to a key; inside strings colons come through unchanged unless
    written as \\u003a. A dropped key loses its colon at least, so equal counts mean that nothing was dropped.
    Proof for integers: one that does not fit has 20 digits, or 19 behind a minus sign. Any 19 characters in a row hold
    3 neighbours among every fifth character and 9 among every second, so the cheap looks at those miss none. Many
    that long do fit: where nothing but spaces differs, none became a float, which is written in another way.
    """
    if written == raw:
        return True
    if written.count(b":") != raw.count(b":"):
        return False
    if b"\\" in raw and b"\\u003" in raw and (b"\\u003a" in raw or b"\\u003A" in raw):
        return False
    if b"000" not in raw[::5].translate(_AS_DIGITS):
        return True
    if b"000000000" not in raw[::2].translate(_AS_DIGITS):
        return True
    digits = raw.translate(_AS_DIGITS)
    if b"00000000000000000000" not in digits and b"-0000000000000000000" not in digits:
        return True
    return raw.translate(None, b" ") == written.translate(None, b" ")


class _PairReader:
    """Builds dicts from key-value pairs and remembers repeated keys."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.decoder = json.JSONDecoder(object_pairs_hook=self.build, parse_constant=self.constant)

    def build(self, pairs: list[tuple[str, Any]]) -> dict[str, Json]:
        value = dict(pairs)
        if len(value) != len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.notes.append(("duplicate_key", {"key": clean_text(key), "kept": "last"}))
                seen.add(key)
        return value

    def constant(self, name: str) -> float:
        self.notes.append(("not_a_number", {"value": name}))
        return float(name)


_BLANKS = re.compile(r"[ \t\r\n]*")


def decode_text(text: str, *, may_be_cut: bool = False) -> Decoded:
    """Reads the objects of one line with Python's `json`."""
    reader = _PairReader()
    values: list[dict[str, Json]] = []
    place = _skip_blanks(text, 0)
    if text.startswith("\ufeff", place):
        reader.notes.append(("byte_order_mark", {}))
        place = _skip_blanks(text, place + 1)
    fault = None
    count = 0
    while place < len(text):
        try:
            value, place = reader.decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            fault = _reason(error, text, may_be_cut)
            break
        fault = _take(value, values, reader.notes)
        if fault is not None:
            break
        count += 1
        place = _skip_blanks(text, place)
    if count > 1:
        reader.notes.append(("several_objects_on_one_line", {"objects": count}))
    return Decoded(tuple(values), tuple(reader.notes) if values else _NOTHING, fault)


def _skip_blanks(text: str, place: int) -> int:
    match = _BLANKS.match(text, place)
    return place if match is None else match.end()


def _take(value: Json, values: list[dict[str, Json]], notes: list[Note]) -> str | None:
    """Adds an object (or an array of objects, as some exporters write a batch) or gives the reason against it."""
    rows = value if isinstance(value, list) else [value]
    if not rows or not all(isinstance(row, dict) for row in rows):
        return "not_an_object"
    for row in rows:
        try:
            cleaned, changed = cleaned_value(row)
        except RecursionError:
            return "too_deeply_nested"
        if changed:
            notes.append(("lone_surrogate", {"replaced_by": "U+FFFD"}))
        values.append(cleaned)
    return None


def _reason(error: Exception, text: str, may_be_cut: bool) -> str:
    if isinstance(error, RecursionError):
        return "too_deeply_nested"
    if may_be_cut and text.lstrip("\ufeff \t\r").startswith(("{", "[")) and ends_early(error):
        return "truncated_last_line"
    return "invalid_json"


_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_CUT_NUMBER = re.compile(r"\.|[eE][+-]?")


def ends_early(error: Exception) -> bool:
    """Whether JSON text is wrong only in that it stops: in a string, a word, a number, an escape or between tokens."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    if error.msg.startswith("Unterminated string"):
        return True
    rest = error.doc[error.pos :].rstrip()
    if any(word.startswith(rest) for word in _WORDS) or _CUT_NUMBER.fullmatch(rest):
        return True
    return "escape" in error.msg and len(rest) <= 6 and '"' not in rest


_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Replaces lone surrogates, which no encoding can carry, by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text) if _SURROGATE.search(text) else text


def cleaned_value(value: Json, depth: int = 0) -> tuple[Json, bool]:
    """The value with lone surrogates replaced, and whether there were any. RecursionError beyond MAX_DEPTH."""
    if isinstance(value, str):
        text = clean_text(value)
        return text, text is not value
    if not isinstance(value, dict | list):
        return value, False
    if depth >= MAX_DEPTH:
        raise RecursionError
    if isinstance(value, list):
        items = [cleaned_value(item, depth + 1) for item in value]
        return [item for item, _ in items], any(changed for _, changed in items)
    pairs = [(clean_text(key), key, cleaned_value(item, depth + 1)) for key, item in value.items()]
    changed = any(new is not old or inner for new, old, (_, inner) in pairs)
    return {key: item for key, _, (item, _) in pairs}, changed
