"""One function per command: options in, frozen results out. The command line and Python users call these."""

from __future__ import annotations

from prefixscope.api.analyze import Analysis, analyze, blocks
from prefixscope.api.capacity import capacity
from prefixscope.api.catalogue import formats, model_facts
from prefixscope.api.doctor import template_doctor
from prefixscope.api.explain import ExplainOptions, Explanation, explain
from prefixscope.api.hashes import events, events_options, hashes, is_endpoint
from prefixscope.api.index import IndexSummary, write_index
from prefixscope.api.options import (
    AnalyzeOptions,
    CapacityOptions,
    EngineChoice,
    LogOptions,
    MemoryOptions,
    Progress,
)
from prefixscope.api.replay import PreparedReplay, ReplayChoice, prepare_replay, run_replay

__all__ = [
    "Analysis",
    "AnalyzeOptions",
    "CapacityOptions",
    "EngineChoice",
    "ExplainOptions",
    "Explanation",
    "IndexSummary",
    "LogOptions",
    "MemoryOptions",
    "PreparedReplay",
    "Progress",
    "ReplayChoice",
    "analyze",
    "blocks",
    "capacity",
    "events",
    "events_options",
    "explain",
    "formats",
    "hashes",
    "is_endpoint",
    "model_facts",
    "prepare_replay",
    "run_replay",
    "template_doctor",
    "write_index",
]
