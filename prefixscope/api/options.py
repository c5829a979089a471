"""What a command is asked for: plain frozen options, the same for the command line and for Python users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from prefixscope.engines.profile import Speculative

__all__ = ["AnalyzeOptions", "EngineChoice", "LogOptions", "Progress"]

Progress = Callable[[str, int, int | None], None]
"""Called now and then with (what is being done, units done, units in all or None)."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What to read and how: the shared options of every command that takes LOG..."""

    logs: tuple[str, ...]
    format: str | None = None
    models: tuple[str, ...] = ()
    models_file: str | None = None
    render: str | None = None
    namespace_by: str | None = None
    warmup: str = "0"
    since: str | None = None
    until: str | None = None
    cold_start: bool = False
    limit: int | None = None
    strict: bool = False
    workers: int | None = None


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Which engine's rules to apply. No name: `trace` for logs of hash rows only, else `vllm`."""

    names: tuple[str, ...] = ()
    block_size: int | None = None
    match_unit: int | None = None
    speculative: Speculative = "none"


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """Everything `analyze` and `blocks` take."""

    log: LogOptions
    engine: EngineChoice = field(default_factory=EngineChoice)
    block_sizes: tuple[int, ...] = ()
    measured: tuple[str, str] | None = None
    hide_text: bool = False
    prefixes: int = 10
