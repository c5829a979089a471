"""What was held when: against a plain replay with a multiset, and the uncertain cases one by one."""

from __future__ import annotations

import random
from collections import Counter

from prefixscope.engines.events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    EventBatch,
    SequenceGap,
    cache_history,
)
from prefixscope.engines.events.records import KVEvent


def stored(*hashes: int) -> BlockStored:
    return BlockStored(hashes, None, b"", 16, medium="GPU")


def removed(*hashes: int) -> BlockRemoved:
    return BlockRemoved(hashes, "GPU")


def batch(sequence: int | None, *events: KVEvent, at: int | None = None, rank: int | None = None) -> EventBatch:
    return EventBatch(events, sequence, at if at is not None else (sequence or 0) * 10, rank)


def test_held_blocks_equal_a_multiset_replayed_to_any_time() -> None:
    draw = random.Random(3)
    for _ in range(60):
        batches = []
        for sequence in range(draw.randrange(1, 30)):
            events: list[KVEvent] = []
            for _ in range(draw.randrange(3)):
                hashes = [draw.randrange(6) for _ in range(draw.randrange(1, 4))]
                kind = draw.random()
                event = stored(*hashes) if kind < 0.6 else removed(*hashes)
                events.append(AllBlocksCleared() if kind < 0.05 else event)
            batches.append(batch(sequence, *events))
        history = cache_history(batches)
        held: Counter[int] = Counter()
        unknown = 0
        for number, one in enumerate(batches):
            for event in one.events:
                if isinstance(event, BlockStored):
                    held.update(event.hashes)  # type: ignore[arg-type]
                elif isinstance(event, AllBlocksCleared):
                    held.clear()
                else:
                    for value in event.hashes:
                        assert isinstance(value, int)
                        unknown += held[value] == 0
                        held[value] = max(0, held[value] - 1)
            known = sorted(value for value, copies in held.items() if copies)
            assert sorted(lifetime.hash for lifetime in history.held_at(number * 10)) == known  # type: ignore[type-var]
        assert sorted(lifetime.hash for lifetime in history.held_at_end()) == known  # type: ignore[type-var]
        assert history.removals_of_unknown == unknown


def test_the_last_of_several_copies_ends_a_stay() -> None:
    history = cache_history([batch(0, stored(1)), batch(1, stored(1)), batch(2, removed(1)), batch(3, removed(1))])
    (stay,) = history.lifetimes
    assert (stay.stored_batch, stay.ended_batch, stay.ended_by) == (0, 3, "removed")


def test_ranks_and_tiers_are_separate_caches() -> None:
    lower = BlockStored((1,), None, b"", 16, medium="CPU")
    first, second = batch(0, stored(1), rank=0), batch(0, stored(1), rank=1)
    history = cache_history([first, second, batch(1, lower, rank=1), batch(2, removed(1), rank=1)])
    assert [(stay.rank, stay.medium) for stay in history.held_at_end()] == [(0, "GPU"), (1, "CPU")]
    assert history.gaps == ()


def test_missing_messages_are_gaps_and_repeated_ones_count_once() -> None:
    history = cache_history([batch(2, stored(1)), batch(3, stored(2)), batch(2, stored(1)), batch(7, removed(1))])
    assert history.gaps == (SequenceGap(None, 0, 1), SequenceGap(None, 4, 6))
    assert history.repeated_batches == 1
    assert [stay.hash for stay in history.held_at_end()] == [2]


def test_a_restarted_publisher_holds_nothing_of_before() -> None:
    for second_run in (batch(0, stored(9), at=1000), batch(3, stored(9), at=1000)):
        history = cache_history([batch(0, stored(1)), batch(5, stored(2)), second_run])
        assert history.restarts == 1
        assert [stay.hash for stay in history.held_at_end()] == [9]
        assert {stay.ended_by for stay in history.lifetimes[:2]} == {"restart"}


def test_without_times_nobody_knows_what_was_held_when() -> None:
    untimed = EventBatch((stored(1),), 0, None)
    history = cache_history([untimed, EventBatch((), 1, None), EventBatch((stored(2),), 0, None)])
    assert history.lifetimes[0].held_at(5) is None
    assert history.restarts == 1, "number 0 again is all that tells"
