"""Runs logged requests on a live engine and compares what was predicted with what it measured.

The network parts need httpx (extra `replay`); everything here is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefixscope.replay.fit import LatencyModel, read_latency
    from prefixscope.replay.item import ReplayItem
    from prefixscope.replay.options import ReplayOptions, plan_of
    from prefixscope.replay.phases import Load
    from prefixscope.replay.run import replay
    from prefixscope.replay.sample import Sample, sample_of

__all__ = [
    "LatencyModel",
    "Load",
    "ReplayItem",
    "ReplayOptions",
    "Sample",
    "plan_of",
    "read_latency",
    "replay",
    "sample_of",
]

_HOME = {
    "LatencyModel": "fit",
    "Load": "phases",
    "ReplayItem": "item",
    "ReplayOptions": "options",
    "Sample": "sample",
    "plan_of": "options",
    "read_latency": "fit",
    "replay": "run",
    "sample_of": "sample",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        from prefixscope.errors import PrefixscopeError

        raise PrefixscopeError("replay needs httpx: pip install 'prefixscope[replay]'") from error
