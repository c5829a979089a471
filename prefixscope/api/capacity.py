"""`capacity`: every size of memory at once, what to pick, and what other policies and tiers would give."""

from __future__ import annotations

from prefixscope.api.capacity_details import (
    block_sizes_of,
    corners_of,
    evictions_of,
    lifetimes_of,
    tier_rows,
    working_sets_of,
)
from prefixscope.api.finite_memory import FiniteMemory, Walked
from prefixscope.api.options import CapacityOptions, Progress
from prefixscope.api.profiles import memory_of, profile_of
from prefixscope.api.reading import lineage_of, selected
from prefixscope.capacity.policies import OPTIMUM, OPTIMUM_OF, POLICIES, simulate_policy
from prefixscope.capacity.sizes import Tier, parse_tier
from prefixscope.capacity.tiers import Recompute
from prefixscope.errors import OptionError
from prefixscope.replay.fit import read_latency
from prefixscope.results import CapacityReport, rate
from prefixscope.results.capacity import CapacityDetails, CapacitySection, PolicyRow
from prefixscope.reuse.pools import apply_engine
from prefixscope.reuse.selection import duration_ns
from prefixscope.reuse.sweep import BLOCK_SIZES

__all__ = ["MOST_POLICY_BLOCKS", "capacity"]

MOST_POLICY_BLOCKS = 100_000_000
"""Policies look at every block of every request, once per policy and size: more than this is refused (minutes)."""


def capacity(options: CapacityOptions, progress: Progress) -> CapacityReport:
    """The whole curve of every pool under the first engine, and all that follows from it."""
    memory = FiniteMemory(options.log, memory_of(options.memory, options.engine), progress)
    tiers = tuple(parse_tier(text) for text in options.tiers)
    memory.kv_sizes.refuse_bytes_without_models((f"--tier {tier.name}=", tier.capacity) for tier in tiers)
    speed = _speed(options)
    lifetimes = [duration_ns("--ttl", text) / 1e9 for text in options.ttls]
    policies = _policies(options.policies)
    ingested = lineage_of(options.log, options.engine, progress)
    selection = selected(ingested.lineage, options.log)
    engine = options.engine.names[0] if options.engine.names else None
    applied = apply_engine(
        selection.lineage,
        selection.counted,
        lambda lineage, pool: profile_of(lineage, pool, options.engine, engine, options.memory),
        BLOCK_SIZES,
        memory.restrict,
    )
    sections = [pool.capacity for pool in applied.pools if pool.capacity is not None]
    _refuse_long_runs(memory.walked, sections, len(policies))
    has_times = ingested.report.first_time_ns is not None
    details = tuple(
        _details(walked, section, options, tiers, speed, lifetimes, policies, has_times, progress)
        for walked, section in zip(memory.walked, sections, strict=True)
    )
    return CapacityReport(ingested.report, applied.pools, details, int(selection.counted.sum()))


def _speed(options: CapacityOptions) -> Recompute | float | None:
    """What computing tokens again costs: a speed, or a fitted time that grows with the context before them."""
    if options.latency_model is None:
        return options.prefill_tokens_per_second
    if options.prefill_tokens_per_second is not None:
        raise OptionError("--latency-model and --prefill-tokens-per-second say the same thing: give one of them")
    fit = read_latency(options.latency_model)
    return lambda have, gain: gain * (fit.b + fit.c * (have + gain))


def _details(
    walked: Walked, section: CapacitySection, options: CapacityOptions, tiers: tuple[Tier, ...],
    speed: Recompute | float | None, lifetimes: list[float], policies: tuple[str, ...], has_times: bool,
    progress: Progress,
) -> CapacityDetails:  # fmt: skip
    points, without_time = lifetimes_of(walked, lifetimes) if has_times else ((), len(walked.pool.lineage))
    return CapacityDetails(
        curve=corners_of(walked.distances.curve(walked.pool.counted)),
        lifetimes=points,
        requests_without_time=without_time,
        tiers=tier_rows(
            walked, tiers, exclusive=options.exclusive_tiers, chunk=options.tier_chunk,
            speed=speed,
        ),
        tiers_exclusive=options.exclusive_tiers,
        tier_chunk_tokens=options.tier_chunk,
        policies=_run_policies(walked, policies, _sizes(section), progress),
        optimum_of=OPTIMUM_OF if policies else None,
        working_sets=working_sets_of(walked) if has_times else (),
        evictions=evictions_of(walked, _sizes(section)[0]),
        block_sizes_at_capacity=block_sizes_of(walked, section),
    )  # fmt: skip


def _sizes(section: CapacitySection) -> list[int]:
    """The sizes asked for, else the recommended one."""
    return list(dict.fromkeys(size.blocks for size in section.asked)) or [section.recommended.cache_blocks]


def _policies(asked: tuple[str, ...]) -> tuple[str, ...]:
    """The names, `all` written out, the bound last; OptionError before anything is read."""
    names = [name for one in asked for name in (POLICIES if one == "all" else (one,))]
    for name in names:
        if name not in POLICIES and name != OPTIMUM:
            raise OptionError(f"--policy {name}: unknown (known: {', '.join(POLICIES)}, {OPTIMUM}, all)")
    chosen = [name for name in dict.fromkeys(names) if name != OPTIMUM]
    return (*chosen, OPTIMUM) if names else ()


def _refuse_long_runs(pools: list[Walked], sections: list[CapacitySection], policies: int) -> None:
    runs = policies * sum(
        _blocks(walked) * len(_sizes(section)) for walked, section in zip(pools, sections, strict=True)
    )
    if runs > MOST_POLICY_BLOCKS:
        raise OptionError(
            f"--policy: {policies} policies at the given sizes would look at {runs:,} blocks one by one, more than "
            f"{MOST_POLICY_BLOCKS:,}; give fewer policies or sizes, --limit N, or an earlier --until"
        )


def _blocks(walked: Walked) -> int:
    unit = max(walked.pool.profile.match_unit, walked.pool.profile.block_size)
    return int((-(-walked.pool.lineage.sequence_tokens // unit)).sum())


def _run_policies(
    walked: Walked, policies: tuple[str, ...], sizes: list[int], progress: Progress
) -> tuple[PolicyRow, ...]:
    pool = walked.pool
    prompts = int(pool.lineage.prompt_tokens[pool.counted].sum())
    rows = []
    for blocks in sizes:
        for name in policies:
            done = 0

            def served(more: int, name: str = name, blocks: int = blocks) -> None:
                nonlocal done
                done += more
                progress(f"policy {name} at {blocks:,} blocks", done, len(pool.lineage))

            run = simulate_policy(name, pool.lineage, pool.profile, blocks, served=served)
            cached = int(run.cached_tokens[pool.counted].sum())
            rows.append(PolicyRow(name, blocks, cached, rate(cached, prompts), run.evicted_units))
    return tuple(rows)
