"""One pass over a log's prompts: grows the tree, keeps the account of what was left out, and ends in a lineage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prefixscope.breaks.pieces import BodyPieces, pieces_of
from prefixscope.breaks.table import Breaks
from prefixscope.errors import GateFailed, InputError, OptionError
from prefixscope.index.builder import BuiltLineage, LineageBuilder, RowFacts, row_facts
from prefixscope.index.lineage import Lineage
from prefixscope.ingest.account import input_report
from prefixscope.ingest.breaks import BreakSearch, with_breaks
from prefixscope.ingest.hash_numbers import HashNumbers
from prefixscope.ingest.hash_rows import ends_early, row_batch
from prefixscope.ingest.settings import IngestOptions, engine_settings
from prefixscope.logs import Ledger
from prefixscope.logs.hash_columns import HashColumns
from prefixscope.logs.rows import EXCLUSIONS, Fault
from prefixscope.models.config_facts import configs_of_pools
from prefixscope.models.media_tokens import first_by_url
from prefixscope.models.prompt import Made, PromptMaker
from prefixscope.models.table import unresolved_error
from prefixscope.models.template import Unrenderable
from prefixscope.records import Identity, LoggedRequest, Source
from prefixscope.results import InputReport

__all__ = ["Ingested", "Run", "TextSource", "nothing_left"]

_NO_PIECES = BodyPieces((), None, None)
_MESSAGES = 20
"""So many different messages of refusing templates are told; the others are only counted."""


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


class Run:
    """Takes every request of a log once, in file order, with what was made of it.

    `maker` leads back from rows to text afterwards; `hash_numbers` are the numbers it gives to hash ids. `encoders`
    names the engine that served each base model, and `loaded` the tokenizers that were used; both are filled by whoever
    makes the prompts.
    """

    def __init__(self, options: IngestOptions, maker: PromptMaker, ledger: Ledger, hash_numbers: HashNumbers) -> None:
        self.options = options
        self.maker = maker
        self.hash_numbers = hash_numbers
        self.ledger = ledger
        self.builder = LineageBuilder()
        self.encoders: dict[str, str] = {}
        self.loaded: set[str | None] = set()
        self.distrusted: dict[str | None, Source] = {}
        self.notes: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.unresolved: Counter[str | None] = Counter()
        self.tokenizers: dict[str, set[str]] = {}
        self.templates: dict[str, set[str]] = {}
        self.by_url: dict[int, int] = {}
        """Where the first medium known by its address only begins, by the number of the row in the order of reading."""
        self.search = BreakSearch(maker) if options.breaks else None

    def take(self, request: LoggedRequest, made: Made | Unrenderable) -> None:
        """A request with its prompt, or why there is none."""
        if isinstance(made, Unrenderable):
            self.refuse(request, made)
            return
        pieces = None if self.search is None else pieces_of(request)
        prompt = made.prompt
        self.take_row(request, made.notes, row_facts(request, prompt), prompt.identity, prompt.tokens, pieces)

    def take_row(
        self, request: LoggedRequest, notes: tuple[str, ...], facts: RowFacts, identity: Identity, tokens: bytes,
        pieces: BodyPieces | None,
    ) -> None:  # fmt: skip
        """The same in its parts; of the request only source, kind and time are looked at."""
        self.notes.update(notes)
        if identity.tokenizer is not None:
            self.tokenizers.setdefault(identity.base_model, set()).add(identity.tokenizer)
        if identity.template is not None:
            self.templates.setdefault(identity.base_model, set()).add(identity.template)
        if request.kind == "lengths":
            # A length without content can't be compared with anything: counting it as a miss would be a lie.
            self._skip(request, "lengths_only")
            return
        if "media_by_url" in notes:
            apart = any(extra.startswith("media=") for extra in identity.extra)
            self.by_url[len(self.builder)] = 0 if apart else first_by_url(tokens) or 0
        self.builder.add_row(facts, identity, tokens)
        if self.search is not None:
            assert pieces is not None
            self.search.note(request.kind, request.time_ns, pieces)

    def take_columns(self, columns: HashColumns) -> None:
        """Plain rows of a hash trace, all at once."""
        early = ends_early(columns)
        if early:
            self.notes["hash_ids_end_early"] += early
        batch = row_batch(columns, self.maker.rules, self.hash_numbers)
        self.builder.add_rows(batch)
        if self.search is not None:
            for time_ns in batch.time_ns.tolist():
                self.search.note("hashes", time_ns, _NO_PIECES)

    def refuse(self, request: LoggedRequest, outcome: Unrenderable) -> None:
        """A request without a prompt. Raises GateFailed under `strict`."""
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
        """The lineage. Raises ModelError for names without a tokenizer, InputError where nothing is left."""
        if self.unresolved:
            raise unresolved_error(self.unresolved)
        if not len(self.builder):
            raise InputError(nothing_left(self.ledger, self.refusals))
        self._check_namespace_field()
        provenance = self._provenance()
        built = self.builder.finish(provenance)
        pools = built.lineage.pools
        provenance["engine_settings"] = engine_settings(pools, self.options.table)
        provenance["model_configs"] = configs_of_pools(pools, self.options.table)
        provenance["input"] = self._input(built)
        breaks = self._find_breaks(built, progress)
        lineage = built.lineage if breaks is None else with_breaks(built.lineage, breaks)
        built = replace(built, lineage=lineage)
        models = {name or "": self._model_of(name) for name in (*lineage.model.names, None)}
        return Ingested(lineage, input_report(lineage), TextSource(built, models), breaks)

    def _check_namespace_field(self) -> None:
        """A field that no request has would separate nothing without a word: most likely a slip of the pen."""
        field = self.options.namespace_by
        if field is not None and not any(
            extra.startswith(f"{field}=") and extra != f"{field}="
            for identity in self.builder.identities
            for extra in identity.extra
        ):
            raise OptionError(
                f"--namespace-by {field}: no request has this field (a dotted path into the body, or one of "
                "session_id, tenant, replica, model, adapter, request_id)"
            )

    def _find_breaks(self, built: BuiltLineage, progress: Callable[[int], None]) -> Breaks | None:
        return None if self.search is None else self.search.find(built, self._model_of, progress)

    def _model_of(self, name: str | None) -> Any:
        entry = self.options.table.resolve(name)
        return None if entry is None or entry.location not in self.loaded else self.maker.model(entry)

    def _provenance(self) -> dict[str, Any]:
        return {
            "render": self.options.render,
            "rendered_for": self.options.engine,
            "encoders": dict(sorted(self.encoders.items())),
            "tokenizers": {base: sorted(prints) for base, prints in sorted(self.tokenizers.items())},
            "templates": {base: sorted(prints) for base, prints in sorted(self.templates.items())},
        }

    def _url_bounds(self, built: BuiltLineage) -> dict[str, int]:
        """Reusable tokens where equal addresses hold equal content, and where each held something else every time."""
        reusable = built.lineage.reusable_tokens.tolist()
        numbers = built.order.tolist()
        least = sum(
            min(tokens, self.by_url.get(number, tokens)) for tokens, number in zip(reusable, numbers, strict=True)
        )
        return {"reusable_tokens": sum(reusable), "reusable_tokens_if_contents_changed": least}

    def _input(self, built: BuiltLineage) -> dict[str, Any]:
        ledger = self.ledger
        warnings = [dict(warning) for warning in ledger.warnings]
        warnings += [
            {"reason": note, "count": count} | (self._url_bounds(built) if note == "media_by_url" else {})
            for note, count in sorted(self.notes.items())
        ]
        warnings += [
            {"reason": "unrenderable", "message": message, "count": count}
            for message, count in self.refusals.most_common()
        ]
        for location, source in self.distrusted.items():
            place = {"file": source.file, "line": source.line}
            warnings.append({"reason": "fast_tokenizer_dropped", "tokenizer": location, **place})
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


def nothing_left(ledger: Ledger, refusals: Counter[str] | None = None) -> str:
    """Why no request of a log can be used, with the most common message of a refusing chat template."""
    counts = ", ".join(f"{count} {reason}" for reason, count in ledger.skipped_counts.items())
    files = ", ".join(ledger.formats)
    if "lengths_only" in ledger.skipped_counts:
        return f"{files}: the log holds lengths only; without prompts or hash ids nothing can be said about reuse"
    text = f"{files}: no request is left to analyze" + (f" (left out: {counts})" if counts else "")
    if refusals:
        message, count = refusals.most_common(1)[0]
        text += f"; {count} times: {message} (another template: chat_template in --models FILE.toml)"
    return text
