"""From log files to a lineage: the only place where text becomes rows. After it, no analysis sees text or tokens."""

from __future__ import annotations

from prefixscope.ingest.account import input_report
from prefixscope.ingest.cache_events import CheckedEvents, check_events
from prefixscope.ingest.event_source import EventsOptions
from prefixscope.ingest.key_plan import HashOptions
from prefixscope.ingest.keyed import HashReading, KeyedReading
from prefixscope.ingest.pipeline import Ingested, IngestOptions, TextSource, ingest, model_table

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
