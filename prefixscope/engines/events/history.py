"""What an engine held at a time: the lifetimes of cached blocks, from the stored, removed and cleared events.

Events say nothing of hits. Several copies of one block may exist (vLLM stores the last block of a repeated prompt
again); a block is held as long as one copy is. With vLLM's `kv_cache_report_mode: "full"` reused blocks are reported
as stored again, so copies are over-counted there and ends are seen late or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from prefixscope.engines.events.records import AllBlocksCleared, BlockRemoved, BlockStored, EventBatch, EventHash

__all__ = ["BlockLifetime", "CacheHistory", "HistoryRecorder", "SequenceGap", "cache_history", "publisher_restarted"]

End = Literal["removed", "cleared", "restart"]
Place = tuple[int | None, str | None, int | None, EventHash]


@dataclass(frozen=True, slots=True)
class BlockLifetime:
    """One stay of a block in a cache. Batch numbers count from 0 in reading order; `ended_*` are None while held."""

    hash: EventHash
    rank: int | None
    medium: str | None
    group: int | None
    stored_batch: int
    stored_ns: int | None
    ended_batch: int | None = None
    ended_ns: int | None = None
    ended_by: End | None = None

    def held_at(self, time_ns: int) -> bool | None:
        """Whether a copy was held at a time; None where the events carry no times."""
        if self.stored_ns is None or (self.ended_batch is not None and self.ended_ns is None):
            return None
        return self.stored_ns <= time_ns and (self.ended_ns is None or time_ns < self.ended_ns)


@dataclass(frozen=True, slots=True)
class SequenceGap:
    """Messages of a rank that never arrived: what they stored or removed is unknown."""

    rank: int | None
    first_missing: int
    last_missing: int


@dataclass(frozen=True, slots=True)
class CacheHistory:
    """Lifetimes in order of storing, and what makes them uncertain.

    `removals_of_unknown`: removed blocks never seen stored (the recording began later, or messages are missing).
    `repeated_batches` were delivered twice and counted once. `restarts`: the publisher began to count anew.
    """

    lifetimes: tuple[BlockLifetime, ...]
    gaps: tuple[SequenceGap, ...]
    batches: int
    blocks_stored: int
    blocks_removed: int
    clears: int
    restarts: int
    repeated_batches: int
    removals_of_unknown: int
    unknown_events: tuple[str, ...]

    def held_at(self, time_ns: int) -> list[BlockLifetime]:
        """The blocks held at a time (nanoseconds UTC of the publisher's clock)."""
        return [lifetime for lifetime in self.lifetimes if lifetime.held_at(time_ns)]

    def held_at_end(self) -> list[BlockLifetime]:
        """The blocks held after the last batch."""
        return [lifetime for lifetime in self.lifetimes if lifetime.ended_batch is None]


@dataclass(slots=True)
class _Replay:
    """Applies events one after another; `order` keeps open and closed lifetimes by order of storing."""

    order: list[BlockLifetime] = field(default_factory=list)
    open: dict[Place, tuple[int, int]] = field(default_factory=dict)
    gaps: list[SequenceGap] = field(default_factory=list)
    last: dict[int | None, tuple[int, int | None]] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    stored: int = 0
    removed: int = 0
    clears: int = 0
    restarts: int = 0
    repeated: int = 0
    removals_of_unknown: int = 0

    def apply(self, number: int, batch: EventBatch) -> bool:
        if not self._follows(number, batch):
            self.repeated += 1
            return False
        self.unknown.extend(batch.unknown)
        for event in batch.events:
            if isinstance(event, BlockStored):
                self._store(number, batch, event)
            elif isinstance(event, BlockRemoved):
                self._remove(number, batch, event)
            else:
                assert isinstance(event, AllBlocksCleared)
                self.clears += 1
                self._end_all(number, batch, "cleared")
        return True

    def _follows(self, number: int, batch: EventBatch) -> bool:
        """Notes gaps and restarts; False for a message that was already seen."""
        sequence = batch.sequence
        if sequence is None:
            return True
        before = self.last.get(batch.rank)
        expected = 0 if before is None else before[0] + 1
        if sequence < expected:
            assert before is not None  # without an earlier message nothing is expected but 0
            if not publisher_restarted(batch, before[1]):
                return False
            self.restarts += 1
            self._end_all(number, batch, "restart")
            expected = 0
        if sequence > expected:
            self.gaps.append(SequenceGap(batch.rank, expected, sequence - 1))
        self.last[batch.rank] = (sequence, batch.time_ns)
        return True

    def _store(self, number: int, batch: EventBatch, event: BlockStored) -> None:
        for value in event.hashes:
            self.stored += 1
            place = (batch.rank, event.medium, event.group, value)
            index, copies = self.open.get(place, (len(self.order), 0))
            if copies == 0:
                self.order.append(BlockLifetime(value, batch.rank, event.medium, event.group, number, batch.time_ns))
            self.open[place] = (index, copies + 1)

    def _remove(self, number: int, batch: EventBatch, event: BlockRemoved) -> None:
        for value in event.hashes:
            self.removed += 1
            place = (batch.rank, event.medium, event.group, value)
            if place not in self.open:
                self.removals_of_unknown += 1
                continue
            index, copies = self.open[place]
            if copies > 1:
                self.open[place] = (index, copies - 1)
            else:
                del self.open[place]
                self._end(index, number, batch, "removed")

    def _end_all(self, number: int, batch: EventBatch, end: End) -> None:
        for place in [place for place in self.open if place[0] == batch.rank]:
            index, _ = self.open.pop(place)
            self._end(index, number, batch, end)

    def _end(self, index: int, number: int, batch: EventBatch, end: End) -> None:
        begun = self.order[index]
        self.order[index] = BlockLifetime(
            begun.hash,
            begun.rank,
            begun.medium,
            begun.group,
            begun.stored_batch,
            begun.stored_ns,
            number,
            batch.time_ns,
            end,
        )


def publisher_restarted(batch: EventBatch, last_ns: int | None) -> bool:
    """Whether a batch numbered lower than expected comes from a publisher that began anew, not from a repetition.

    A repetition is as old as its number; where no times are given only number 0 tells.
    """
    if batch.time_ns is None or last_ns is None:
        return batch.sequence == 0
    return batch.time_ns > last_ns


class HistoryRecorder:
    """Keeps the history of batches that pass by once, such as those of a live engine."""

    def __init__(self) -> None:
        self._replay = _Replay()
        self._batches = 0

    def add(self, batch: EventBatch) -> bool:
        """Takes the next batch (per rank in the order of sequence numbers); False for one that was seen before."""
        self._batches += 1
        return self._replay.apply(self._batches - 1, batch)

    def watch(self, batches: Iterable[EventBatch]) -> Iterator[EventBatch]:
        """The batches as they come, each recorded first; repeated ones are left out."""
        return (batch for batch in batches if self.add(batch))

    def history(self) -> CacheHistory:
        """What was held when, as far as the batches seen."""
        replay = self._replay
        return CacheHistory(
            lifetimes=tuple(replay.order),
            gaps=tuple(replay.gaps),
            batches=self._batches,
            blocks_stored=replay.stored,
            blocks_removed=replay.removed,
            clears=replay.clears,
            restarts=replay.restarts,
            repeated_batches=replay.repeated,
            removals_of_unknown=replay.removals_of_unknown,
            unknown_events=tuple(sorted(set(replay.unknown))),
        )


def cache_history(batches: Iterable[EventBatch]) -> CacheHistory:
    """Replays the batches in the order given (per rank: the order of their sequence numbers)."""
    recorder = HistoryRecorder()
    for batch in batches:
        recorder.add(batch)
    return recorder.history()
