"""What a command is asked for: plain frozen options, the same for the command line and for Python users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from prefixscope.engines.profile import Platform, Speculative

__all__ = ["AnalyzeOptions", "CapacityOptions", "EngineChoice", "LogOptions", "MemoryOptions", "Progress"]

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
    """Which engine's rules to apply. No name: `trace` for logs of hash rows only, else `vllm`.

    None is what the models file says, else the engine's default. `url`: a running engine that is asked for its name,
    version, block size and blocks. `retention`: `dense` or a number of tokens. `lifetime` (hosted APIs) and
    `service_time` (from start to end of requests that log no end) are durations such as `5m`. `lookahead`: tokens that
    multi-module MTP drafts at once. `context_parallel`: ranks that share each block's tokens.
    """

    names: tuple[str, ...] = ()
    block_size: int | None = None
    match_unit: int | None = None
    speculative: Speculative = "none"
    url: str | None = None
    platform: Platform | None = None
    attention_backend: str | None = None
    retention: str | None = None
    speculative_tokens: int | None = None
    lookahead: int | None = None
    max_batched_tokens: int | None = None
    context_parallel: int | None = None
    partial_reuse: bool | None = None
    strip_thinking: bool | None = None
    slots: int | None = None
    lifetime: str | None = None
    service_time: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """How much KV memory a replica has, as the user writes it, and what a token costs in it.

    `capacities` (`20000blocks`, `40GiB`, `2Mtok`): the first feeds the ladder, all are points of the curve.
    `concurrency`: requests running at once, where the log does not tell. `kv_dtype` and `tensor_parallel`: None is what
    the models file says, else the model's own type and one rank. `context_parallel` is the engine's; it saves copies.
    """

    capacities: tuple[str, ...] = ()
    concurrency: int | None = None
    kv_dtype: str | None = None
    tensor_parallel: int | None = None
    context_parallel: int | None = None


@dataclass(frozen=True, slots=True)
class CapacityOptions:
    """What the command `capacity` takes beyond the shared options.

    `ttls`: durations such as `5m`. `tiers`: `NAME=SIZE[@BANDWIDTH[+LATENCY]]`, the engine's own memory first; with
    `exclusive_tiers` no block is in two of them, `tier_chunk` is the granularity of those after the first in tokens.
    `policies`: names of eviction policies, or `all`; the clairvoyant bound is always among them.
    """

    log: LogOptions
    engine: EngineChoice = field(default_factory=EngineChoice)
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    ttls: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    exclusive_tiers: bool = False
    tier_chunk: int | None = None
    prefill_tokens_per_second: float | None = None
    latency_model: str | None = None
    policies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnalyzeOptions:
    """Everything `analyze` and `blocks` take."""

    log: LogOptions
    engine: EngineChoice = field(default_factory=EngineChoice)
    block_sizes: tuple[int, ...] = ()
    measured: tuple[str, str] | None = None
    hide_text: bool = False
    prefixes: int = 10
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    latency_model: str | None = None
