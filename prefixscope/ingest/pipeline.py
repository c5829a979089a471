"""The pipeline: log -> prompt -> tree -> lineage, in this process or with workers (see workers.py)."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from prefixscope.errors import PrefixscopeError
from prefixscope.ingest.hash_numbers import HashNumbers
from prefixscope.ingest.hash_rows import rows_may_be_columns
from prefixscope.ingest.run import Ingested, Run, TextSource, nothing_left
from prefixscope.ingest.settings import IngestOptions, model_table, prompt_rules
from prefixscope.ingest.workers import log_bytes, read_with_workers, worker_count
from prefixscope.logs import LogFile, LogReading
from prefixscope.logs.hash_columns import HashColumns
from prefixscope.models.deadline import standing_timer
from prefixscope.models.encode import EncoderDisagreement
from prefixscope.models.identity import new_salt_key
from prefixscope.models.prompt import Made, PromptMaker, Started
from prefixscope.models.template import Unrenderable
from prefixscope.records import LoggedRequest, Source

__all__ = ["IngestOptions", "Ingested", "TextSource", "ingest", "model_table", "nothing_left", "prompt_rules"]

_REPORT_EVERY = 500
_LONG_LOG_BYTES = 4 << 20
"""From here on it is sure that a fast tokenizer is worth its building, should the log hold text."""
_AHEAD_CHARACTERS = 24 << 20
"""So much text is rendered ahead while a fast tokenizer is being built."""


def ingest(files: Sequence[LogFile], options: IngestOptions, progress: Callable[[int], None]) -> Ingested:
    """Reads every file once and returns its lineage. `progress` is told the requests read so far.

    Raises ModelError for names without a tokenizer, GateFailed under `strict`, InputError where nothing is left to
    analyze, WorkerError where a worker process died. Where the fast tokenizer of a model turns out to differ from the
    reference in the middle of a run, all is read again with the reference for that model.
    """
    distrusted: dict[str | None, Source] = {}
    while True:
        try:
            return _read_once(files, options, progress, distrusted)
        except EncoderDisagreement as error:
            assert error.source is not None and error.location not in distrusted
            if any(file.path == "-" for file in files):
                raise PrefixscopeError(
                    f"the fast tokenizer can't be trusted here ({error}) and stdin can't be read twice; "
                    "write the log to a file and analyze that"
                ) from None
            distrusted[error.location] = error.source


def _read_once(
    files: Sequence[LogFile],
    options: IngestOptions,
    progress: Callable[[int], None],
    distrusted: dict[str | None, Source],
) -> Ingested:
    salt_key = new_salt_key()
    is_long = options.read.limit is None and log_bytes(files) >= _LONG_LOG_BYTES
    rules = prompt_rules(
        options, fast_encoder=True, salt_key=salt_key, distrusted=frozenset(distrusted),
        build_encoder="ahead" if is_long else "when_due",
    )  # fmt: skip
    numbers = HashNumbers()
    maker = PromptMaker(rules, numbers)
    reading = LogReading(files, options.read)
    run = Run(options, maker, reading.ledger, numbers)
    run.distrusted.update(distrusted)
    workers = worker_count(files, options)
    with _collector_relaxed(), standing_timer():
        if workers > 1:
            read_with_workers(workers, reading, run, salt_key, progress)
        else:
            _read_alone(reading, run, progress)
        progress(reading.ledger.requests_read)
        return run.finish(progress)


def _read_alone(reading: LogReading, run: Run, progress: Callable[[int], None]) -> None:
    """Everything in this process. While a fast tokenizer is being built, prompts are rendered ahead."""
    maker = run.maker
    held: list[tuple[LoggedRequest, Started | Made | Unrenderable]] = []
    characters = 0
    models = 0
    done = 0
    for request in reading.runs(columns=rows_may_be_columns(maker.rules)):
        if isinstance(request, HashColumns):
            _take_all(held, run)
            characters = 0
            run.take_columns(request)
            done += len(request)
            progress(done)
            continue
        done += 1
        started = maker.start(request)
        held.append((request, started))
        characters += len(started.prompt.text) if isinstance(started, Started) else 0
        # a refused row ends a strict run at once, so nothing is read behind it
        if not (maker.waiting and characters < _AHEAD_CHARACTERS) or run.options.read.strict:
            _take_all(held, run)
            characters = 0
        if len(maker.models) > models:
            models = len(maker.models)
            gc.freeze()
        if done % _REPORT_EVERY == 0:
            progress(done)
    _take_all(held, run)
    run.distrusted.update(maker.dropped)
    run.encoders.update((model.entry.base, model.encoder.name) for model in maker.models)
    run.loaded.update(model.entry.location for model in maker.models)


def _take_all(held: list[tuple[LoggedRequest, Started | Made | Unrenderable]], run: Run) -> None:
    for request, started in held:
        run.take(request, run.maker.complete(started) if isinstance(started, Started) else started)
    held.clear()


@contextmanager
def _collector_relaxed() -> Iterator[None]:
    """The cycle collector, which would look at millions of objects that stay, looks at new ones only, and seldom."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
