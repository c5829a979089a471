"""`analyze` and `blocks`: how much can be reused, where the rest goes, and what each block size gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefixscope.api.breaks import break_columns, breaks_report
from prefixscope.api.finite_memory import FiniteMemory
from prefixscope.api.options import AnalyzeOptions, Progress
from prefixscope.api.overlap import with_overlap
from prefixscope.api.profiles import memory_of, profile_of
from prefixscope.api.reading import lineage_of, selected
from prefixscope.engines.profile import EngineProfile
from prefixscope.errors import InputError
from prefixscope.index.lineage import Int64, Lineage, Mask
from prefixscope.ingest import Ingested
from prefixscope.replay.fit import read_latency, worth_of
from prefixscope.results import (
    AnalyzeReport,
    BlocksReport,
    Measured,
    Prefix,
)
from prefixscope.results.worth import Worth
from prefixscope.reuse.measured import counters_of, from_counters, from_log
from prefixscope.reuse.pools import Applied, apply_engine
from prefixscope.reuse.prefixes import shared_prefixes
from prefixscope.reuse.request_rows import request_rows
from prefixscope.reuse.selection import Selection
from prefixscope.reuse.sweep import BLOCK_SIZES
from prefixscope.reuse.totals import add_totals, groups_of, sessions_of

__all__ = ["Analysis", "analyze", "blocks"]

_NOT_METHOD = ("input", "engine_settings", "model_configs")
"""What a lineage carries for later commands and a reader does not need."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """`reports` has one entry per engine asked for; `rows` are the per-request columns under the first engine."""

    reports: tuple[AnalyzeReport, ...]
    rows: Mapping[str, list[Any]]


def analyze(options: AnalyzeOptions, progress: Progress) -> Analysis:
    """How much can be reused and where the rest goes, for each engine asked for."""
    memory = FiniteMemory(options.log, memory_of(options.memory, options.engine), progress)
    ingested = lineage_of(options.log, options.engine, progress, breaks=True)
    selection = selected(ingested.lineage, options.log)
    reports = []
    rows: Mapping[str, list[Any]] = {}
    for engine in options.engine.names or (None,):
        applied = _apply(selection, options, engine, memory)
        reports.append(_report(ingested, selection, applied, options))
        rows = rows or {
            **request_rows(selection.lineage, applied.accounting, selection.counted),
            **break_columns(selection, applied),
        }
    return Analysis(tuple(reports), rows)


def blocks(options: AnalyzeOptions, progress: Progress) -> BlocksReport:
    """Reuse and waste per block size, per pool, under the first engine."""
    ingested = lineage_of(options.log, options.engine, progress)
    selection = selected(ingested.lineage, options.log)
    engine = options.engine.names[0] if options.engine.names else None
    applied = _apply(selection, options, engine)
    return BlocksReport(input=ingested.report, pools=applied.pools)


def _apply(
    selection: Selection, options: AnalyzeOptions, engine: str | None, memory: FiniteMemory | None = None
) -> Applied:
    return apply_engine(
        selection.lineage,
        selection.counted,
        lambda lineage, pool: profile_of(lineage, pool, options.engine, engine, options.memory),
        options.block_sizes or BLOCK_SIZES,
        None if memory is None else with_overlap(options.engine, memory.restrict),
    )


def _report(ingested: Ingested, selection: Selection, applied: Applied, options: AnalyzeOptions) -> AnalyzeReport:
    lineage, counted, accounting = selection.lineage, selection.counted, applied.accounting
    totals = add_totals(tuple(pool.totals for pool in applied.pools), lineage, accounting.cached, counted)
    profiles = {pool.pool: profile for pool, profile in zip(applied.pools, applied.profiles, strict=True)}
    measured = _measured(lineage, accounting.expected, counted, options.measured, profiles)
    # The way back to text counts rows of the whole log: it is of use only where no row was dropped.
    text = ingested.text if lineage is ingested.lineage and not options.hide_text else None
    return AnalyzeReport(
        input=ingested.report,
        totals=totals,
        pools=applied.pools,
        groups=groups_of(lineage, accounting, counted),
        prefixes=_prefixes(lineage, counted, options.prefixes, text),
        sessions=sessions_of(lineage, counted),
        measured=measured,
        unexplained_tokens=None if measured is None else measured.predicted_cached_tokens - measured.cached_tokens,
        method={
            **{key: value for key, value in lineage.provenance.items() if key not in _NOT_METHOD},
            "counted_requests": int(counted.sum()),
            "warming_requests": int((~counted).sum()),
        },
        breaks=breaks_report(ingested, selection, applied, hide_text=options.hide_text),
        worth=_worth(lineage, accounting.expected, counted, options.latency_model),
    )


def _worth(lineage: Lineage, expected: Int64, counted: Mask, latency_model: str | None) -> Worth | None:
    if latency_model is None:
        return None
    pairs = zip(lineage.prompt_tokens[counted].tolist(), expected[counted].tolist(), strict=True)
    return worth_of(list(pairs), read_latency(latency_model))


def _measured(
    lineage: Lineage,
    cached: Int64,
    counted: Mask,
    scrapes: tuple[str, str] | None,
    profiles: Mapping[str, EngineProfile],
) -> Measured | None:
    if scrapes is None:
        return from_log(lineage, cached, counted)
    texts = []
    for path in scrapes:
        try:
            texts.append(counters_of(Path(path).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--measured: can't be read ({error})", file=path) from None
    return from_counters(texts[0], texts[1], lineage, cached, counted, profiles)


def _prefixes(lineage: Lineage, counted: Mask, limit: int, text: Any) -> tuple[Prefix, ...]:
    return tuple(
        Prefix(
            tokens=prefix.tokens,
            requests=prefix.requests,
            saved_tokens=prefix.saved_tokens,
            namespace=lineage.namespaces[prefix.namespace],
            preview=None
            if text is None
            else text.text_of(prefix.row, prefix.enclosing_tokens, min(prefix.tokens, prefix.enclosing_tokens + 40)),
        )
        for prefix in shared_prefixes(lineage, counted, limit)
    )
