"""One function per command: options in, frozen results out. The command line and Python users call these."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from prefixscope.api.analyze import Analysis, analyze, blocks
from prefixscope.api.capacity import capacity
from prefixscope.api.explain import ExplainOptions, Explanation, explain
from prefixscope.api.index import IndexSummary, write_index
from prefixscope.api.options import (
    AnalyzeOptions,
    CapacityOptions,
    EngineChoice,
    LogOptions,
    MemoryOptions,
    Progress,
)

if TYPE_CHECKING:
    from prefixscope.api.catalogue import formats, model_facts
    from prefixscope.api.doctor import template_doctor
    from prefixscope.api.engine_hashes import events, events_options, hashes, is_endpoint
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

_HOME = {
    "PreparedReplay": "replay",
    "ReplayChoice": "replay",
    "events": "engine_hashes",
    "events_options": "engine_hashes",
    "formats": "catalogue",
    "hashes": "engine_hashes",
    "is_endpoint": "engine_hashes",
    "model_facts": "catalogue",
    "prepare_replay": "replay",
    "run_replay": "replay",
    "template_doctor": "doctor",
}
"""What only some commands need is imported when it is asked for: start-up is time that every run pays."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
