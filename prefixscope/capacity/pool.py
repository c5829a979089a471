"""The reference simulator: one KV memory of a given size, block by block, as the engine's own manager runs it.

It is slow and meant to be read: the fast curve is judged by it. Capacities are usable blocks (vLLM's
`num_gpu_blocks` without the null block). Serially it serves one request after another; with `overlap` requests start
and end at their logged times, hold their blocks while they run, and wait in line when there is no room.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from prefixscope.capacity.distances import memory_groups, stored_lineage
from prefixscope.capacity.free_queue import FreeQueueMemory
from prefixscope.capacity.job import Job, Memory
from prefixscope.capacity.leaf_priority import LeafPriorityMemory
from prefixscope.capacity.radix_memory import RadixMemory
from prefixscope.engines.profile import EngineProfile, Visibility
from prefixscope.errors import OptionError
from prefixscope.index.lineage import NO_TIME, Int64, Lineage

__all__ = ["EVICTIONS", "Job", "Memory", "PoolRun", "jobs_of", "simulate_pool"]


EVICTIONS: Mapping[str, Callable[[int, EngineProfile], Memory]] = {
    "lru": FreeQueueMemory,
    "leaf-lru": RadixMemory,
    "leaf-priority-lru": LeafPriorityMemory,
}
"""Eviction schemes by the name a profile gives."""


@dataclass(frozen=True, slots=True)
class PoolRun:
    """What one capacity gave. `refused` rows are longer than the whole memory: they read and store nothing.

    `waited` rows found no room at their logged start; `without_end` rows have no logged end and were treated as
    instantaneous. `peak_running_blocks` is the most that requests running at once occupied in one memory, a
    block that several of them share counted for each.
    """

    blocks: int
    cached_tokens: Int64
    refused: int
    evicted_blocks: int
    waited: int
    without_end: int
    peak_running_blocks: int


def simulate_pool(
    lineage: Lineage,
    profile: EngineProfile,
    blocks: int,
    *,
    overlap: bool = False,
    ends_as_logged: bool = False,
    per_replica: bool = True,
) -> PoolRun:
    """Runs every pool (each replica of it) with its own memory of `blocks` usable blocks.

    With `overlap`, a request that finds no room at its logged start ends later by as long as it waited; unless
    `ends_as_logged`, for times that were measured on this very memory and hold the waiting already.
    A request takes all its blocks, those of its answer too, when it starts, so nothing is preempted. Models with
    several KV groups are run as one group whose hits the rule bounds: an upper bound. OptionError where the profile's
    eviction has no simulation.
    """
    if profile.eviction not in EVICTIONS:
        raise OptionError(f"{profile.name}: no simulation of its eviction ({profile.eviction})")
    cached = np.zeros(len(lineage), np.int64)
    refused = evicted = waited = without_end = peak = 0
    for rows, members in memory_groups(lineage, per_replica):
        memory = EVICTIONS[profile.eviction](blocks, profile)
        run = _Clocked(memory, blocks, members, profile.visible, ends_as_logged) if overlap else _Serial(memory, blocks)
        for job in jobs_of(members, profile):
            run.arrive(job)
        run.close()
        memory.check()
        cached[rows] = run.cached
        refused += run.refused
        evicted += memory.evicted
        waited += run.waited
        without_end += run.without_end
        peak = max(peak, run.peak)
    return PoolRun(blocks, cached, refused, evicted, waited, without_end, peak)


def jobs_of(lineage: Lineage, profile: EngineProfile) -> Iterator[Job]:
    """Every row as a job, in time order; a block's key is a number that equal prefixes share."""
    parent, shared, total = (column.tolist() for column in stored_lineage(lineage, profile))
    block, ahead = profile.block_size, profile.lookahead_tokens
    tails = profile.partial_reuse and profile.recomputes_last_token
    last_child = dict(zip(parent, range(len(parent)), strict=True))
    granted = np.where(lineage.reads_cache, profile.rule(lineage, profile), 0).tolist()
    symbol = profile.partial_reuse and not profile.recomputes_last_token
    kept: dict[int, list[int]] = {}
    fresh = 0
    for t, prompt in enumerate(lineage.prompt_tokens.tolist()):
        source = kept.get(parent[t], [])
        # The same content as a whole is the same tail, too.
        whole = tails and parent[t] >= 0 and shared[t] == total[t] == total[parent[t]]
        common = len(source) if whole else min(max(shared[t] - ahead, 0) // block, len(source))
        length = -(-total[t] // block) if tails else max(total[t] - ahead, 0) // block
        keys = source[:common] + list(range(fresh, fresh + length - common))
        fresh += max(length - common, 0)
        reads = bool(lineage.reads_cache[t])
        limit = -(-prompt // block) if symbol else (prompt - int(profile.recomputes_last_token)) // block
        full = granted[t] // block
        partial = source[full] if tails and granted[t] % block and full < len(source) else -1
        complete = -(-prompt // block) if symbol else max(prompt - ahead, 0) // block
        yield Job(t, keys, min(complete, length), -(-total[t] // block), limit if reads else 0, granted[t], partial)
        if t in last_child:
            kept[t] = keys
        if parent[t] >= 0 and last_child[parent[t]] == t:
            del kept[parent[t]]


class _Serial:
    """One request after another."""

    def __init__(self, memory: Memory, blocks: int) -> None:
        self.memory, self.blocks = memory, blocks
        self.cached: list[int] = []
        self.refused = self.waited = self.without_end = self.peak = 0

    def arrive(self, job: Job) -> None:
        if job.needed > self.blocks:
            self.refused += 1
            self.cached.append(0)
            return
        cached = self.memory.start(job)
        assert cached is not None, "an idle memory has room for every request that fits at all"
        self.cached.append(cached)
        self.peak = max(self.peak, job.needed)
        self.memory.publish(job)
        self.memory.finish(job)

    def close(self) -> None:
        """Nothing is left running."""


class _Clocked:
    """Requests start, show their blocks and end at logged times; first come, first served where there is no room."""

    def __init__(
        self, memory: Memory, blocks: int, lineage: Lineage, visible: Visibility, ends_as_logged: bool
    ) -> None:
        self.memory, self.blocks, self.visible, self.ends_as_logged = memory, blocks, visible, ends_as_logged
        self.time = lineage.time_ns.tolist()
        self.first_token = lineage.first_token_ns.tolist()
        self.finished = lineage.finished_ns.tolist()
        self.cached: list[int] = [0] * len(lineage)
        self.refused = self.waited = self.without_end = self.peak = self.running = 0
        self.line: deque[Job] = deque()
        self.events: list[tuple[int, int, int, Job]] = []
        self.now = 0

    def arrive(self, job: Job) -> None:
        if self.time[job.row] != NO_TIME:
            self._run_until(self.time[job.row])
            self.now = self.time[job.row]
        if job.needed > self.blocks:
            self.refused += 1
            return
        self.line.append(job)
        self._admit()
        self.waited += bool(self.line and self.line[-1] is job)

    def close(self) -> None:
        while self.events:
            self._run_until(self.events[0][0])
        assert not self.line and not self.running

    def _admit(self) -> None:
        while self.line:
            job = self.line[0]
            cached = self.memory.start(job)
            if cached is None:
                return
            self.line.popleft()
            self.cached[job.row] = cached
            self.running += job.needed
            self.peak = max(self.peak, self.running)
            self._schedule(job)

    def _schedule(self, job: Job) -> None:
        row = job.row
        if self.visible == "scheduled":
            self.memory.publish(job)
        if self.finished[row] == NO_TIME or self.time[row] == NO_TIME:
            self.without_end += 1
            self._end(job)
            return
        end = self._later(row, self.finished[row])
        heapq.heappush(self.events, (end, 0, row, job))
        if self.visible == "prefill_end" and self.first_token[row] != NO_TIME:
            shown = min(self._later(row, self.first_token[row]), end)
            heapq.heappush(self.events, (shown, -1, row, job))

    def _later(self, row: int, logged: int) -> int:
        """When something logged of a request that starts now happens here."""
        return max(logged, self.now) if self.ends_as_logged else self.now + max(logged - self.time[row], 0)

    def _run_until(self, time: int) -> None:
        while self.events and self.events[0][0] <= time:
            self.now, kind, _, job = heapq.heappop(self.events)
            if kind:
                self.memory.publish(job)
            else:
                self._end(job)
                self._admit()

    def _end(self, job: Job) -> None:
        self.memory.publish(job)
        self.memory.finish(job)
        self.running -= job.needed
