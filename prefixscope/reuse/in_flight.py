"""The `in_flight` rung: requests overlap, so a prefix counts only once the engine has made it visible to others.

Still one infinite cache. Starts, ends of prefill and ends of requests are played in time order over the prefix tree
(`EngineProfile.visible` says which of them publishes a prompt); what a row shares is what is visible when it starts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from prefixscope.engines.group_states import GroupStates, paths
from prefixscope.engines.hybrid import GroupCache, grouped_hits
from prefixscope.engines.profile import EngineProfile
from prefixscope.engines.rules import SIZE_RULES
from prefixscope.index.lineage import NO_TIME, UNKNOWN, Int64, Lineage, Mask
from prefixscope.index.topology import Topology

__all__ = ["InFlight", "in_flight", "missing_times"]

PUBLISHED, START = 0, 1
"""Kinds of events, in their order at one instant."""


@dataclass(frozen=True, slots=True)
class InFlight:
    """Per row: `visible_tokens`, the longest prefix another request had made visible when the row started, and
    `cached_tokens`, what the engine's rule grants of it."""

    visible_tokens: Int64
    cached_tokens: Int64


@dataclass(frozen=True, slots=True)
class _Times:
    """When each row starts, ends its prefill, and ends; NO_TIME where not known."""

    start: list[int]
    prefilled: list[int]
    finished: list[int]

    def of(self, row: int) -> tuple[int, int, int]:
        """(start, end of prefill, end) of one row."""
        return self.start[row], self.prefilled[row], self.finished[row]


def missing_times(
    lineage: Lineage, profile: EngineProfile, service_ns: int | None = None, counted: Mask | None = None
) -> str | None:
    """Why the rung can't be simulated, in words, or None when it can.

    Rows that are not `counted` (they only warm the cache) may lack an end: what they store is visible at once.
    """
    if (lineage.time_ns == NO_TIME).any():
        return "requests without a time"
    if profile.visible == "scheduled" or service_ns is not None:
        return None
    ends = lineage.finished_ns == NO_TIME
    if profile.visible == "prefill_end":
        ends &= lineage.first_token_ns == NO_TIME
    if counted is not None:
        ends &= counted
    if ends.any():
        needed = "first_token_at or finished_at" if profile.visible == "prefill_end" else "finished_at"
        return f"{int(ends.sum()):,} requests without {needed} (--service-time gives one for them)"
    return None


def in_flight(
    lineage: Lineage,
    profile: EngineProfile,
    *,
    service_ns: int | None = None,
    max_batched_tokens: int | None = None,
    counted: Mask | None = None,
) -> InFlight | None:
    """What overlapping requests find; None where the log's times do not tell (`missing_times` says why).

    `service_ns` stands in for the time from start to end of rows that do not log it. `max_batched_tokens`: prefill runs
    in chunks of that many tokens, and with `visible == "scheduled"` only chunks scheduled so far are visible.
    Generated tokens become visible when the request ends; where no end is logged, with the prompt.
    """
    if missing_times(lineage, profile, service_ns, counted) is not None:
        return None
    times = _times(lineage, service_ns)
    if _nothing_waits(lineage, profile, times, max_batched_tokens):
        return InFlight(lineage.shared_tokens, profile.rule(lineage, profile))
    visible, grouped = _Run(lineage, profile, times, max_batched_tokens).play()
    # Nodes of hash rows end at whole symbols, the last of which may be partly filled.
    visible = np.minimum(visible, lineage.shared_tokens)
    if profile.rule is grouped_hits:
        return InFlight(visible, grouped)
    if profile.rule in SIZE_RULES:
        return InFlight(visible, profile.rule(_with_shared(lineage, visible), profile))
    # Rules that walk the tree themselves (lifetimes, slots): no more than they grant, nor than what is visible.
    unit = profile.match_unit
    limit = np.minimum(visible, lineage.prompt_tokens) // unit * unit
    return InFlight(visible, np.minimum(profile.rule(lineage, profile), limit))


def _nothing_waits(lineage: Lineage, profile: EngineProfile, times: _Times, chunk: int | None) -> bool:
    """Whether every row publishes all it has when it starts, so that overlap takes nothing."""
    if profile.visible != "scheduled" or chunk is not None:
        return False
    ended = zip(times.start, times.prefilled, times.finished, strict=True)
    longer = (lineage.sequence_tokens > lineage.prompt_tokens).tolist()
    at_once = (
        not more or max(prefilled, finished) <= start
        for more, (start, prefilled, finished) in zip(longer, ended, strict=True)
    )
    return not profile.stores_output or all(at_once)


