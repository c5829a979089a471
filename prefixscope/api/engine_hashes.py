"""`hashes` and `events`: an engine's own block keys, and what its KV events tell about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO

from prefixscope.api.options import EngineChoice, LogOptions, Progress
from prefixscope.api.reading import ingest_options
from prefixscope.engines.events import is_endpoint
from prefixscope.errors import OptionError
from prefixscope.ingest import (
    CheckedEvents,
    EventsOptions,
    HashOptions,
    HashReading,
    KeyedReading,
    check_events,
)
from prefixscope.reuse.selection import instant_ns

__all__ = ["events", "events_options", "hashes", "is_endpoint"]


def hashes(log: LogOptions, keys: HashOptions, progress: Progress, *, with_outputs: bool = False) -> HashReading:
    """The engine's own block-hash chain of each request: iterate over it, in file order, once.

    Raises OptionError before anything is read where the chain could not be bit exact.
    """
    return HashReading(_keyed(log, keys, progress), with_outputs=with_outputs)


def events(
    asked: EventsOptions, keys: HashOptions, log: LogOptions | None, progress: Progress, record: IO[bytes] | None = None
) -> CheckedEvents:
    """Reads recorded or live KV events, derives every hash again, and follows the blocks of a log's requests.

    `record` gets every batch as one JSON line, as published: with the tokens and the salts.
    """
    if log is not None and asked.source == "-" and "-" in log.logs:
        raise OptionError("events and --log can't both be read from stdin (-)")
    return check_events(asked, keys, None if log is None else _keyed(log, keys, progress), record)


def events_options(
    source: str,
    *,
    replay_endpoint: str | None = None,
    topic: str | None = None,
    idle: float | None = None,
    batches: int | None = None,
    at: str | None = None,
    stop: Callable[[], bool] | None = None,
) -> EventsOptions:
    """Which events to read, and how long to listen; `at` is an ISO 8601 time of the publisher's clock."""
    at_ns = None if at is None else instant_ns("--at", at)
    return EventsOptions(source, replay_endpoint, topic or "", idle, batches, at_ns, stop)


def _keyed(log: LogOptions, keys: HashOptions, progress: Progress) -> KeyedReading:
    options = ingest_options(log, EngineChoice((keys.engine_spec,)))
    return KeyedReading(log.logs, options, keys, lambda done: progress("reading", done, log.limit))
