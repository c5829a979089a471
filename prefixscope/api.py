"""One function per command: options in, frozen results out. The command line and Python users call these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import IO, Any

import numpy as np

from prefixscope import __version__
from prefixscope.engines import EngineOptions, EngineProfile, resolve
from prefixscope.engines.profile import Speculative
from prefixscope.errors import InputError, OptionError
from prefixscope.index.lineage import Int64, Lineage, Mask
from prefixscope.index.store import read_index
from prefixscope.index.store import write_index as store_index
from prefixscope.ingest import Ingested, IngestOptions, ingest, input_report, model_table
from prefixscope.logs import FORMATS, ReadOptions, expand, is_index
from prefixscope.models.sheet import ModelSheet, model_sheet
from prefixscope.models.table import ModelEntry
from prefixscope.results import (
    AnalyzeReport,
    BlocksReport,
    FormatFacts,
    InputReport,
    Measured,
    Prefix,
)
from prefixscope.reuse.measured import counters_of, from_counters, from_log
from prefixscope.reuse.pools import Applied, apply_engine
from prefixscope.reuse.prefixes import shared_prefixes
from prefixscope.reuse.request_rows import request_rows
from prefixscope.reuse.selection import Selection, select
from prefixscope.reuse.sweep import BLOCK_SIZES
from prefixscope.reuse.totals import add_totals, groups_of, sessions_of

__all__ = [
    "Analysis",
    "AnalyzeOptions",
    "EngineChoice",
    "IndexSummary",
    "LogOptions",
    "Progress",
    "analyze",
    "blocks",
    "formats",
    "model_facts",
    "write_index",
]

Progress = Callable[[str, int, int | None], None]
"""Called now and then with (what is being done, units done, units in all or None)."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What to read and how: the shared options of every command that takes LOG..."""

    logs: tuple[str, ...]
    format: str | None = None
    models: tuple[str, ...] = ()
    models_file: str | None = None
    render: str | None = None
    namespace_by: str | None = None
    warmup: str = "0"
    since: str | None = None
    until: str | None = None
    cold_start: bool = False
    limit: int | None = None
    strict: bool = False
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Which engine's rules to apply. No name: `trace` for logs of hash rows only, else `vllm`."""

    names: tuple[str, ...] = ()
    block_size: int | None = None
    match_unit: int | None = None
    speculative: Speculative = "none"


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """Everything `analyze` and `blocks` take."""

    log: LogOptions
    engine: EngineChoice = field(default_factory=EngineChoice)
    block_sizes: tuple[int, ...] = ()
    measured: tuple[str, str] | None = None
    hide_text: bool = False
    prefixes: int = 10


@dataclass(frozen=True, slots=True)
class Analysis:
    """`reports` has one entry per engine asked for; `rows` are the per-request columns under the first engine."""

    reports: tuple[AnalyzeReport, ...]
    rows: Mapping[str, list[Any]]


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """What an index file holds."""

    rows: int
    namespaces: int
    pools: tuple[str, ...]
    prompt_tokens: int
    unique_tokens: int
    input: InputReport


def analyze(options: AnalyzeOptions, progress: Progress) -> Analysis:
    """How much can be reused and where the rest goes, for each engine asked for."""
    ingested = _lineage_of(options.log, options.engine, progress)
    selection = _select(ingested.lineage, options.log)
    reports = []
    rows: Mapping[str, list[Any]] = {}
    for engine in options.engine.names or (None,):
        applied = _apply(selection, options, engine)
        reports.append(_report(ingested, selection, applied, options))
        rows = rows or request_rows(selection.lineage, applied.accounting, selection.counted)
    return Analysis(tuple(reports), rows)


def blocks(options: AnalyzeOptions, progress: Progress) -> BlocksReport:
    """Reuse and waste per block size, per pool, under the first engine."""
    ingested = _lineage_of(options.log, options.engine, progress)
    selection = _select(ingested.lineage, options.log)
    engine = options.engine.names[0] if options.engine.names else None
    applied = _apply(selection, options, engine)
    return BlocksReport(input=ingested.report, pools=applied.pools)


