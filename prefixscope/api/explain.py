"""`explain` and `lint`: where prefixes break, why, what each cause costs, and what removing it would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prefixscope.api.breaks import break_columns, breaks_report, what_ifs
from prefixscope.api.losses import losses_of, memory_told
from prefixscope.api.options import EngineChoice, LogOptions, MemoryOptions, Progress
from prefixscope.api.profiles import memory_of
from prefixscope.api.reading import lineage_of, selected
from prefixscope.api.rules import applied_to
from prefixscope.api.story import MemoryKnown, story_of
from prefixscope.breaks.causes import FAULTS, SEPARATIONS
from prefixscope.breaks.whatif import CHANGES
from prefixscope.errors import InputError, OptionError
from prefixscope.ingest import Ingested
from prefixscope.results import EngineUsed
from prefixscope.results.breaks import BreaksReport, RequestStory, WhatIf
from prefixscope.reuse.request_rows import request_rows

__all__ = ["ExplainOptions", "Explanation", "explain"]

_DEFAULT_WHAT_IFS = 3


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """What `explain` and `lint` take. `what_if`: causes to remove, one by one; None: the costliest, empty: none.

    What is known of the cache: `ttl`, a duration after their last use for which entries live (engines without a
    lifetime of their own), `reset_at`, times at which it was emptied, and `kv_events`, a recording that tells of them.
    """

    log: LogOptions
    engine: EngineChoice = field(default_factory=EngineChoice)
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    request: str | None = None
    what_if: tuple[str, ...] | None = None
    hide_text: bool = False
    ttl: str | None = None
    reset_at: tuple[str, ...] = ()
    kv_events: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The report, the rows, the engines whose rules were applied, and the story of the request that was asked for.

    `places` gives file and line of the first row of each fault."""

    report: BreaksReport
    rows: Mapping[str, list[Any]]
    engines: tuple[EngineUsed, ...]
    places: Mapping[int, tuple[str, int]]
    story: RequestStory | None = None


def explain(options: ExplainOptions, progress: Progress) -> Explanation:
    """Why prefixes break. From an index: causes, parts and counts, no text and no what-if."""
    _refuse_unknown(options.what_if)
    if options.kv_events == "-" and any(log == "-" or log.endswith(":-") for log in options.log.logs):
        raise OptionError("--kv-events -: the log is read from standard input already; write one of them to a file")
    ingested = lineage_of(options.log, options.engine, progress, breaks=True)
    selection = selected(ingested.lineage, options.log)
    memory = memory_of(options.memory, options.engine)
    told = memory_told(selection.lineage, options.ttl, options.reset_at, options.kv_events)
    applied = applied_to(selection, options.log, options.engine, memory, progress)
    lost = losses_of(selection.lineage, applied, told)
    report = breaks_report(ingested, selection, applied, hide_text=options.hide_text, lost=lost)
    if report is None:
        raise InputError("the index was written without break columns; index the log again", file=options.log.logs[0])
    lineage = selection.lineage
    engines = tuple(pool.engine for pool in applied.pools)
    places = {
        fault.first_row: (lineage.file[fault.first_row] or "", int(lineage.line[fault.first_row]))
        for fault in report.faults
    }
    rows = {
        **request_rows(selection.lineage, applied.accounting, selection.counted),
        **break_columns(selection, applied, lost),
    }
    if options.request is not None:
        between = MemoryKnown(applied, lost, told)
        story = story_of(options.request, ingested, selection, rows, between, hide_text=options.hide_text)
        return Explanation(report, rows, engines, places, story)
    found, notes = _what_ifs(ingested, report, options, progress)
    reasons = () if options.what_if == () else report.without_what_if
    report = replace(report, what_ifs=found, notes=(*told.notes, *notes), without_what_if=reasons)
    return Explanation(report, rows, engines, places)


def _refuse_unknown(causes: Sequence[str] | None) -> None:
    for cause in causes or ():
        if cause not in CHANGES and cause in (*FAULTS, *SEPARATIONS):
            raise OptionError(
                f"--what-if {cause}: no rule removes it from a log; a what-if is computed for {', '.join(CHANGES)}"
            )
        if cause not in CHANGES:
            raise OptionError(f"--what-if {cause}: no such cause; choose from {', '.join(CHANGES)}")


def _what_ifs(
    ingested: Ingested, report: BreaksReport, options: ExplainOptions, progress: Progress
) -> tuple[tuple[WhatIf, ...], tuple[str, ...]]:
    """What-ifs and, where none can be computed, why."""
    asked = options.what_if
    if ingested.text is None or any(path == "-" or path.endswith(":-") for path in options.log.logs):
        source = "an index holds no text" if ingested.text is None else "standard input can't be read twice"
        if asked:
            raise InputError(f"--what-if needs the log: {source}", file=options.log.logs[0])
        return (), () if asked is not None or not report.faults else ("what_if_needs_log",)
    if asked == ():
        return (), ()
    causes = asked if asked is not None else _costliest(report)
    groups: list[tuple[str, ...]] = [(cause,) for cause in causes]
    if len(causes) > 1:
        groups.append(tuple(causes))
    return what_ifs(ingested, groups, options.log, options.engine, options.memory, progress), ()


def _costliest(report: BreaksReport) -> tuple[str, ...]:
    lost: dict[str, int] = {}
    for fault in report.faults:
        if fault.cause in CHANGES:
            lost[fault.cause] = lost.get(fault.cause, 0) + fault.lost_tokens
    ranked = sorted((cause for cause in lost if lost[cause]), key=lambda cause: -lost[cause])
    return tuple(ranked[:_DEFAULT_WHAT_IFS])
