"""From log files to a lineage: the only place where text becomes rows. After it, no analysis sees text or tokens."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prefixscope.ingest.account import input_report
from prefixscope.ingest.pipeline import Ingested, IngestOptions, TextSource, ingest, model_table

if TYPE_CHECKING:
    from prefixscope.ingest.cache_events import CheckedEvents, check_events
    from prefixscope.ingest.event_source import EventsOptions
    from prefixscope.ingest.key_plan import HashOptions
    from prefixscope.ingest.keyed import HashReading, KeyedReading

__all__ = [
    "CheckedEvents",
    "EventsOptions",
    "HashOptions",
    "HashReading",
    "IngestOptions",
    "Ingested",
    "KeyedReading",
    "TextSource",
    "check_events",
    "ingest",
    "input_report",
    "model_table",
]

_HOME = {
    "CheckedEvents": "cache_events",
    "EventsOptions": "event_source",
    "HashOptions": "key_plan",
    "HashReading": "keyed",
    "KeyedReading": "keyed",
    "check_events": "cache_events",
}
"""What only `hashes` and `events` need is imported when it is asked for."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
