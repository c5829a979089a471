"""`analyze` and `blocks`: how much can be reused, where the rest goes, and what each block size gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefixscope.api.options import AnalyzeOptions, Progress
from prefixscope.api.reading import lineage_of, profile_of, selected
from prefixscope.errors import InputError
from prefixscope.index.lineage import Int64, Lineage, Mask
from prefixscope.ingest import Ingested
from prefixscope.results import (
    AnalyzeReport,
    BlocksReport,
    Measured,
    Prefix,
)
from prefixscope.reuse.measured import counters_of, from_counters, from_log
from prefixscope.reuse.pools import Applied, apply_engine
from prefixscope.reuse.prefixes import shared_prefixes
from prefixscope.reuse.request_rows import request_rows
from prefixscope.reuse.selection import Selection
from prefixscope.reuse.sweep import BLOCK_SIZES
from prefixscope.reuse.totals import add_totals, groups_of, sessions_of

__all__ = ["Analysis", "analyze", "blocks"]


@dataclass(frozen=True, slots=True)
class Analysis:
    """`reports` has one entry per engine asked for; `rows` are the per-request columns under the first engine."""

    reports: tuple[AnalyzeReport, ...]
    rows: Mapping[str, list[Any]]


def analyze(options: AnalyzeOptions, progress: Progress) -> Analysis:
    """How much can be reused and where the rest goes, for each engine asked for."""
    ingested = lineage_of(options.log, options.engine, progress, breaks=True)
    selection = selected(ingested.lineage, options.log)
    reports = []
    rows: Mapping[str, list[Any]] = {}
    for engine in options.engine.names or (None,):
        applied = _apply(selection, options, engine)
        reports.append(_report(ingested, selection, applied, options))
        rows = rows or request_rows(selection.lineage, applied.accounting, selection.counted)
    return Analysis(tuple(reports), rows)


def blocks(options: AnalyzeOptions, progress: Progress) -> BlocksReport:
    """Reuse and waste per block size, per pool, under the first engine."""
    ingested = lineage_of(options.log, options.engine, progress)
    selection = selected(ingested.lineage, options.log)
    engine = options.engine.names[0] if options.engine.names else None
    applied = _apply(selection, options, engine)
    return BlocksReport(input=ingested.report, pools=applied.pools)


def _apply(selection: Selection, options: AnalyzeOptions, engine: str | None) -> Applied:
    return apply_engine(
        selection.lineage,
        selection.counted,
        lambda lineage, pool: profile_of(lineage, pool, options.engine, engine),
        options.block_sizes or BLOCK_SIZES,
    )


def _report(ingested: Ingested, selection: Selection, applied: Applied, options: AnalyzeOptions) -> AnalyzeReport:
    lineage, counted, cached = selection.lineage, selection.counted, applied.accounting.cached
    totals = add_totals(tuple(pool.totals for pool in applied.pools), lineage, cached, counted)
    measured = _measured(lineage, cached, counted, options.measured)
    # The way back to text counts rows of the whole log: it is of use only where no row was dropped.
    text = ingested.text if lineage is ingested.lineage and not options.hide_text else None
    return AnalyzeReport(
        input=ingested.report,
        totals=totals,
        pools=applied.pools,
        groups=groups_of(lineage, applied.accounting.reusable, cached, counted),
        prefixes=_prefixes(lineage, counted, options.prefixes, text),
        sessions=sessions_of(lineage, counted),
        measured=measured,
        unexplained_tokens=None if measured is None else measured.predicted_cached_tokens - measured.cached_tokens,
        method={
            **{key: value for key, value in lineage.provenance.items() if key not in ("input", "engine_settings")},
            "counted_requests": int(counted.sum()),
            "warming_requests": int((~counted).sum()),
        },
    )


def _measured(lineage: Lineage, cached: Int64, counted: Mask, scrapes: tuple[str, str] | None) -> Measured | None:
    if scrapes is None:
        return from_log(lineage, cached, counted)
    texts = []
    for path in scrapes:
        try:
            texts.append(counters_of(Path(path).read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--measured: can't be read ({error})", file=path) from None
    return from_counters(texts[0], texts[1], lineage, cached, counted)


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
