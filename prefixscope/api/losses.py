"""What took tokens from prompts that kept all they could: rungs of the ladder, lifetimes, and an emptied cache.

Lifetimes of hosted APIs are part of their rule, and only told apart here. A lifetime given with `--ttl` and a cache
that was emptied name causes and count what they cost; the ladder and its expected tokens do not know of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from prefixscope.breaks.resets import MeasuredMemory, emptied_at
from prefixscope.capacity.distances import memory_groups, reuse_distances
from prefixscope.engines.profile import EngineProfile
from prefixscope.errors import InputError, OptionError
from prefixscope.index.lineage import NO_TIME, UNKNOWN, Int64, Lineage
from prefixscope.results.breaks import CacheReset
from prefixscope.reuse.accounting import SIMULATED, account
from prefixscope.reuse.pools import Applied
from prefixscope.reuse.selection import duration_ns, instant_ns

__all__ = ["LossesByRung", "MemoryTold", "losses_of", "memory_told"]


@dataclass(frozen=True, slots=True)
class MemoryTold:
    """What the user knows of the cache: how long entries live after their last use, and when it was emptied. `notes`
    name what of it says nothing about this log."""

    lifetime_ns: int | None = None
    emptied_ns: tuple[int, ...] = ()
    source: str = "told"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LossesByRung:
    """Tokens lost per rung and row (None: not simulated), with the two that are no rung of the ladder, `lifetime` and
    `reset`; and when caches were emptied."""

    by_rung: Mapping[str, Int64 | None]
    resets: tuple[CacheReset, ...] = field(default_factory=tuple)


def memory_told(lineage: Lineage, ttl: str | None, reset_at: tuple[str, ...], kv_events: str | None) -> MemoryTold:
    """The options `--ttl`, `--reset-at` and `--kv-events`. Raises OptionError where times can't be read, or the log
    has none to compare with."""
    for option, said in (("--ttl", ttl), ("--reset-at", reset_at or None), ("--kv-events", kv_events)):
        if said is not None and lineage.provenance.get("input", {}).get("missing_times", 0) >= len(lineage):
            raise OptionError(f"{option}: the requests of this log carry no time")
    relative = bool(lineage.provenance.get("input", {}).get("time_is_relative"))
    given = [instant_ns("--reset-at", text, relative=relative) for text in reset_at]
    notes = ["no_reset_in_log"] if given and _outside(lineage, given) else []
    if kv_events is not None:
        if relative:
            raise OptionError("--kv-events: the times of this log count from its start, those of events do not")
        cleared = list(_cleared(kv_events))
        if _outside(lineage, cleared):
            notes.append("no_recorded_reset_in_log" if cleared else "no_reset_recorded")
        given += cleared
    lifetime = None if ttl is None else duration_ns("--ttl", ttl)
    source = "events" if kv_events and not reset_at else "told"
    return MemoryTold(lifetime, tuple(sorted(set(given))), source, tuple(notes))


def _outside(lineage: Lineage, instants: Sequence[int]) -> bool:
    """Whether none of the instants lies between two requests."""
    places = np.searchsorted(lineage.time_ns, np.array(instants, np.int64))
    return not ((places > 0) & (places < len(lineage))).any()


def _cleared(path: str) -> Iterator[int]:
    """When recorded events say that all blocks were cleared."""
    from prefixscope.engines.events import AllBlocksCleared  # events are read by few runs
    from prefixscope.ingest.event_source import EventsOptions, EventSource

    options = EventsOptions(path)
    if options.is_live:
        raise OptionError(f"--kv-events {path}: name a recording; `prefixscope events {path} --record FILE` makes one")
    for batch in EventSource(options):
        if any(isinstance(event, AllBlocksCleared) for event in batch.events):
            if batch.time_ns is None:
                raise InputError("--kv-events: the events carry no times", file=path)
            yield batch.time_ns


def losses_of(lineage: Lineage, applied: Applied, told: MemoryTold | None = None) -> LossesByRung:
    """All that took tokens from each row, and when caches were emptied, as told or as the log's measurements prove."""
    told = told or MemoryTold()
    accounting = applied.accounting
    lifetime, reset = (np.zeros(len(lineage), np.int64) for _ in range(2))
    by_rule = accounting.engine_rule.copy()
    resets: list[CacheReset] = []
    for report, profile in zip(applied.pools, applied.profiles, strict=True):
        mask = lineage.pool == lineage.pools.index(report.pool)
        own = lineage.closed_subset(mask)
        lifetime[mask] = _expired(own, profile, accounting.cached[mask], told)
        if profile.lifetime_s is not None:
            by_rule[mask] -= lifetime[mask]
        if profile.platform == "hosted":
            continue  # nobody outside can tell an emptied cache from another machine there
        if not told.emptied_ns and (own.measured_cached_tokens == UNKNOWN).all():
            continue
        for rows, members in memory_groups(own):
            places = np.flatnonzero(mask)[rows]
            lost, instants = _emptied(members, profile, accounting.expected[places], told)
            reset[places] = lost
            resets += [dataclasses.replace(one, first_row=int(places[one.first_row])) for one in instants]
    by_rung: dict[str, Int64 | None] = {rung: getattr(accounting, rung) for rung in SIMULATED}
    by_rung |= {"engine_rule": by_rule, "lifetime": lifetime, "reset": reset}
    return LossesByRung(by_rung, _merged(resets))