def _times(lineage: Lineage, service_ns: int | None) -> _Times:
    start = lineage.time_ns
    finished = lineage.finished_ns
    if service_ns is not None:
        finished = np.where(finished == NO_TIME, start + service_ns, finished)
    prefilled = np.where(lineage.first_token_ns == NO_TIME, finished, lineage.first_token_ns)
    # A logged end before the start is a clock error; the row then ends when it starts.
    known = finished != NO_TIME
    finished = np.where(known, np.maximum(finished, start), NO_TIME)
    prefilled = np.where(prefilled == NO_TIME, NO_TIME, np.maximum(prefilled, start))
    return _Times(start.tolist(), prefilled.tolist(), finished.tolist())


def _with_shared(lineage: Lineage, visible: Int64) -> Lineage:
    """The same rows sharing less. Parents stay, but are no longer the rows that share exactly these tokens."""
    return dataclasses.replace(
        lineage,
        shared_tokens=visible,
        shared_prompt_tokens=np.minimum(lineage.shared_prompt_tokens, visible),
        parent_row=np.where(visible > 0, lineage.parent_row, UNKNOWN),
    )


class _Run:
    """One pass over the events of a lineage."""

    def __init__(self, lineage: Lineage, profile: EngineProfile, times: _Times, chunk: int | None) -> None:
        self._profile = profile
        self._times = times
        self._chunk = chunk
        self._paths = list(paths(Topology.of(lineage)))
        self._prompt = lineage.prompt_tokens.tolist()
        self._sequence = lineage.sequence_tokens.tolist()
        self._reads = lineage.reads_cache.tolist()
        self._seen = GroupStates()
        self._groups: GroupCache | None = None
        if profile.grouping is not None:
            self._groups = GroupCache(profile.grouping, profile.drop_units > 0, profile.lookahead_tokens)
        self._hits = [0] * len(self._paths)
        self._junctions = [0] * len(self._paths)

    def play(self) -> tuple[Int64, Int64]:
        """(visible tokens, cached tokens of models with several KV groups) of every row."""
        visible = np.zeros(len(self._paths), np.int64)
        events = [(time, START, row, 0) for row, time in enumerate(self._times.start)]
        heapify(events)
        while events:
            time, kind, row, tokens = heappop(events)
            if kind == PUBLISHED:
                self._publish(row, tokens)
                continue
            visible[row] = self._start(row)
            for when, published in self._publications(row):
                # Rows that start at the same instant come after this one, and see what it has published by then.
                if when <= time:
                    self._publish(row, published)
                else:
                    heappush(events, (when, PUBLISHED, row, published))
        return visible, np.array(self._hits, np.int64)

    def _start(self, row: int) -> int:
        """Looks the row up, and returns how many of its leading tokens are visible."""
        path, prompt = self._paths[row], self._prompt[row]
        visible = self._seen.reach(path)
        if not self._reads[row]:
            return visible
        if self._groups is not None:
            self._hits[row], self._junctions[row] = self._groups.longest_hit(path, prompt)
        else:
            unit = self._profile.match_unit
            self._hits[row] = max(min(visible, prompt - 1), 0) // unit * unit
        return visible

    def _publish(self, row: int, tokens: int) -> None:
        path = self._paths[row]
        self._seen.extend(path, tokens)
        if self._groups is not None:
            self._groups.store(path, self._prompt[row], tokens, self._hits[row], self._junctions[row])

    def _publications(self, row: int) -> Iterator[tuple[int, int]]:
        """(when, tokens visible from then on), as the profile's visibility has it."""
        profile, prompt = self._profile, self._prompt[row]
        start, prefilled, finished = self._times.of(row)
        whole = self._sequence[row] if profile.stores_output else prompt
        if profile.visible == "request_end":
            yield finished, whole
        elif profile.visible == "prefill_end":
            # Where parts of blocks match, the part is stored only when the request ends.
            first = prompt // profile.block_size * profile.block_size if profile.partial_reuse else prompt
            yield prefilled, first
            yield (prefilled if finished == NO_TIME else finished), whole
        else:
            last = start
            for last, tokens in self._chunks(row, start, prefilled):
                yield last, tokens
            yield (max(last, prefilled) if finished == NO_TIME else finished), whole

    def _chunks(self, row: int, start: int, prefilled: int) -> Iterator[tuple[int, int]]:
        """The prompt as it is scheduled: at once, or chunk by chunk, evenly spread until the prefill ends."""
        prompt, done = self._prompt[row], self._hits[row]
        if self._chunk is None or prompt - done <= self._chunk:
            yield start, prompt
            return
        steps = -(-(prompt - done) // self._chunk)
        span = steps if prefilled == NO_TIME else prefilled - start
        for step in range(steps):
            yield start + span * step // steps, min(prompt, done + (step + 1) * self._chunk)
