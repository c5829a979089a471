"""From options to a lineage, the rows to count, and the engine profile of a pool."""

from __future__ import annotations

from prefixscope.api.options import EngineChoice, LogOptions, Progress
from prefixscope.api.profiles import check_choice, profile_of
from prefixscope.errors import InputError, OptionError
from prefixscope.index.lineage import Lineage
from prefixscope.index.store import read_index
from prefixscope.ingest import Ingested, IngestOptions, ingest, input_report, model_table
from prefixscope.logs import FORMATS, ReadOptions, expand, is_index
from prefixscope.reuse.selection import Selection, select

__all__ = ["ingest_options", "lineage_of", "profile_of", "selected"]


def lineage_of(options: LogOptions, engine: EngineChoice, progress: Progress, *, breaks: bool = False) -> Ingested:
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
        settings = lineage.provenance.get("engine_settings", {})
        check_choice(engine, (said.get("engine") for said in settings.values()))
        return Ingested(lineage, input_report(lineage))
    asked = ingest_options(options, engine, breaks=breaks)
    return ingest(files, asked, lambda done: progress("reading", done, options.limit))


def ingest_options(options: LogOptions, engine: EngineChoice, *, breaks: bool = False) -> IngestOptions:
    """What ingest is told: the rendering follows the first engine unless --render says otherwise."""
    table = model_table(options.models, options.models_file)
    check_choice(engine, (entry.engine for entry in table.entries.values()))
    first = next((name for name in engine.names if name.partition("@")[0] != "trace"), None)
    if first is None and engine.url is not None:
        from prefixscope.api.engine_url import ask_once  # what speaks HTTP is not imported by runs that ask nobody

        first = ask_once(engine.url).engine
    return IngestOptions(
        read=ReadOptions(format=options.format, strict=options.strict, limit=options.limit),
        table=table,
        engine=first or "vllm",
        render=options.render,
        namespace_by=options.namespace_by,
        breaks=breaks,
        workers=options.workers,
    )


def selected(lineage: Lineage, options: LogOptions) -> Selection:
    return select(
        lineage, since=options.since, until=options.until, warmup=options.warmup, cold_start=options.cold_start
    )
