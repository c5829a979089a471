"""What the command `capacity` tells of one pool beyond its section, most of it from the one walk already made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from prefixscope.api.finite_memory import Walked
from prefixscope.capacity.curve import HitCurve
from prefixscope.capacity.distances import reuse_distances
from prefixscope.capacity.pressure import evictions_by, families_of, working_sets
from prefixscope.capacity.sizes import Tier
from prefixscope.capacity.tiers import Recompute, tiers_of
from prefixscope.index.lineage import Int64, Lineage
from prefixscope.results import rate
from prefixscope.results.capacity import (
    BlockSizeAtCapacity,
    CapacitySection,
    CurveCorners,
    EvictedGroup,
    EvictionRow,
    Evictions,
    LifetimePoint,
    TierRow,
    WorkingSetRow,
)
from prefixscope.reuse.sweep import with_block_size

__all__ = ["block_sizes_of", "corners_of", "evictions_of", "lifetimes_of", "tier_rows", "working_sets_of"]

LIFETIMES_S = (10, 30, 60, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
WINDOWS_S = (60, 600, 3600, 24 * 3600)
_MOST_FAMILIES = 8
_LARGEST_SHARE = 0.5
"""A family with more of the tokens than this says nothing about who evicts whom: the split goes deeper."""


def corners_of(curve: HitCurve) -> CurveCorners:
    """The whole curve; corners on a straight line between their neighbours are left out."""
    at = curve.corners()
    tokens, hits = curve.tokens_at(at), curve.blocks_at(at)
    if curve.unit_blocks == 1 and len(at) > 2:
        run, rise, climb = np.diff(at), np.diff(tokens), np.diff(hits)
        bends = (rise[1:] * run[:-1] != rise[:-1] * run[1:]) | (climb[1:] * run[:-1] != climb[:-1] * run[1:])
        kept = np.concatenate(([True], bends, [True]))
        at, tokens, hits = at[kept], tokens[kept], hits[kept]
    return CurveCorners(curve.unit_blocks, at.tolist(), tokens.tolist(), hits.tolist())


def lifetimes_of(walked: Walked, asked_s: Sequence[float]) -> tuple[tuple[LifetimePoint, ...], int]:
    """(round lifetimes up to the first that is enough for everything, and those asked for; requests without a time)."""
    curve = walked.distances.lifetimes(walked.pool.counted)
    oldest = float(curve.age_ns[-1]) / 1e9 if len(curve.age_ns) else 0.0
    enough = next((place for place, seconds in enumerate(LIFETIMES_S) if seconds >= oldest), len(LIFETIMES_S))
    wanted = sorted({*map(float, LIFETIMES_S[: enough + 1]), *asked_s})
    points = []
    for seconds, tokens in zip(wanted, curve.tokens_at(wanted).tolist(), strict=True):
        points.append(LifetimePoint(seconds, tokens, rate(tokens, curve.prompt_tokens), seconds in asked_s))
    return tuple(points), curve.requests_without_time


def tier_rows(
    walked: Walked, tiers: Sequence[Tier], *, exclusive: bool, chunk: int | None, speed: Recompute | float | None
) -> tuple[TierRow, ...]:
    """What each tier adds for the counted rows."""
    if not tiers:
        return ()
    pool, kv = walked.pool, walked.kv
    for tier in tiers:
        kv.blocks_of(tier.capacity, pool.profile.block_size, f"--tier {tier.name}=")  # tells which option is missing
    uses = tiers_of(
        pool.lineage, pool.profile, tiers, token_bytes=kv.token_bytes, inclusive=not exclusive, chunk_tokens=chunk,
        recompute=speed, where=pool.counted,
    )  # fmt: skip
    prompts = int(pool.lineage.prompt_tokens[pool.counted].sum())
    block_bytes = kv.block_bytes(pool.profile.block_size)
    return tuple(
        TierRow(
            name=use.tier.name,
            size=use.tier.capacity.text,
            blocks=use.blocks,
            bytes=None if block_bytes is None else use.blocks * block_bytes,
            found_tokens=int(use.found_tokens[pool.counted].sum()),
            gain_tokens=int(use.gain_tokens[pool.counted].sum()),
            gain_rate=rate(int(use.gain_tokens[pool.counted].sum()), prompts),
            read_bytes=use.read_bytes,
            written_bytes=use.written_bytes,
            fetch_seconds=use.fetch_seconds,
            recompute_seconds=use.recompute_seconds,
            saved_seconds=use.saved_seconds,
            slower_requests=use.slower_requests,
        )
        for use in uses
    )


def working_sets_of(walked: Walked) -> tuple[WorkingSetRow, ...]:
    """For windows no longer than the log, at least one."""
    pool = walked.pool
    time = pool.lineage.time_ns
    span = float(time[-1] - time[0]) / 1e9
    block_bytes = walked.kv.block_bytes(pool.profile.block_size) or None

    def size(blocks: int) -> int | None:
        return None if block_bytes is None else blocks * block_bytes

    windows = [window for window in WINDOWS_S if window <= span] or [WINDOWS_S[0]]
    return tuple(
        WorkingSetRow(one.window_s, one.peak_blocks, one.p95_blocks, size(one.peak_blocks), size(one.p95_blocks))
        for one in working_sets(pool.lineage, pool.profile, windows)
    )


def evictions_of(walked: Walked, blocks: int) -> Evictions | None:
    """Who evicts whom at one size; None where nothing is lost."""
    lineage, counted = walked.pool.lineage, walked.pool.counted
    group, by = _families(lineage)
    found = evictions_by(walked.distances, blocks, group, _MOST_FAMILIES, where=counted)
    if not found:
        return None
    named = [code for one in found for code in (one.victim, one.evictor) if code is not None]
    codes = list(dict.fromkeys(named))
    namespaces = [lineage.namespaces[code] for code in lineage.namespace[codes].tolist()]
    place: dict[int | None, int | None] = {code: number for number, code in enumerate(codes)}
    groups = []
    for code, namespace in zip(codes, namespaces, strict=True):
        mine = group == code
        # Where a namespace is one family its own name says more than that of a request.
        name = namespace if namespaces.count(namespace) == 1 < len(set(namespaces)) else _name_of(lineage, code)
        groups.append(EvictedGroup(name, int(mine.sum()), int(lineage.prompt_tokens[mine].sum())))
    rows = tuple(EvictionRow(place.get(one.victim), place.get(one.evictor), one.tokens) for one in found)
    return Evictions(blocks, by, sum(one.tokens for one in found), tuple(groups), rows)


def _families(lineage: Lineage) -> tuple[Int64, str]:
    """Requests that start alike, at the first place where they part into families of a useful size."""
    shared, times = np.unique(lineage.shared_tokens[lineage.shared_tokens > 0], return_counts=True)
    often = np.sort(shared[np.argsort(-times, kind="stable")[:_MOST_FAMILIES]]).tolist()
    whole = int(lineage.sequence_tokens.sum())
    family, chosen = families_of(lineage), 0
    for beyond in often:
        volume = np.bincount(family, weights=lineage.sequence_tokens)
        if volume.max() <= _LARGEST_SHARE * whole:
            break
        family, chosen = families_of(lineage, beyond), beyond
    return family, f"requests with the same first {chosen + 1:,} tokens" if chosen else "requests with the same start"


def _name_of(lineage: Lineage, row: int) -> str:
    """A family by its first request: its id or its place in the log."""
    known, file = lineage.request_id[row], lineage.file[row]
    line = int(lineage.line[row])
    place = f"line {line}" if file is None or len(lineage.file.names) == 1 else f"{PurePath(file).name}:{line}"
    return f"like {place if known is None else known}"


def block_sizes_of(walked: Walked, section: CapacitySection) -> tuple[BlockSizeAtCapacity, ...]:
    """Every size the engine offers, in infinite memory and in as many tokens as the user's first size holds."""
    pool = walked.pool
    rows = [row for row in pool.block_sizes if row.accepted is not False]
    profiles = [with_block_size(pool.profile, row.block_size) for row in rows]
    if not profiles:
        return ()
    room = section.asked[0].blocks * section.block_size if section.asked else None
    found = reuse_distances(pool.lineage, profiles)
    sizes = []
    for row, one in zip(rows, found, strict=True):
        curve = one.curve(pool.counted)
        cached = None if room is None else int(curve.tokens_at(room // row.block_size))
        whole = curve.infinite_tokens
        sizes.append(
            BlockSizeAtCapacity(
                row.block_size, whole, rate(whole, curve.prompt_tokens), cached, rate(cached, curve.prompt_tokens)
            )
        )
    return tuple(sizes)
