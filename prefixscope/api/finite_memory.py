"""What finite memory and several replicas leave of a pool's reuse: two rungs of the ladder, the capacity section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prefixscope.api.kv_size import KvSize, KvSizes
from prefixscope.api.options import LogOptions, MemoryOptions, Progress
from prefixscope.capacity.distances import ReuseDistances, reuse_distances
from prefixscope.capacity.pick import Recommendation, choose_from, running_need
from prefixscope.capacity.sizes import Capacity, parse_capacity
from prefixscope.capacity.summary import approximation, summarize
from prefixscope.engines.profile import EngineProfile
from prefixscope.errors import OptionError
from prefixscope.results import BlockSizeRow
from prefixscope.results.capacity import (
    AskedCapacity,
    BlockSizePick,
    CapacityPoint,
    CapacitySection,
    Recommended,
    ShareSize,
)
from prefixscope.reuse.pools import Pool, Restriction, Restrictions

__all__ = ["FiniteMemory", "Walked", "asked_blocks"]

UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class Walked:
    """One pool with the stack distances of its reuse and what its KV costs."""

    pool: Pool
    distances: ReuseDistances
    kv: KvSize


class FiniteMemory:
    """Walks each pool once; `walked` keeps what was found, in the order of the pools."""

    def __init__(self, log: LogOptions, memory: MemoryOptions, progress: Progress) -> None:
        self.asked = tuple(parse_capacity(text) for text in memory.capacities)
        self.kv_sizes = KvSizes(log, memory)
        self.kv_sizes.refuse_bytes_without_models(("--capacity ", size) for size in self.asked)
        self.walked: list[Walked] = []
        self._concurrency = memory.concurrency
        self._progress = progress

    def restrict(self, pool: Pool) -> Restrictions:
        """The rungs `routing` (where the log names several replicas) and `capacity` (where a size was given)."""
        self._progress("capacity", 0, None)
        lineage, profile = pool.lineage, pool.profile
        kv = self.kv_sizes.of(lineage, pool.name)
        (found,) = reuse_distances(lineage, [profile])
        self.walked.append(Walked(pool, found, kv))
        section = self._section(pool, found, kv)
        rungs = []
        if section.replicas > 1:
            why = f"{section.replicas} replicas as logged, each with its own infinite cache"
            rungs.append(Restriction("routing", found.cached_tokens(UNLIMITED), why))
        if section.asked:
            size = section.asked[0]
            rungs.append(Restriction("capacity", found.cached_tokens(size.blocks), _how(size, section, profile)))
        return Restrictions(tuple(rungs), section)

    def _section(self, pool: Pool, found: ReuseDistances, kv: KvSize) -> CapacitySection:
        lineage, profile = pool.lineage, pool.profile
        block_bytes = kv.block_bytes(profile.block_size)
        asked = asked_blocks(self.asked, kv, profile)
        running = running_need(lineage, profile.block_size, self._concurrency)
        blocks = [size.blocks for size in asked]
        summary = summarize(found, running, where=pool.counted, asked=blocks, block_bytes=block_bytes)
        choice = _choice(pool.block_sizes)
        prompts = lineage.prompt_tokens[pool.counted]
        return CapacitySection(
            model=summary.model,
            block_size=summary.block_size,
            block_bytes=block_bytes,
            block_bytes_why=kv.why,
            unique_blocks=summary.unique_blocks,
            largest_useful_blocks=summary.largest_useful_blocks,
            infinite_cached_tokens=summary.infinite_tokens,
            prompt_tokens=int(prompts.sum()),
            prompt_blocks=int((-(-prompts // profile.block_size)).sum()),
            replicas=len(np.unique(lineage.replica.codes)),
            upper_bound=summary.upper_bound,
            approximation=approximation(profile),
            asked=asked,
            points=summary.points,
            recommended=_recommended(summary.recommended, summary.points, blocks[0] if blocks else None, block_bytes),
            block_size_choice=choice,
        )


def asked_blocks(asked: Sequence[Capacity], kv: KvSize, profile: EngineProfile) -> tuple[AskedCapacity, ...]:
    """Every `--capacity` in blocks of this pool; OptionError where bytes were given that are not known."""
    sizes = []
    for capacity in asked:
        blocks = kv.blocks_of(capacity, profile.block_size, "--capacity ")
        if blocks < 1:
            raise OptionError(f"--capacity {capacity.text}: less than one block of {profile.block_size} tokens")
        block_bytes = kv.block_bytes(profile.block_size)
        sizes.append(AskedCapacity(capacity.text, blocks, None if block_bytes is None else blocks * block_bytes))
    return tuple(sizes)


def _how(size: AskedCapacity, section: CapacitySection, profile: EngineProfile) -> str:
    each = " per replica" if section.replicas > 1 else ""
    how = f"{size.blocks:,} blocks of {profile.block_size} tokens{each}, one request after another"
    return how if section.approximation is None else f"{how}; {section.approximation}"


def _choice(rows: Sequence[BlockSizeRow]) -> BlockSizePick | None:
    """Sizes the engine is known not to offer are left out; None where there is nothing to choose from."""
    reuse = {row.block_size: row.cached_tokens for row in rows if row.accepted is not False}
    choice = choose_from(reuse)
    if choice is None or len(reuse) < 2:
        return None
    return BlockSizePick(choice.block_size, choice.cached_tokens, choice.best_tokens, choice.why)


def _recommended(
    found: Recommendation, points: Sequence[CapacityPoint], at_blocks: int | None, block_bytes: int | None
) -> Recommended:
    cached = {point.blocks: point.cached_tokens for point in points}
    return Recommended(
        cache_blocks=found.cache_blocks,
        running_blocks=found.running.p95_blocks,
        total_blocks=found.total_blocks,
        bytes=found.bytes,
        block_size=found.block_size,
        why=found.why,
        share=found.share,
        shares=tuple(
            ShareSize(share, blocks, None if block_bytes is None else blocks * block_bytes, cached[blocks])
            for share, blocks in found.cache_blocks_by_share
        ),
        running_peak_blocks=found.running.peak_blocks,
        running_source=found.running.source,
        requests_without_end=found.running.requests_without_end,
        at_blocks=at_blocks,
        gib_buys_tokens=found.gib_buys_tokens,
    )
