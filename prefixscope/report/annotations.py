"""Faults as GitHub workflow commands: shown beside the line of the log where each was first found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prefixscope.report.numbers import count, plural
from prefixscope.report.text import visible
from prefixscope.report.words_breaks import REMEDIES, fault_name
from prefixscope.results.breaks import Fault

__all__ = ["github_annotations"]


def github_annotations(faults: Sequence[Fault], places: Mapping[int, tuple[str, int]]) -> Iterator[str]:
    """One `::error` line per fault; `places` gives file and line of a row.

    The format: docs.github.com, "Workflow commands for GitHub Actions"; its special characters are escaped so that
    text from a log never becomes a command.

    >>> fault = Fault("date", "system", None, 3, 10, 0.1, 0, 1)
    >>> next(github_annotations([fault], {1: ("log.jsonl", 2)}))[:60]
    '::error file=log.jsonl,line=2,title=prefix break%3A date::a '
    """
    for fault in faults:
        place = ""
        if fault.first_row in places:
            file, line = places[fault.first_row]
            place = f"file={_property(file)},line={line},"
        cost = f"{plural(fault.requests, 'request')}, {count(fault.lost_tokens)} tokens lost"
        message = f"{fault_name(fault)} ({cost}). {REMEDIES.get(fault.cause, '')}"
        yield f"::error {place}title={_property('prefix break: ' + fault.cause)}::{_data(message)}"


def _data(text: str) -> str:
    return visible(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
