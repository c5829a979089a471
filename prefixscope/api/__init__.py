"""One function per command: options in, frozen results out. The command line and Python users call these."""

from __future__ import annotations

from prefixscope.api.analyze import Analysis, analyze, blocks
from prefixscope.api.catalogue import formats, model_facts
from prefixscope.api.hashes import events, events_options, hashes, is_endpoint
from prefixscope.api.index import IndexSummary, write_index
from prefixscope.api.options import AnalyzeOptions, EngineChoice, LogOptions, Progress

__all__ = [
    "Analysis",
    "AnalyzeOptions",
    "EngineChoice",
    "IndexSummary",
    "LogOptions",
    "Progress",
    "analyze",
    "blocks",
    "events",
    "events_options",
    "formats",
    "hashes",
    "is_endpoint",
    "model_facts",
    "write_index",
]
