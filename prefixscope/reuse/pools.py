"""One engine's rules applied to every pool of a log, each with its own profile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import UNKNOWN, Int64, Lineage, Mask
from prefixscope.results import BlockSizeRow, EngineUsed, PoolReport
from prefixscope.reuse.accounting import SIMULATED, Accounting, account
from prefixscope.reuse.findings import short_prefixes
from prefixscope.reuse.ladder import ladder_of
from prefixscope.reuse.sweep import largest_unit_with_reuse, sweep
from prefixscope.reuse.totals import totals_of

__all__ = ["Applied", "Pool", "Restriction", "Restrictions", "apply_engine"]


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool as it is accounted: its rows (a lineage of their own), which of them count, and its profile."""

    name: str
    lineage: Lineage
    counted: Mask
    profile: EngineProfile
    block_sizes: tuple[BlockSizeRow, ...]


@dataclass(frozen=True, slots=True)
class Restriction:
    """One rung below the engine's rule: per row, what is cached under it alone, and how that was found.

    Without tokens the rung was not simulated, and `why` says for what reason.
    """

    rung: str
    cached_tokens: Int64 | None
    why: str


@dataclass(frozen=True, slots=True)
class Restrictions:
    """The rungs that were simulated for a pool, in any order, and the pool's capacity section."""

    rungs: tuple[Restriction, ...] = ()
    capacity: Any = None


@dataclass(frozen=True, slots=True)
class Applied:
    """Accounting in the order of the whole lineage, and a report and profile for every pool with counted rows."""

    accounting: Accounting
    pools: tuple[PoolReport, ...]
    profiles: tuple[EngineProfile, ...]


@dataclass(slots=True)
class _Whole:
    """The accounting of all rows while pools come in one by one."""

    rows: int
    columns: dict[str, Int64] = field(default_factory=dict)

    def put(self, mask: Mask, part: Accounting) -> None:
        for column in dataclasses.fields(Accounting):
            values = getattr(part, column.name)
            if values is not None:
                # Rows of pools where a rung is not simulated are unknown, not zero.
                unset = UNKNOWN if column.name in SIMULATED else 0
                whole = self.columns.setdefault(column.name, np.full(self.rows, unset, np.int64))
                whole[mask] = values


def apply_engine(
    lineage: Lineage,
    counted: Mask,
    profile_of: Callable[[Lineage, str], EngineProfile],
    block_sizes: Sequence[int],
    restrict: Callable[[Pool], Restrictions] | None = None,
) -> Applied:
    """Accounts each pool alone: pools share neither KV nor memory, so their rows form closed subsets.

    `restrict` says what finite memory, several replicas or overlap leave of a pool's reuse.
    """
    nothing = np.zeros(len(lineage), np.int64)
    whole = _Whole(len(lineage))
    whole.put(np.ones(len(lineage), np.bool_), Accounting(nothing, nothing, nothing, nothing, nothing))
    pools, profiles = [], []
    for number, name in enumerate(lineage.pools):
        mask = lineage.pool == number
        if not (mask & counted).any():
            continue
        own = lineage.closed_subset(mask)
        profile = profile_of(own, name)
        accounting = account(own, profile)
        pool = Pool(name, own, counted[mask], profile, sweep(own, profile, counted[mask], block_sizes))
        found = Restrictions() if restrict is None else restrict(pool)
        for rung in sorted(found.rungs, key=lambda rung: SIMULATED.index(rung.rung)):
            if rung.cached_tokens is not None:
                accounting = accounting.restricted(rung.rung, rung.cached_tokens)
        whole.put(mask, accounting)
        pools.append(_pool_report(pool, accounting, found))
        profiles.append(profile)
    return Applied(Accounting(**whole.columns), tuple(pools), tuple(profiles))


def _pool_report(pool: Pool, accounting: Accounting, found: Restrictions) -> PoolReport:
    lineage, profile, counted = pool.lineage, pool.profile, pool.counted
    totals = totals_of(lineage, accounting, profile, counted)
    how: Mapping[str, str] = {rung.rung: rung.why for rung in found.rungs}
    finding = short_prefixes(pool.name, lineage, profile, counted, pool.block_sizes)
    return PoolReport(
        pool=pool.name,
        models=tuple(lineage.model.names[code] for code in np.unique(lineage.model.codes).tolist() if code >= 0),
        engine=EngineUsed(
            name=profile.name,
            version=profile.version,
            block_size=profile.block_size,
            match_unit=profile.match_unit,
            speculative=profile.speculative,
            assumed=profile.assumed,
            source=profile.source,
        ),
        totals=totals,
        ladder=ladder_of(totals, profile, how),
        block_sizes=pool.block_sizes,
        largest_block_size_with_reuse=largest_unit_with_reuse(lineage, profile, counted),
        capacity=found.capacity,
        findings=() if finding is None else (finding,),
    )
