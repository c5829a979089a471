"""An engine profile: what an engine does with prefixes, as data plus one small rule over the lineage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prefixscope.index.lineage import Int64, Lineage

__all__ = [
    "CacheGroup",
    "EngineOptions",
    "EngineProfile",
    "Fact",
    "GroupKind",
    "Grouping",
    "Platform",
    "Rule",
    "Speculative",
    "Verified",
    "Visibility",
]

Visibility = Literal["scheduled", "prefill_end", "request_end"]
Speculative = Literal["none", "eagle", "mtp"]
Verified = Literal["seen running", "function run", "source read", "documented", "unverified"]
Platform = Literal["nvidia", "ascend", "cpu", "rocm", "hosted"]
GroupKind = Literal["full", "sliding_window", "mamba", "chunked_local"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing known of an engine: what, where it was read, for which versions, and how it was verified."""

    subject: str
    statement: str
    source: str
    versions: str
    verified: Verified


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers of one kind that keep their KV together: `block_size` tokens per block, `window` tokens where it slides
    (or the chunk of chunked-local attention)."""

    kind: GroupKind
    block_size: int
    window: int | None = None

    def __post_init__(self) -> None:
        assert self.block_size >= 1
        assert (self.window is not None) == (self.kind in ("sliding_window", "chunked_local"))


@dataclass(frozen=True, slots=True)
class Grouping:
    """The KV groups of a model, and which states of sliding-window and recurrent groups the engine keeps.

    `retention`: None every state, 0 only where a prompt can be resumed, R also once per R tokens. `max_batched_tokens`:
    tokens of prefill one step may hold (0: a whole prompt); recurrent states exist only where a step ended.
    `keeps_resend_state`: prefill stops where a resend of the same prompt resumes, also when the prompt ends on a block
    boundary. `drop_aware_boundaries`: with a dropped block, states are kept where a hit ends after the drop.
    `peeks_at_last_token`: the block that is then dropped may hold the last prompt token. `keeps_below_junction`: with
    a dropped block, the block below a junction is kept as well.
    """

    groups: tuple[CacheGroup, ...]
    retention: int | None = None
    max_batched_tokens: int = 0
    keeps_resend_state: bool = True
    drop_aware_boundaries: bool = True
    peeks_at_last_token: bool = True
    keeps_below_junction: bool = False

    def __post_init__(self) -> None:
        assert self.groups


@dataclass(frozen=True, slots=True)
class EngineProfile:
    """Facts and the rule of one engine version under one configuration.

    `rule(lineage, profile)` returns int64[n]: the prompt tokens of each row that the engine takes from one infinite
    cache when requests run one after another in table order. `match_unit` U is the granularity of a match in tokens,
    `drop_units` the units given up after matching (speculative decoding). `stores_output`: generated tokens stay
    findable. `visible`: when a request's blocks can be found by others. `unhashed_first`: freed blocks without a hash
    are reused before all others. `accepted_block_sizes` is what engine and backend offer (None: any multiple of 1).

    `lookahead_tokens`: a block matches only if this many tokens after it match too. `grouping`: the KV groups of a
    model whose layers do not all attend to everything, and what is kept in them (None: one full-attention group).
    `slots`: sequences that llama.cpp's server holds at once. `minimum_tokens`: shorter matches count as none.
    `lifetime_s`: seconds after its last use that a prefix is found.
    `stores_forks`: a fork of two requests is stored for the third (hosted APIs that store whole units).
    `assumed` are sentences for the user: what was taken for granted, what was overruled, what is unverified;
    `lower_bound` says that the log's hash unit does not divide the match unit, so the real hits may be higher.
    """

    name: str
    version: str
    block_size: int
    match_unit: int
    rule: Rule
    drop_units: int = 0
    partial_reuse: bool = False
    stores_output: bool = True
    visible: Visibility = "scheduled"
    unhashed_first: bool = True
    eviction: str = "lru"
    monotone: bool = True
    speculative: Speculative = "none"
    accepted_block_sizes: tuple[int, ...] | None = None
    facts: tuple[Fact, ...] = ()
    assumed: tuple[str, ...] = ()
    source: str = "defaults"
    platform: Platform = "nvidia"
    lookahead_tokens: int = 0
    grouping: Grouping | None = None
    slots: int | None = None
    minimum_tokens: int = 0
    lifetime_s: float | None = None
    stores_forks: bool = False
    lower_bound: bool = False
    match_unit_why: str = "the block size"
    recomputes_last_token: bool = True
    """False only where a fully matched prompt needs no token computed: traces and routers, which compute nothing."""

    def __post_init__(self) -> None:
        assert self.block_size >= 1 and self.match_unit >= 1 and self.drop_units >= 0
        assert self.lookahead_tokens >= 0 and self.minimum_tokens >= 0


Rule = Callable[[Lineage, EngineProfile], Int64]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What the user said about the engine; None means 'not said', and the profile's default is then 'assumed'."""

    block_size: int | None = None
    match_unit: int | None = None
    speculative: Speculative = "none"
    unit: int = 1
    """Tokens per symbol of the log (hash rows); the default block size of profile `trace`."""
    platform: Platform | None = None
    backend: str | None = None
    """Attention backend as the engine names it, such as `flashmla` or `trtllm_mha`."""
    lookahead_tokens: int | None = None
    """Tokens a multi-module MTP drafts at once (vLLM 0.33 looks that far ahead when it matches)."""
    groups: tuple[CacheGroup, ...] = ()
    """KV groups, where they are known exactly; empty: read from `model_config`, or full attention only."""
    model_config: Mapping[str, Any] | None = None
    """The model's config.json, which tells layers that slide or carry a state (`engines.config`)."""
    tensor_parallel: int = 1
    kv_bytes: int = 2
    """Bytes per KV element: 2 for 16-bit formats, 1 for fp8."""
    speculative_tokens: int = 0
    """Tokens drafted per step; they enlarge recurrent states and with them the blocks of hybrid models."""
    context_parallel: int = 1
    """Ranks that share each block's tokens (decode context parallelism)."""
    retention: int | Literal["dense", "default"] = "default"
    """vLLM's retention of sliding-window and Mamba states: dense, 0, every R tokens, or the version's default."""
    max_batched_tokens: int | None = None
    """The engine's budget of tokens per step, which cuts long prefills into chunks."""
    partial_reuse: bool | None = None
    """TensorRT-LLM's enable_partial_reuse."""
    strip_thinking: bool = False
    """SGLang's --strip-thinking-cache: outputs of requests that reasoned are not kept."""
    slots: int | None = None
    """llama.cpp's number of slots (-np)."""
    save_unfull_chunk: bool = False
    """LMCache's save_unfull_chunk."""
    save_decode_cache: bool = False
    """LMCache's save_decode_cache."""
    lifetime_s: float | None = None
    """Overrides how long a hosted API keeps a prefix after its last use, in seconds."""