def write_index(options: LogOptions, engine: EngineChoice, file: IO[bytes], progress: Progress) -> IndexSummary:
    """Reads and tokenises once and writes the lineage as Parquet to an open binary file."""
    ingested = _lineage_of(options, engine, progress)
    lineage = _select(ingested.lineage, options).lineage
    store_index(lineage, file, tool_version=__version__)
    return IndexSummary(
        rows=len(lineage),
        namespaces=len(np.unique(lineage.namespace)),
        pools=lineage.pools,
        prompt_tokens=int(lineage.prompt_tokens.sum()),
        unique_tokens=int((lineage.sequence_tokens - lineage.shared_tokens).sum()),
        input=ingested.report,
    )


def model_facts(names: tuple[str, ...], options: LogOptions) -> tuple[ModelSheet, ...]:
    """One sheet per name, folder or hub id; without names, one per entry of --model and --models."""
    table = model_table(options.models, options.models_file)
    entries = list(table.entries.values())
    if names:
        entries = [table.resolve(name) or ModelEntry(name, base=name, location=name) for name in names]
    return tuple(model_sheet(entry) for entry in entries)


def formats() -> tuple[FormatFacts, ...]:
    """Every log format that can be read."""
    names = [facts.name for facts in fields(FormatFacts)]
    return tuple(FormatFacts(**{name: getattr(form, name) for name in names}) for form in FORMATS.values())


def _lineage_of(options: LogOptions, engine: EngineChoice, progress: Progress) -> Ingested:
    """The lineage of an index file, or of logs read now."""
    files = expand(options.logs, FORMATS)
    indexes = [file.path for file in files if file.format is None and is_index(file.path)]
    if indexes:
        if len(files) > 1:
            raise InputError("an index can't be combined with other logs; index all logs together", file=indexes[0])
        if options.render is not None or options.namespace_by is not None or options.limit is not None:
            raise OptionError(
                "--render, --namespace-by and --limit act while a log is read; "
                f"{indexes[0]} is an index: make a new one from the log"
            )
        lineage = read_index(indexes[0])
        if not len(lineage):
            raise InputError("the index holds no requests", file=indexes[0])
        return Ingested(lineage, input_report(lineage))
    asked = ingest_options(options, engine)
    return ingest(files, asked, lambda done: progress("reading", done, options.limit))


def ingest_options(options: LogOptions, engine: EngineChoice) -> IngestOptions:
    """What ingest is told: the rendering follows the first engine unless --render says otherwise."""
    for name in engine.names:
        resolve(name, EngineOptions(block_size=None, unit=1))  # a wrong name is told before the log is read
    first = next((name for name in engine.names if name.partition("@")[0] != "trace"), "vllm")
    return IngestOptions(
        read=ReadOptions(format=options.format, strict=options.strict, limit=options.limit),
        table=model_table(options.models, options.models_file),
        engine=first,
        render=options.render,
        namespace_by=options.namespace_by,
    )


def _select(lineage: Lineage, options: LogOptions) -> Selection:
    return select(
        lineage, since=options.since, until=options.until, warmup=options.warmup, cold_start=options.cold_start
    )


def _apply(selection: Selection, options: AnalyzeOptions, engine: str | None) -> Applied:
    return apply_engine(
        selection.lineage,
        selection.counted,
        lambda lineage, pool: profile_of(lineage, pool, options.engine, engine),
        options.block_sizes or BLOCK_SIZES,
    )


def profile_of(lineage: Lineage, pool: str, choice: EngineChoice, engine: str | None) -> EngineProfile:
    """The engine profile of one pool: the command line's word first, then the models file's, then the default."""
    said = lineage.provenance.get("engine_settings", {}).get(pool, {})
    unit = int(lineage.unit.max(initial=1))
    name = engine or said.get("engine") or ("trace" if unit > 1 else "vllm")
    own = engine is None or engine == said.get("engine")
    speculative = choice.speculative
    if speculative == "none" and own:
        speculative = said.get("speculative", "none")
    return resolve(
        name,
        EngineOptions(
            block_size=choice.block_size or (said.get("block_size") if own else None),
            match_unit=choice.match_unit or (said.get("match_unit") if own else None),
            speculative=speculative,
            unit=unit,
        ),
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
