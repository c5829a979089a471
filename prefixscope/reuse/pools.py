"""One engine's rules applied to every pool of a log, each with its own profile."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import Int64, Lineage, Mask
from prefixscope.results import EngineUsed, PoolReport
from prefixscope.reuse.accounting import Accounting, account
from prefixscope.reuse.ladder import ladder_of
from prefixscope.reuse.sweep import largest_unit_with_reuse, sweep
from prefixscope.reuse.totals import totals_of

__all__ = ["Applied", "apply_engine"]


@dataclass(frozen=True, slots=True)
class Applied:
    """Accounting in the order of the whole lineage, and a report and profile for every pool with counted rows."""

    accounting: Accounting
    pools: tuple[PoolReport, ...]
    profiles: tuple[EngineProfile, ...]


def apply_engine(
    lineage: Lineage, counted: Mask, profile_of: Callable[[Lineage, str], EngineProfile], block_sizes: Sequence[int]
) -> Applied:
    """Accounts each pool alone: pools share neither KV nor memory, so their rows form closed subsets."""
    parts: list[Int64] = [np.zeros(len(lineage), np.int64) for _ in dataclasses.fields(Accounting)]
    pools, profiles = [], []
    for pool, name in enumerate(lineage.pools):
        mask = lineage.pool == pool
        if not (mask & counted).any():
            continue
        own = lineage.closed_subset(mask)
        profile = profile_of(own, name)
        accounting = account(own, profile)
        for whole, part in zip(parts, dataclasses.fields(Accounting), strict=True):
            whole[mask] = getattr(accounting, part.name)
        pools.append(_pool_report(name, own, counted[mask], profile, accounting, block_sizes))
        profiles.append(profile)
    return Applied(Accounting(*parts), tuple(pools), tuple(profiles))


def _pool_report(
    name: str,
    lineage: Lineage,
    counted: Mask,
    profile: EngineProfile,
    accounting: Accounting,
    block_sizes: Sequence[int],
) -> PoolReport:
    totals = totals_of(lineage, accounting, profile, counted)
    return PoolReport(
        pool=name,
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
        ladder=ladder_of(totals, profile),
        block_sizes=sweep(lineage, profile, counted, block_sizes),
        largest_block_size_with_reuse=largest_unit_with_reuse(lineage, profile, counted),
    )