def _merged(resets: Sequence[CacheReset]) -> tuple[CacheReset, ...]:
    """In row order; one that several replicas went through at the same instant is told once."""
    found: dict[tuple[int, str], CacheReset] = {}
    for one in sorted(resets, key=lambda one: one.first_row):
        known = found.get((one.time_ns, one.source))
        if known is not None:
            one = dataclasses.replace(
                known, requests=known.requests + one.requests, lost_tokens=known.lost_tokens + one.lost_tokens
            )
        found[(one.time_ns, one.source)] = one
    return tuple(found.values())


def _expired(own: Lineage, profile: EngineProfile, granted: Int64, told: MemoryTold) -> Int64:
    """Tokens that a lifetime after the last use took from each row, of those the engine's rule would grant."""
    if profile.platform == "hosted" and told.lifetime_ns is not None:
        raise OptionError(f"--ttl: lifetimes are part of {profile.name}'s own rule; change them with --lifetime")
    if profile.lifetime_s is not None:
        endless = profile.rule(own, dataclasses.replace(profile, lifetime_s=None))
        return np.asarray(np.maximum(endless - granted, 0), np.int64)
    if told.lifetime_ns is None:
        return np.zeros(len(own), np.int64)
    (found,) = reuse_distances(own, [profile])
    known = (own.time_ns[found.row] != NO_TIME) & (own.time_ns[found.owner] != NO_TIME) & (found.count > 0)
    expired = known & (own.time_ns[found.row] - own.time_ns[found.owner] > told.lifetime_ns)
    alive, any_expired = np.zeros(len(own), np.int64), np.zeros(len(own), np.bool_)
    tokens = found.count * (found.unit_blocks * profile.block_size)
    np.add.at(alive, found.row[~expired], tokens[~expired])
    any_expired[found.row[expired]] = True
    # a partly matched block lies behind the deepest whole one, and is gone with it
    return np.asarray(np.where(any_expired, granted - np.minimum(granted, alive), 0), np.int64)


def _emptied(own: Lineage, profile: EngineProfile, expected: Int64, told: MemoryTold) -> tuple[Int64, list[CacheReset]]:
    """Tokens that an emptied cache took from each row of one KV memory, and when it was emptied."""

    def since(row: int) -> Int64:
        return account(own.where(np.arange(len(own)) >= row), profile).cached

    resets: list[CacheReset] = []
    left = expected.copy()
    for instant in told.emptied_ns:
        row = int(np.searchsorted(own.time_ns, instant))
        if 0 < row < len(own):
            left[row:] = np.minimum(left[row:], since(row))
            resets.append(CacheReset(instant, told.source, row, 0, 0))
    measured = np.where((own.n == 1) & own.reads_cache, own.measured_cached_tokens, UNKNOWN)
    memory = MeasuredMemory(left, measured, own.parent_row, own.sequence_tokens)
    for proof in emptied_at(memory, since):
        left = proof.expected
        resets.append(CacheReset(int(own.time_ns[proof.row]), "measured", proof.row, 0, 0))
    lost = expected - left
    resets.sort(key=lambda one: one.first_row)
    ends = [one.first_row for one in resets[1:]] + [len(own)] * bool(resets)
    counted = [
        dataclasses.replace(
            one,
            requests=int((lost[one.first_row : end] > 0).sum()),
            lost_tokens=int(lost[one.first_row : end].sum()),
        )
        for one, end in zip(resets, ends, strict=True)
    ]
    return lost, counted
