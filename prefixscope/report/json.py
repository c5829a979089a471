"""Reports as JSON: schema `prefixscope.report/1`, keys always in the same order, strict (no NaN, no lone surrogates).

What is not computed is null, never absent and never zero: `breaks`, `pools[].capacity` of `blocks`, and in `losses` and
`ladder` the rungs that were not simulated.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prefixscope import __version__
from prefixscope.report.finding_words import finding_in_words
from prefixscope.report.warnings import warning_in_words
from prefixscope.results import (
    SCHEMA,
    AnalyzeReport,
    BlocksReport,
    CapacityReport,
    Group,
    InputReport,
    Measured,
    PoolReport,
)

if TYPE_CHECKING:
    from prefixscope.results.hashes import EventsReport

__all__ = ["analyze_json", "blocks_json", "capacity_json", "encode", "events_json", "index_json", "json_head", "plain"]

Document = dict[str, Any]


def json_head(command: str) -> Document:
    """What every document starts with.

    >>> json_head("analyze")["schema"]
    'prefixscope.report/1'
    """
    return {"schema": SCHEMA, "tool_version": __version__, "command": command}


def analyze_json(reports: Sequence[AnalyzeReport]) -> Document:
    """The document of `analyze`: flat for one engine; for several, one entry each under `engines`."""
    document = json_head("analyze") | {"input": input_document(reports[0].input)}
    if len(reports) == 1:
        return document | _engine_sections(reports[0])
    return document | {"engines": [_engine_sections(report) for report in reports]}


def blocks_json(report: BlocksReport) -> Document:
    """The document of `blocks`."""
    head = json_head("blocks") | {"input": input_document(report.input), "findings": _findings(report.pools)}
    return head | {"pools": [_pool(pool) for pool in report.pools]}


def capacity_json(report: CapacityReport) -> Document:
    """The document of `capacity`: pools as in `analyze`, with the whole curve and the tables in each section."""
    pools = []
    for pool, details in zip(report.pools, report.details, strict=True):
        document = _pool(pool)
        document["capacity"] = (document["capacity"] or {}) | plain(details)
        pools.append(document)
    head = json_head("capacity") | {"input": input_document(report.input)}
    return head | {"counted_requests": report.counted_requests, "pools": pools}


def index_json(summary: Any, path: str) -> Document:
    """The document of `index`: what was read, and what the index holds."""
    held = {
        field.name: plain(getattr(summary, field.name))
        for field in dataclasses.fields(summary)
        if field.name != "input"
    }
    return json_head("index") | {"input": input_document(summary.input), "index": {"file": plain(path)} | held}


def events_json(report: EventsReport) -> Document:
    """The document of `events`; `log` is null without one."""
    found: Document = plain(report)
    if report.log is not None:
        found["log"]["input"] = input_document(report.log.input)
    return json_head("events") | found


def encode(document: Mapping[str, Any]) -> bytes:
    """The document as UTF-8, indented, with a line end.

    >>> encode({"rate": float("nan"), "name": "a\\udc80"})
    b'{\\n  "rate": null,\\n  "name": "a\\\\\\\\udc80"\\n}\\n'
    """
    return (json.dumps(plain(document), ensure_ascii=False, allow_nan=False, indent=2) + "\n").encode()


def plain(value: Any) -> Any:
    """The value in types that JSON knows: dataclasses and mappings become objects, NaN and infinity null.

    A lone surrogate (a file name that is not UTF-8) has no place in UTF-8: it is written as its escape.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays, without importing numpy
        return plain(value.tolist())
    raise TypeError(f"{type(value).__name__} has no place in a report")


def _engine_sections(report: AnalyzeReport) -> Document:
    by_namespace = [group for group in report.groups if group.by == "namespace"]
    others = [group for group in report.groups if group.by != "namespace"]
    return {
        "totals": plain(report.totals),
        "findings": _findings(report.pools),
        "pools": [_pool(pool) for pool in report.pools],
        "namespaces": [_without_kind(group) for group in by_namespace],
        "groups": plain(others),
        "prefixes": plain(report.prefixes),
        "sessions": plain(report.sessions),
        "breaks": None if report.breaks is None else [plain(fault) for fault in report.breaks.faults],
        "measured": None if report.measured is None else _measured(report.measured, report.unexplained_tokens),
        "worth": plain(report.worth),
        "method": plain(report.method),
    }


def input_document(report_input: InputReport) -> Document:
    document: Document = plain(report_input)
    document["warnings"] = [
        {"reason": warned.reason, **{key: plain(fact) for key, fact in warned.facts.items() if key != "reason"}}
        | {"sentence": plain(warning_in_words(warned))}
        for warned in report_input.warnings
    ]
    return document


def _pool(pool: PoolReport) -> Document:
    names = [field.name for field in dataclasses.fields(pool) if field.name != "findings"]
    return {name: plain(getattr(pool, name)) for name in names}


def _findings(pools: Sequence[PoolReport]) -> list[Document]:
    """What is worth saying first, of all pools, each with its sentences."""
    return [
        plain(finding) | {"sentences": list(finding_in_words(finding, pool.engine))}
        for pool in pools
        for finding in pool.findings
    ]


def _without_kind(group: Group) -> Document:
    document: Document = plain(group)
    del document["by"]
    return document


def _measured(measured: Measured, unexplained: int | None) -> Document:
    document: Document = plain(measured)
    return document | {"unexplained_tokens": unexplained}
