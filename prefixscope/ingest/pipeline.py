"""The pipeline in one process: log -> prompt -> tree -> lineage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prefixscope.breaks.table import Breaks
from prefixscope.engines.wire import RENDERINGS, WIRES, default_rendering
from prefixscope.errors import GateFailed, InputError, OptionError, PrefixscopeError
from prefixscope.index.builder import BuiltLineage, LineageBuilder
from prefixscope.index.lineage import Lineage
from prefixscope.ingest.account import input_report
from prefixscope.ingest.breaks import BreakSearch, with_breaks
from prefixscope.logs import Ledger, LogFile, ReadOptions, read_logs
from prefixscope.logs.rows import EXCLUSIONS, Fault
from prefixscope.models.encode import EncoderDisagreement
from prefixscope.models.identity import IdentityRules, new_salt_key
from prefixscope.models.prompt import PromptMaker, PromptRules
from prefixscope.models.table import ModelEntry, ModelTable, parse_model_option, unresolved_error
from prefixscope.models.table_file import read_models_file
from prefixscope.models.template import Rendering, Unrenderable
from prefixscope.records import LoggedRequest
from prefixscope.results import InputReport

__all__ = ["IngestOptions", "Ingested", "TextSource", "ingest", "model_table", "nothing_left", "prompt_rules"]

_REPORT_EVERY = 500
_MESSAGES = 20
"""So many different messages of refusing templates are told; the others are only counted."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """What decides rows: how files are read, which models there are, which rendering serves which engine."""

    read: ReadOptions
    table: ModelTable
    engine: str = "vllm"
    render: str | None = None
    namespace_by: str | None = None
    breaks: bool = False

    def __post_init__(self) -> None:
        if self.render is not None and self.render not in RENDERINGS:
            raise OptionError(f"--render {self.render}: choose from {', '.join(RENDERINGS)}")


@dataclass(frozen=True, slots=True)
class TextSource:
    """The way back from a row to its text, while the tree with its tokens is still there."""

    built: BuiltLineage
    models: Mapping[str, Any]

    def text_of(self, row: int, start: int, end: int) -> str | None:
        """Tokens `start` to `end` of a row's sequence as text; None where no tokenizer is known."""
        lineage = self.built.lineage
        model = self.models.get(lineage.model[row] or "")
        if model is None or lineage.unit[row] != 1:
            return None
        tokens = self.built.tree.tokens_of(self.built.ends[row].leaf)
        return str(model.decode(tokens[4 * start : 4 * end]))


@dataclass(frozen=True, slots=True)
class Ingested:
    """A lineage with the account of its reading; `text` is None for a lineage that came from an index file, `breaks`
    too, or where they were not looked for."""

    lineage: Lineage
    report: InputReport
    text: TextSource | None = None
    breaks: Breaks | None = None


def model_table(models: Sequence[str], models_file: str | None) -> ModelTable:
    """The table of `--models FILE.toml` and `--model NAME=...`; an option wins over an entry of the file."""
    given = {entry.name: entry for entry in map(parse_model_option, models)}
    if len(given) < len(models):
        ModelTable.of([parse_model_option(text) for text in models])  # tells which name was given twice
    filed = [] if models_file is None else list(read_models_file(Path(models_file)))
    entries: list[ModelEntry] = [*given.values(), *(entry for entry in filed if entry.name not in given)]
    return ModelTable.of(entries)


def ingest(files: Sequence[LogFile], options: IngestOptions, progress: Callable[[int], None]) -> Ingested:
    """Reads every file once and returns its lineage. `progress` is told the requests read so far.

    Raises ModelError for names without a tokenizer, GateFailed under `strict`, InputError where nothing is left to
    analyze. Where the fast tokenizer turns out to differ from the reference in the middle of a run, all is read again
    with the reference.
    """
    try:
        return _ingest(files, options, progress, fast_encoder=True)
    except EncoderDisagreement as error:
        if any(file.path == "-" for file in files):
            raise PrefixscopeError(
                f"the fast tokenizer can't be trusted here ({error}) and stdin can't be read twice; "
                "write the log to a file and analyze that"
            ) from None
        return _ingest(files, options, progress, fast_encoder=False)


def _ingest(
    files: Sequence[LogFile], options: IngestOptions, progress: Callable[[int], None], *, fast_encoder: bool
) -> Ingested:
    maker = PromptMaker(prompt_rules(options, fast_encoder))
    reading = read_logs(files, options.read)
    run = _Run(options, maker, reading.ledger)
    for done, request in enumerate(reading, 1):
        run.take(request)
        if done % _REPORT_EVERY == 0:
            progress(done)
    progress(reading.ledger.requests_read)
    return run.finish(progress)


def prompt_rules(options: IngestOptions, fast_encoder: bool) -> PromptRules:
    """How prompts are made in a run with these options."""

    def rendering_of(engine: str | None) -> Rendering:
        if options.render is not None:
            return next(rendering for rendering in RENDERINGS if rendering == options.render)
        return default_rendering(engine or options.engine)

    return PromptRules(
        table=options.table,
        identity=IdentityRules(new_salt_key(), options.namespace_by),
        wires=WIRES,
        rendering_of=rendering_of,
        fast_encoder=fast_encoder,
    )


