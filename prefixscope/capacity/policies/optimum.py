"""The clairvoyant optimum: no cache can find more blocks, whatever it evicts."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from prefixscope.capacity.distances import memory_groups
from prefixscope.capacity.job import Job
from prefixscope.capacity.policies.base import TELL_EVERY, PolicyRun, grid_of
from prefixscope.capacity.pool import jobs_of
from prefixscope.engines.profile import EngineProfile
from prefixscope.index.lineage import Int64, Lineage

__all__ = ["OPTIMUM_OF", "optimum"]

NEVER = 1 << 62


OPTIMUM_OF = (
    "the most units any cache of this size can find that gets units only from the request just served and may decline "
    "to store; it knows the future"
)
"""What the optimum is an optimum of, in a sentence."""


def optimum(
    lineage: Lineage, profile: EngineProfile, blocks: int, *, per_replica: bool = True,
    served: Callable[[int], None] | None = None,
) -> PolicyRun:  # fmt: skip
    """The most match units that any cache of this size can find, knowing the future (Belady 1966, with bypass).

    It is the optimum over all caches that (1) hold at most C units between two requests, (2) get units only from the
    request just served (no prefetch), and (3) may decline to store. They need not be closed under prefixes, but the
    units found are always leading ones: of units needed at the same time the deepest goes first. So it bounds every
    prefix-closed cache from above, and is reached by one unless a request ends inside a prefix that was to be dropped.
    Units dropped for speculative decoding are taken as free of memory, which makes it a bound, not an optimum, there.
    A partly filled last unit of a hash trace counts as a whole unit when choosing.
    """
    grid, units = grid_of(profile, blocks)
    cached = np.zeros(len(lineage), np.int64)
    hits = gone = 0
    for rows, members in memory_groups(lineage, per_replica):
        jobs = list(jobs_of(members, grid))
        found, dropped = _serve(jobs, grid, units, served)
        granted = np.array([job.granted for job in jobs], np.int64)
        cached[rows] = np.minimum(found * grid.block_size, granted)
        hits += int(found.sum())
        gone += dropped
    return PolicyRun("optimum", blocks, cached, hits, gone)


def _countable(job: Job, profile: EngineProfile) -> range:
    """Places in the request's path whose units would count when found."""
    most = -(-job.granted // profile.block_size)
    if not most:
        return range(0)
    return range(profile.drop_units, min(job.limit, most + profile.drop_units, len(job.keys)))


def _serve(
    jobs: list[Job], profile: EngineProfile, units: int, served: Callable[[int], None] | None
) -> tuple[Int64, int]:
    found = np.zeros(len(jobs), np.int64)
    dropped = 0
    kept: dict[int, int] = {}
    furthest: list[tuple[int, int, int]] = []
    for job, upcoming in zip(jobs, _next_uses(jobs, profile), strict=True):
        hits = 0
        for depth, (key, row) in enumerate(zip(job.keys, upcoming, strict=True)):
            if kept.pop(key, None) == job.row:
                hits += 1
            if row != NEVER:
                kept[key] = row
                heapq.heappush(furthest, (-row, -depth, key))
        found[job.row] = hits
        if served is not None and job.row % TELL_EVERY == TELL_EVERY - 1:
            served(TELL_EVERY)
        while len(kept) > units:
            row, _, key = heapq.heappop(furthest)
            if kept.get(key) == -row:
                del kept[key]
                dropped += 1
    return found, dropped


def _next_uses(jobs: list[Job], profile: EngineProfile) -> list[list[int]]:
    """Per request and unit: the row that uses it next, if finding it there counts, else NEVER.

    Where it does not count, the unit is computed and could be stored again, so keeping it until then gains nothing.
    """
    upcoming: dict[int, int] = {}
    uses: list[list[int]] = []
    for job in reversed(jobs):
        uses.append([upcoming.get(key, NEVER) for key in job.keys])
        counted = _countable(job, profile)
        for place, key in enumerate(job.keys):
            upcoming[key] = job.row if place in counted else NEVER
    uses.reverse()
    return uses
