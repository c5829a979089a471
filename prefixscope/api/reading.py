"""From options to a lineage, the rows to count, and the engine profile of a pool."""

from __future__ import annotations

from prefixscope.api.options import EngineChoice, LogOptions, Progress
from prefixscope.engines import EngineOptions, EngineProfile, resolve
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
        return Ingested(lineage, input_report(lineage))
    asked = ingest_options(options, engine, breaks=breaks)
    return ingest(files, asked, lambda done: progress("reading", done, options.limit))


def ingest_options(options: LogOptions, engine: EngineChoice, *, breaks: bool = False) -> IngestOptions:
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
        breaks=breaks,
    )


def selected(lineage: Lineage, options: LogOptions) -> Selection:
    return select(
        lineage, since=options.since, until=options.until, warmup=options.warmup, cold_start=options.cold_start
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
