"""What `hashes` writes: one JSON line per request, and on stderr what the keys rest on and what was left out."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence

from prefixscope.report.json import plain
from prefixscope.report.numbers import count, plural
from prefixscope.report.text import visible
from prefixscope.report.warnings import warnings_in_words
from prefixscope.report.words import skip_in_words, skips_in_words
from prefixscope.results import InputReport
from prefixscope.results.hashes import HashedRequest

__all__ = ["hash_line", "reading_told"]

_OF_TIMES = ("missing_time", "unreadable_time", "time_without_zone", "mixed_clocks", "mixed_clocks_between_files")
"""Warnings that say nothing of keys, which do not depend on times."""

_FIELDS = tuple(field.name for field in dataclasses.fields(HashedRequest))


def hash_line(request: HashedRequest) -> bytes:
    """The line, keys in the order of the record's fields. Integers are exact, also those beyond 2^53."""
    import orjson  # here, so that `--help` does not load it

    fields = {name: getattr(request, name) for name in _FIELDS}
    try:
        return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a lone surrogate, which has no place in UTF-8
        return (json.dumps(plain(fields), ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def reading_told(report_input: InputReport, assumed: Sequence[str], *, skips: bool) -> Iterator[str]:
    """What was hashed, assumed, left out and warned of, as sentences; with `skips` every located place."""
    yield f"hashed {plural(report_input.requests_analyzed, 'request')}"
    yield from (visible(sentence) for sentence in assumed)
    if report_input.skipped:
        rows = sum(skip.count for skip in report_input.skipped)
        yield f"left out {count(rows)}: {skips_in_words(report_input.skipped)}" + ("" if skips else " (--skips)")
    for skip in report_input.skipped if skips else ():
        where = f"{skip.file} (further places)" if skip.line is None else f"{skip.file}:{skip.line}"
        yield f"left out: {visible(where)}: {count(skip.count)} {skip_in_words(skip.reason)}"
    told = [warned for warned in report_input.warnings if warned.reason not in _OF_TIMES]
    yield from (f"warning: {sentence}" for sentence in warnings_in_words(told))
