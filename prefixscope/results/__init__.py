"""What comes out: plain frozen data that reports print; constructors assert that sums add up.

Field names are the keys of `--json` (schema `prefixscope.report/1`), and their meaning is docs/definitions.md. None
means unknown or not simulated, which is never zero. A rate is None where its denominator is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prefixscope.results.capacity import CapacityDetails, CapacitySection
from prefixscope.results.findings import Finding, SmallerUnit

__all__ = [
    "RUNGS",
    "SCHEMA",
    "AnalyzeReport",
    "BlockSizeRow",
    "BlocksReport",
    "CapacityReport",
    "EngineUsed",
    "Finding",
    "FormatFacts",
    "Group",
    "InputReport",
    "Losses",
    "Measured",
    "PoolReport",
    "Prefix",
    "Rung",
    "Skip",
    "SmallerUnit",
    "Totals",
    "Warned",
    "rate",
]

SCHEMA = "prefixscope.report/1"

RUNGS = ("reusable", "last_token", "block_rounding", "engine_rule", "in_flight", "routing", "capacity")
"""The ladder: each rung adds one restriction to the one before; the first has none."""


def rate(part: int | None, whole: int | None) -> float | None:
    """part/whole, or None where either is unknown or the whole is nothing.

    >>> rate(1, 4), rate(0, 0), rate(None, 4)
    (0.25, None, None)
    """
    return None if part is None or not whole else part / whole


@dataclass(frozen=True, slots=True)
class Skip:
    """Input that was left out: `count` times `reason`, first seen at `file`:`line` (line None: the whole file)."""

    file: str
    line: int | None
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that may bend the result: a reason with its facts; the sentence is made in report/words.py."""

    reason: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InputReport:
    """What was read. `tier` is the worst evidence grade among the analyzed requests (1 token ids .. 6 lengths)."""

    files: tuple[str, ...]
    formats: tuple[str, ...]
    tier: int | None
    requests_read: int
    requests_analyzed: int
    skipped: tuple[Skip, ...]
    warnings: tuple[Warned, ...]
    time_is_relative: bool
    ties: int
    first_time_ns: int | None
    last_time_ns: int | None
    outputs: Mapping[str, int]
    """Requests by what is known of their generated tokens: ids, text, length, unknown."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Tokens lost at each rung of the ladder; None where the rung was not simulated."""

    last_token: int
    block_rounding: int
    engine_rule: int
    in_flight: int | None = None
    routing: int | None = None
    capacity: int | None = None

    @property
    def total(self) -> int:
        """All simulated losses together."""
        return (
            self.last_token
            + self.block_rounding
            + self.engine_rule
            + (self.in_flight or 0)
            + (self.routing or 0)
            + (self.capacity or 0)
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over counted requests; every rate names numerator and denominator in docs/definitions.md."""

    requests: int
    prompt_tokens: int
    output_tokens: int | None
    stored_unique_tokens: int
    first_seen_tokens: int
    reusable_tokens: int
    reusable_prompt_only_tokens: int
    ideal_prefill_tokens: int
    cached_tokens: int
    prefill_tokens: int
    expected_cached_tokens: int
    expected_prefill_tokens: int
    hit_blocks: int
    blocks: int
    token_hit_rate: float | None
    expected_token_hit_rate: float | None
    second_half_token_hit_rate: float | None
    block_hit_rate: float | None
    mean_request_hit_rate: float | None
    losses: Losses

    def __post_init__(self) -> None:
        assert self.ideal_prefill_tokens == self.prompt_tokens - self.reusable_tokens
        assert self.prefill_tokens == self.prompt_tokens - self.cached_tokens
        assert self.expected_prefill_tokens == self.prompt_tokens - self.expected_cached_tokens
        assert self.losses.total == self.reusable_tokens - self.expected_cached_tokens


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of the ladder: what is still cached after it and what it took; None: not simulated, `why` says so."""

    rung: str
    cached_tokens: int | None
    token_hit_rate: float | None
    lost_tokens: int | None
    why: str


@dataclass(frozen=True, slots=True)
class BlockSizeRow:
    """What one block size (match unit) would give in an infinite cache under the same engine rule."""

    block_size: int
    cached_tokens: int
    prefill_tokens: int
    token_hit_rate: float | None
    block_hit_rate: float | None
    unique_blocks: int
    wasted_slot_tokens: int
    accepted: bool | None = None
    """Whether engine and backend offer this size; None where that is not known."""


@dataclass(frozen=True, slots=True)
class EngineUsed:
    """The profile that was applied; `assumed` lists what was not read from a running engine or said by the user."""

    name: str
    version: str
    block_size: int
    match_unit: int
    speculative: str
    assumed: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Prefix:
    """A prefix many requests share. `saved_tokens`: reuse beyond the enclosing prefix; `preview`: its last words."""

    tokens: int
    requests: int
    saved_tokens: int
    namespace: str
    preview: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Sums over the requests that share one value of `by` (model, namespace, session, tenant, replica)."""

    by: str
    name: str | None
    requests: int
    prompt_tokens: int
    reusable_tokens: int
    cached_tokens: int
    expected_cached_tokens: int
    token_hit_rate: float | None
    expected_token_hit_rate: float | None


@dataclass(frozen=True, slots=True)
class PoolReport:
    """Everything about the requests that share one KV memory."""

    pool: str
    models: tuple[str, ...]
    engine: EngineUsed
    totals: Totals
    ladder: tuple[Rung, ...]
    block_sizes: tuple[BlockSizeRow, ...]
    largest_block_size_with_reuse: int | None
    capacity: CapacitySection | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """What the log's usage or the engine's counters say, against the prediction for the same requests."""

    requests: int
    prompt_tokens: int
    cached_tokens: int
    predicted_prompt_tokens: int
    predicted_cached_tokens: int
    unknown_requests: int
    source: str
    verdict: str
    unit_of_all: int | None
    """The largest power of two that divides every measured cached count: a hint of the unit in force."""


@dataclass(frozen=True, slots=True)
class AnalyzeReport:
    """The result of `analyze` for one engine. With one pool, `totals` are the pool's."""

    input: InputReport
    totals: Totals
    pools: tuple[PoolReport, ...]
    groups: tuple[Group, ...]
    prefixes: tuple[Prefix, ...]
    sessions: Mapping[str, Any]
    measured: Measured | None
    unexplained_tokens: int | None
    method: Mapping[str, Any]
    breaks: Any = None
    """A `results.breaks.BreaksReport`; None where breaks were not looked for."""
    worth: Any = None
    """A `results.worth.Worth`: prefill seconds the expected reuse saves; None without a latency model."""

    def __post_init__(self) -> None:
        if self.pools:
            for name in ("requests", "prompt_tokens", "reusable_tokens", "cached_tokens", "expected_cached_tokens"):
                assert getattr(self.totals, name) == sum(getattr(pool.totals, name) for pool in self.pools), name


@dataclass(frozen=True, slots=True)
class BlocksReport:
    """The result of `blocks`: the block-size sweep of every pool."""

    input: InputReport
    pools: tuple[PoolReport, ...]


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """The result of `capacity`: pools as `analyze` gives them, each with its section, and the details of each."""

    input: InputReport
    pools: tuple[PoolReport, ...]
    details: tuple[CapacityDetails, ...]
    counted_requests: int


@dataclass(frozen=True, slots=True)
class FormatFacts:
    """One log format: what it is, what it can tell, how to switch such logging on.

    `verified` is False where a field name or a flag was not checked against the source of the software that logs.
    """

    name: str
    description: str
    how: str
    has_text: bool
    has_token_ids: bool
    has_time: bool
    has_cached_tokens: bool
    has_session: bool
    has_adapter: bool
    verified: bool