class _Run:
    """One pass over the requests: makes prompts, grows the tree, counts what was left out and why."""

    def __init__(self, options: IngestOptions, maker: PromptMaker, ledger: Ledger) -> None:
        self.options = options
        self.maker = maker
        self.ledger = ledger
        self.builder = LineageBuilder()
        self.notes: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.unresolved: Counter[str | None] = Counter()
        self.tokenizers: dict[str, set[str]] = {}
        self.templates: dict[str, set[str]] = {}
        self.search = BreakSearch(maker) if options.breaks else None

    def take(self, request: LoggedRequest) -> None:
        made = self.maker.make(request)
        if isinstance(made, Unrenderable):
            self._refuse(request, made)
            return
        self.notes.update(made.notes)
        identity = made.prompt.identity
        if identity.tokenizer is not None:
            self.tokenizers.setdefault(identity.base_model, set()).add(identity.tokenizer)
        if identity.template is not None:
            self.templates.setdefault(identity.base_model, set()).add(identity.template)
        if request.kind == "lengths":
            # A length without content can't be compared with anything: counting it as a miss would be a lie.
            self._skip(request, "lengths_only")
            return
        self.builder.add(request, made.prompt)
        if self.search is not None:
            self.search.note(request, made.prompt)

    def _refuse(self, request: LoggedRequest, outcome: Unrenderable) -> None:
        if outcome.reason == "no_model":
            self.unresolved[request.model] += 1
            return
        reason = "unrenderable" if outcome.reason in ("refused", "no_template") else outcome.reason
        if reason not in EXCLUSIONS:
            if len(self.refusals) < _MESSAGES or outcome.message in self.refusals:
                self.refusals[outcome.message] += 1
            if self.options.read.strict:
                where = f"{request.source.file}:{request.source.line}"
                raise GateFailed(f"--strict: {where}: {reason}: {outcome.message}")
        self._skip(request, reason)

    def _skip(self, request: LoggedRequest, reason: str) -> None:
        self.ledger.note(request.source.file, Fault(request.source.line, reason, "skip"))

    def finish(self, progress: Callable[[int], None]) -> Ingested:
        if self.unresolved:
            raise unresolved_error(self.unresolved)
        if not len(self.builder):
            raise InputError(nothing_left(self.ledger))
        provenance = self._provenance()
        built = self.builder.finish(provenance)
        provenance["input"] = self._input(built)
        breaks = self._find_breaks(built, progress)
        lineage = built.lineage if breaks is None else with_breaks(built.lineage, breaks)
        built = replace(built, lineage=lineage)
        models = {name or "": self._model_of(name) for name in (*lineage.model.names, None)}
        return Ingested(lineage, input_report(lineage), TextSource(built, models), breaks)

    def _find_breaks(self, built: BuiltLineage, progress: Callable[[int], None]) -> Breaks | None:
        return None if self.search is None else self.search.find(built, self._model_of, progress)

    def _model_of(self, name: str | None) -> Any:
        entry = self.options.table.resolve(name)
        loaded = {model.entry.location: model for model in self.maker.models}
        return None if entry is None or entry.location is None else loaded.get(entry.location)

    def _provenance(self) -> dict[str, Any]:
        encoders = {model.entry.base: model.encoder.name for model in self.maker.models}
        settings: dict[str, dict[str, Any]] = {}
        for entry in self.options.table.entries.values():
            said = {
                key: getattr(entry, key)
                for key in ("engine", "block_size", "match_unit", "speculative", "kv_dtype", "tensor_parallel")
                if getattr(entry, key) is not None
            }
            if said and (entry.base not in settings or entry.name == entry.base):
                settings[entry.base] = said
        return {
            "render": self.options.render,
            "rendered_for": self.options.engine,
            "encoders": encoders,
            "tokenizers": {base: sorted(prints) for base, prints in sorted(self.tokenizers.items())},
            "templates": {base: sorted(prints) for base, prints in sorted(self.templates.items())},
            "engine_settings": settings,
        }

    def _input(self, built: BuiltLineage) -> dict[str, Any]:
        ledger = self.ledger
        warnings = [dict(warning) for warning in ledger.warnings]
        warnings += [{"reason": note, "count": count} for note, count in sorted(self.notes.items())]
        warnings += [
            {"reason": "unrenderable", "message": message, "count": count}
            for message, count in self.refusals.most_common()
        ]
        for base, prints in self.templates.items():
            if len(prints) > 1:
                warnings.append({"reason": "several_templates", "model": base, "count": len(prints)})
        return {
            "files": list(ledger.formats),
            "formats": list(ledger.formats.values()),
            "requests_read": ledger.requests_read,
            "skipped": [[skip.file, skip.line, skip.reason, skip.count] for skip in ledger.skipped],
            "warnings": warnings,
            "time_is_relative": ledger.time_is_relative,
            "ties": built.ties,
            "missing_times": built.missing_times,
        }


def nothing_left(ledger: Ledger) -> str:
    """Why no request of a log can be used."""
    counts = ", ".join(f"{count} {reason}" for reason, count in ledger.skipped_counts.items())
    files = ", ".join(ledger.formats)
    if "lengths_only" in ledger.skipped_counts:
        return f"{files}: the log holds lengths only; without prompts or hash ids nothing can be said about reuse"
    return f"{files}: no request is left to analyze" + (f" (left out: {counts})" if counts else "")
