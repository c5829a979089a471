"""Every log format, one line each. Detection asks them in this order."""

from __future__ import annotations

from prefixscope.logs.envelope import Envelope, OpenAIBatch
from prefixscope.logs.hash_traces import Bailian, Mooncake, Weka
from prefixscope.logs.native import Native
from prefixscope.logs.rows import LogFormat

__all__ = ["FORMATS"]

_ORDER: tuple[LogFormat, ...] = (
    Bailian(),
    Weka(),
    Mooncake(),
    OpenAIBatch(),
    Envelope(),
    Native(),
)

FORMATS: dict[str, LogFormat] = {format.name: format for format in _ORDER}
