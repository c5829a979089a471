"""What comes out about finite memory: plain frozen data; field names are the keys of `--json`.

Capacities are usable blocks of one replica (all its ranks together). Cached tokens and hit blocks are sums over the
counted requests of all replicas of a pool. None means unknown, which is never zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "AskedCapacity",
    "BlockSizeAtCapacity",
    "BlockSizePick",
    "CapacityDetails",
    "CapacityPoint",
    "CapacitySection",
    "CurveCorners",
    "EvictedGroup",
    "EvictionRow",
    "Evictions",
    "LifetimePoint",
    "PolicyRow",
    "Recommended",
    "ShareSize",
    "TierRow",
    "WorkingSetRow",
]


@dataclass(frozen=True, slots=True)
class CapacityPoint:
    """One capacity in usable blocks per replica; `asked` where the user named it. Rates are None without prompts."""

    blocks: int
    bytes: int | None
    cached_tokens: int
    token_hit_rate: float | None
    hit_blocks: int
    block_hit_rate: float | None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class AskedCapacity:
    """One `--capacity` as written, and what it is in whole blocks."""

    text: str
    blocks: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class ShareSize:
    """The smallest capacity that keeps `share` of the infinite reuse."""

    share: float
    blocks: int
    bytes: int | None
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Recommended:
    """What to give.

    `cache_blocks` keep the first share of `shares`, `running_blocks` are what requests in progress hold (p95).
    `total_blocks` is None while the running need is not known; `bytes` are those of the total, or of the cache
    alone where the total is not known. `block_size` is what blocks are counted in. `gib_buys_tokens`: what one GiB more
    gives at `at_blocks`, the user's size. `why`: one sentence each, with the numbers it rests on.
    """

    cache_blocks: int
    running_blocks: int | None
    total_blocks: int | None
    bytes: int | None
    block_size: int
    why: tuple[str, ...]
    share: float
    shares: tuple[ShareSize, ...]
    running_peak_blocks: int | None
    running_source: str
    requests_without_end: int
    at_blocks: int | None
    gib_buys_tokens: int | None


@dataclass(frozen=True, slots=True)
class BlockSizePick:
    """The largest accepted block size that costs less than 1 % of the infinite reuse of the best one."""

    block_size: int
    cached_tokens: int
    best_tokens: int
    why: str


@dataclass(frozen=True, slots=True)
class CapacitySection:
    """The capacity part of one pool. `model`: `engine` (with the blocks this engine keeps but can't match) or `lru`.

    `approximation` says where the curve is not exact for this engine; None: requests one after another give just this,
    up to what docs/capacity.md measures. `unique_blocks` counts distinct full blocks in all replicas; more than
    `largest_useful_blocks` give nothing. `block_bytes_why` is the formula of `block_bytes`, or why it is None.
    """

    model: str
    block_size: int
    block_bytes: int | None
    block_bytes_why: str
    unique_blocks: int
    largest_useful_blocks: int
    infinite_cached_tokens: int
    prompt_tokens: int
    prompt_blocks: int
    replicas: int
    upper_bound: bool
    approximation: str | None
    asked: tuple[AskedCapacity, ...]
    points: tuple[CapacityPoint, ...]
    recommended: Recommended
    block_size_choice: BlockSizePick | None


@dataclass(frozen=True, slots=True)
class CurveCorners:
    """The whole curve: exact values at every capacity where it bends. With `unit_blocks` 1 it is a straight line from
    one corner to the next; with more, it is one along capacities that are `unit_blocks` apart."""

    unit_blocks: int
    blocks: Sequence[int]
    cached_tokens: Sequence[int]
    hit_blocks: Sequence[int]


@dataclass(frozen=True, slots=True)
class LifetimePoint:
    """What is cached where a block is found for `seconds` after its last use, memory being unlimited."""

    seconds: float
    cached_tokens: int
    token_hit_rate: float | None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class TierRow:
    """One level of memory, first the engine's own. `gain_tokens` is what it adds to the levels above it, never below 0.

    Seconds are sums over requests that fetch; `saved_seconds` counts only those where fetching beats computing,
    `slower_requests` are the others. None where bandwidth, bytes or the speed of prefill were not said.
    """

    name: str
    size: str
    blocks: int
    bytes: int | None
    found_tokens: int
    gain_tokens: int
    gain_rate: float | None
    read_bytes: int | None
    written_bytes: int | None
    fetch_seconds: float | None
    recompute_seconds: float | None
    saved_seconds: float | None
    slower_requests: int | None


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """What one eviction policy keeps at one capacity, requests one after another."""

    policy: str
    blocks: int
    cached_tokens: int
    token_hit_rate: float | None
    evicted_units: int


@dataclass(frozen=True, slots=True)
class WorkingSetRow:
    """Different full blocks used within the last `window_s` seconds: the most, and the 95th percentile of requests."""

    window_s: float
    peak_blocks: int
    p95_blocks: int
    peak_bytes: int | None
    p95_bytes: int | None


@dataclass(frozen=True, slots=True)
class EvictedGroup:
    """Requests that start alike, named by the first of them, or by their namespace where it holds no others."""

    name: str
    requests: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class EvictionRow:
    """`tokens` that requests of `victim` lost because `evictor` filled the cache; None: all groups not listed."""

    victim: int | None
    evictor: int | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Evictions:
    """Who evicts whom at `blocks`. Rows name places in `groups` and add up to `lost_tokens`; `by`: what a group is."""

    blocks: int
    by: str
    lost_tokens: int
    groups: tuple[EvictedGroup, ...]
    rows: tuple[EvictionRow, ...]


@dataclass(frozen=True, slots=True)
class BlockSizeAtCapacity:
    """One accepted block size: reuse in infinite memory, and in as many tokens of memory as the user's first size."""

    block_size: int
    infinite_cached_tokens: int
    infinite_token_hit_rate: float | None
    cached_tokens: int | None
    token_hit_rate: float | None


@dataclass(frozen=True, slots=True)
class CapacityDetails:
    """What the command `capacity` adds to the section. `policies_of`: what the optimum among the rows is one of."""

    curve: CurveCorners
    lifetimes: tuple[LifetimePoint, ...]
    requests_without_time: int
    tiers: tuple[TierRow, ...]
    tiers_exclusive: bool
    tier_chunk_tokens: int | None
    policies: tuple[PolicyRow, ...]
    optimum_of: str | None
    working_sets: tuple[WorkingSetRow, ...]
    evictions: Evictions | None
    block_sizes_at_capacity: tuple[BlockSizeAtCapacity, ...]
