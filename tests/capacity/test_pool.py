"""The pool simulator against a plain re-telling of vLLM's rules on token lists, and the engine curve against it."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import numpy as np
import pytest

from prefixscope.capacity.distances import reuse_distances
from prefixscope.capacity.pool import simulate_pool
from prefixscope.engines import EngineOptions, resolve
from prefixscope.engines.profile import EngineProfile
from prefixscope.engines.rules import token_granular
from prefixscope.errors import OptionError
from prefixscope.index.lineage import NO_TIME, Labels, Lineage
from tests.capacity.logs import Request, chat_log, lineage_of, profile, random_log
from tests.shared import SHARED, needs_shared

HUGE = 10**9


def vllm_pool(log: list[Request], block: int, capacity: int, *, drop: int = 0, unhashed_first: bool = True
              ) -> list[int]:  # fmt: skip
    """Free queue as a list of block numbers; `stored` remembers every copy in the order it was made."""
    free = list(range(capacity))
    stored: list[tuple[Any, int]] = []
    cached = []
    for request in log:
        tokens = request.sequence
        needed = -(-len(tokens) // block)
        if needed > capacity:
            cached.append(0)
            continue
        keys = [(request.namespace, tokens[: (j + 1) * block]) for j in range(len(tokens) // block)]
        found: list[int] = []
        for key in keys[: (len(request.prompt) - 1) // block if request.reads else 0]:
            copies = [number for content, number in stored if content == key]
            if not copies:
                break
            found.append(copies[0])
        found = found[: max(len(found) - drop, 0)]
        cached.append(len(found) * block)
        free = [number for number in free if number not in found]
        new, free = free[: needed - len(found)], free[needed - len(found) :]
        stored = [(content, number) for content, number in stored if number not in new]
        stored += list(zip(keys[len(found) :], new, strict=False))
        blocks = found + new
        hashed = blocks[: len(keys)]
        if unhashed_first:
            free = blocks[len(keys) :] + free + hashed[::-1]
        else:
            free = free + blocks[::-1]
    return cached


@pytest.mark.parametrize("seed", range(60))
def test_free_queue_equals_the_plain_retelling(seed: int) -> None:
    rng = random.Random(seed)
    log = random_log(rng, 40, longest=rng.choice((8, 30))) if seed % 2 else chat_log(rng, 60, resends=0.3)
    lineage = lineage_of(log)
    for capacity in (3, 9, 17, 33, 60):
        for drop, front in ((0, True), (0, False), (1, True)):
            run = simulate_pool(lineage, profile(4, drop=drop, unhashed_first=front), capacity)
            assert run.cached_tokens.tolist() == vllm_pool(log, 4, capacity, drop=drop, unhashed_first=front)
            assert run.refused == sum(-(-len(r.sequence) // 4) > capacity for r in log)


def wrong(lineage: Lineage, engine: EngineProfile, capacities: tuple[int, ...], model: str) -> tuple[int, int]:
    """(requests where curve and simulator differ, requests looked at)."""
    (found,) = reuse_distances(lineage, [engine], model)  # type: ignore[arg-type]
    runs = [(c, simulate_pool(lineage, engine, c)) for c in capacities]
    return sum(int((found.cached_tokens(c) != run.cached_tokens).sum()) for c, run in runs), len(runs) * len(lineage)


def tiny_chats(count: int, resends: float) -> list[Lineage]:
    """Chats whose longest request still fits the smallest memory asked for below (24 blocks of 4)."""
    return [
        lineage_of(chat_log(random.Random(seed), 150, sessions=4, header=12, turn=6, resends=resends))
        for seed in range(count)
    ]


CAPACITIES = (24, 32, 40)


@pytest.mark.parametrize("front", [True, False])
def test_engine_curve_is_the_simulator_on_chats_and_the_textbook_is_not(front: bool) -> None:
    engine = profile(4, unhashed_first=front)
    chats = tiny_chats(20, resends=0.2)
    ours = [wrong(lineage, engine, CAPACITIES, "engine") for lineage in chats]
    textbook = [wrong(lineage, engine, CAPACITIES, "lru") for lineage in chats]
    looked_at = sum(n for _, n in ours)
    print(f"unhashed first {front}: engine {sum(w for w, _ in ours)}, textbook {sum(w for w, _ in textbook)}")
    assert sum(w for w, _ in ours) <= 0.002 * looked_at
    assert sum(w for w, _ in textbook) > 4 * sum(w for w, _ in ours)


def test_engine_curve_has_a_quarter_of_the_textbook_errors_on_any_log() -> None:
    ours = textbook = 0
    for seed in range(40):
        lineage = lineage_of(random_log(random.Random(seed), 80, longest=20))
        longest = int(-(-lineage.sequence_tokens.max() // 4))
        capacities = tuple(longest + extra for extra in (0, 4, 12))
        ours += wrong(lineage, profile(4), capacities, "engine")[0]
        textbook += wrong(lineage, profile(4), capacities, "lru")[0]
    print(f"random logs: engine {ours}, textbook {textbook}")
    assert 4 * ours <= textbook


def test_speculative_drop_difference_is_measured() -> None:
    """Which copy of a dropped block is touched depends on the capacity, so one pass can't be exact then."""
    chats = tiny_chats(12, resends=0.1)
    ours, textbook = (
        sum(wrong(lineage, profile(4, drop=1), CAPACITIES, model)[0] for lineage in chats)
        for model in ("engine", "lru")
    )
    looked_at = len(chats) * len(chats[0]) * len(CAPACITIES)
    print(f"dropped block: engine {ours / looked_at:.4f}, textbook {textbook / looked_at:.4f} of requests differ")
    assert 0 < ours < 0.1 * looked_at and ours < 0.75 * textbook


def test_speculative_drop_fades_on_larger_pools() -> None:
    rng = random.Random(5)
    lineage = lineage_of(chat_log(rng, 500, sessions=40, header=40, turn=30, resends=0.05))
    engine = profile(4, drop=1)
    (found,) = reuse_distances(lineage, [engine])
    for capacity in (600, 1200):
        run = simulate_pool(lineage, engine, capacity)
        ours = int(found.cached_tokens(capacity).sum())
        assert abs(ours - run.cached_tokens.sum()) < 0.01 * lineage.prompt_tokens.sum()


@pytest.mark.parametrize("seed", range(20))
def test_an_unlimited_pool_gives_what_the_rule_gives(seed: int) -> None:
    lineage = lineage_of(random_log(random.Random(seed), 50))
    engines = [
        profile(4),
        profile(2, unit=6, drop=1),
        profile(3, stores_output=False),
        profile(1, eviction="leaf-lru"),
        profile(4, eviction="leaf-lru"),
        profile(4, eviction="leaf-priority-lru"),
        profile(4, unit=1, eviction="leaf-priority-lru", partial_reuse=True, rule=token_granular),
        resolve("vllm", EngineOptions(block_size=2, speculative="eagle")),
        resolve("sglang", EngineOptions(block_size=2, speculative="eagle")),
    ]
    for engine in engines:
        run = simulate_pool(lineage, engine, 5000)
        assert run.cached_tokens.tolist() == engine.rule(lineage, engine).tolist(), engine
        assert run.evicted_blocks == 0


@pytest.mark.parametrize("name", ["lru", "leaf-lru", "leaf-priority-lru"])
def test_small_pools_never_beat_the_rule_and_keep_their_books(name: str) -> None:
    for seed in range(20):
        lineage = lineage_of(random_log(random.Random(seed), 60))
        for capacity in (5, 20, 60):
            engine = profile(2, eviction=name)
            run = simulate_pool(lineage, engine, capacity)
            assert (run.cached_tokens <= engine.rule(lineage, engine)).all()


def aligned(log: list[Request], block: int) -> list[Request]:
    """Prompts longer by one whole block of new tokens each, no output: no partly filled block, no full hit."""
    return [
        Request(r.prompt[: len(r.prompt) // block * block] + tuple(range(10_000 + i * block, 10_000 + (i + 1) * block)))
        for i, r in enumerate(log)
    ]


def test_leaf_priority_without_partial_blocks_is_the_textbook() -> None:
    for seed in range(20):
        lineage = lineage_of(aligned(random_log(random.Random(seed), 60, non_readers=0), 4))
        engine = profile(4, eviction="leaf-priority-lru")
        (found,) = reuse_distances(lineage, [engine], "lru")
        longest = int(lineage.sequence_tokens.max() // 4)
        for capacity in (longest, longest + 5, longest + 20):
            assert (
                simulate_pool(lineage, engine, capacity).cached_tokens.tolist()
                == found.cached_tokens(capacity).tolist()
            )


def test_radix_evicts_a_whole_leaf_and_the_answer_before_the_prompt() -> None:
    first = Request(tuple(range(6)), tuple(range(100, 105)))
    other = Request(tuple(range(50, 53)))
    log = [first, other, Request((*range(6), 9)), other]
    lineage = lineage_of(log)
    radix = profile(1, eviction="leaf-lru")
    # 10 pages of the first request, split at its prompt; 3 new ones need 1 page more than 12: the answer goes whole.
    assert simulate_pool(lineage, radix, 12).cached_tokens.tolist() == [0, 0, 6, 2]
    assert simulate_pool(lineage, radix, 12).evicted_blocks == 4
    assert simulate_pool(lineage, profile(1), 12).evicted_blocks > 0
    # With 8 pages the prompt of the first request has to go, too, and again for the last request.
    assert simulate_pool(lineage_of(log[:3]), radix, 10).cached_tokens.tolist() == [0, 0, 6]
    again = lineage_of([first, Request(tuple(range(50, 58))), first])
    assert simulate_pool(again, radix, 10).cached_tokens.tolist() == [0, 0, 0]


SECOND = 10**9


def timed(log: list[Request], start: list[float], first: list[float], end: list[float]) -> Lineage:
    columns = {
        name: np.array([int(x * SECOND) for x in values], np.int64)
        for name, values in (("time_ns", start), ("first_token_ns", first), ("finished_ns", end))
    }
    return lineage_of(log, **columns)


def test_overlap_shares_when_the_engine_shows_blocks() -> None:
    same = Request(tuple(range(40)), (1, 2))
    lineage = timed([same, same, same], [0, 1, 6], [5, 6, 7], [10, 11, 12])
    for visible, expected in (("scheduled", [0, 32, 32]), ("prefill_end", [0, 0, 32]), ("request_end", [0, 0, 0])):
        run = simulate_pool(lineage, profile(16, visible=visible), 100, overlap=True)
        assert run.cached_tokens.tolist() == expected, visible
    assert run.peak_running_blocks == 9


def test_running_requests_pin_their_blocks_and_others_wait() -> None:
    a, b = Request(tuple(range(40))), Request(tuple(range(100, 140)))
    lineage = timed([a, b, a], [0, 1, 2], [1, 2, 3], [10, 20, 30])
    run = simulate_pool(lineage, profile(4), 25, overlap=True)
    assert run.waited == 0 and run.cached_tokens.tolist() == [0, 0, 36]
    run = simulate_pool(lineage, profile(4), 12, overlap=True)
    # b waits for a's end and the third for b's: by then a's blocks are gone but for two.
    assert run.waited == 2 and run.peak_running_blocks == 10
    assert run.cached_tokens.tolist() == [0, 0, 8]


@pytest.mark.parametrize("name", ["lru", "leaf-lru", "leaf-priority-lru"])
@pytest.mark.parametrize("visible", ["scheduled", "prefill_end", "request_end"])
def test_without_overlap_the_clock_changes_nothing(name: str, visible: str) -> None:
    log = chat_log(random.Random(4), 80)
    n = len(log)
    lineage = timed(log, list(range(n)), [t + 0.2 for t in range(n)], [t + 0.9 for t in range(n)])
    engine = profile(4, eviction=name, visible=visible)
    serial, clocked = (simulate_pool(lineage, engine, 45, overlap=overlap) for overlap in (False, True))
    assert serial.cached_tokens.tolist() == clocked.cached_tokens.tolist()
    assert clocked.waited == clocked.without_end == 0


def test_ends_measured_on_this_memory_hold_the_waiting_already() -> None:
    """The second waits for the first until 10 and ends at 20 as measured, not at 29: the third finds room at 21."""
    a, b, c = (Request(tuple(range(start, start + 40))) for start in (0, 100, 200))
    lineage = timed([a, b, c], [0, 1, 21], [1, 11, 22], [10, 20, 30])
    for ends_as_logged, waited in ((False, 2), (True, 1)):
        run = simulate_pool(lineage, profile(4), 12, overlap=True, ends_as_logged=ends_as_logged)
        assert run.waited == waited and run.cached_tokens.tolist() == [0, 0, 0]


def test_rows_without_an_end_are_instantaneous_and_counted() -> None:
    log = chat_log(random.Random(4), 30)
    lineage = lineage_of(log, finished_ns=np.full(30, NO_TIME))
    run = simulate_pool(lineage, profile(4), 45, overlap=True)
    assert run.without_end == 30
    assert run.cached_tokens.tolist() == simulate_pool(lineage, profile(4), 45).cached_tokens.tolist()


def test_random_overlap_keeps_the_books() -> None:
    for seed in range(12):
        rng = random.Random(seed)
        log = random_log(rng, 60)
        start = sorted(rng.random() * 30 for _ in log)
        lineage = timed(log, start, [t + 0.5 for t in start], [t + 0.5 + rng.random() * 4 for t in start])
        for name in ("lru", "leaf-lru", "leaf-priority-lru"):
            engine = profile(2, eviction=name, visible=rng.choice(("scheduled", "prefill_end", "request_end")))
            run = simulate_pool(lineage, engine, 70, overlap=True)
            assert (run.cached_tokens < lineage.prompt_tokens).all() and run.refused == 0


def test_unknown_eviction_is_refused() -> None:
    with pytest.raises(OptionError, match="no simulation"):
        simulate_pool(Lineage.from_lengths([5], [0], [-1]), profile(4, eviction="clock"), 5)


@needs_shared
def test_case_36_a_burst_evicts_the_hot_prefix() -> None:
    case = json.loads((SHARED / "cases" / "36-burst-evicts-the-hot-prefix.json").read_text())
    lineage = lineage_of([Request(tuple(r["prompt_token_ids"])) for r in case["requests"]])
    engine = profile(case["setup"]["block_size"])
    (found,) = reuse_distances(lineage, [engine])
    for capacity, cached in case["expect"]["cached_tokens_by_capacity_blocks"].items():
        blocks = HUGE if capacity == "infinite" else int(capacity)
        assert found.cached_tokens(blocks).tolist() == cached
        assert simulate_pool(lineage, engine, min(blocks, 500)).cached_tokens.tolist() == cached
    older = profile(4, unhashed_first=False)
    expected = case["expect"]["capacity_9_if_unhashed_tail_blocks_queue_like_others"]
    assert reuse_distances(lineage, [older])[0].cached_tokens(9).tolist() == expected
    assert simulate_pool(lineage, older, 9).cached_tokens.tolist() == expected


@needs_shared
def test_case_38_one_conversation_on_one_and_on_two_replicas() -> None:
    case = json.loads((SHARED / "cases" / "38-one-conversation-over-two-replicas.json").read_text())
    log = [Request(tuple(r["prompt_token_ids"])) for r in case["requests"]]
    engine = profile(case["setup"]["block_size"])
    expected = case["expect"]["cached_tokens_by_policy"]
    assert reuse_distances(lineage_of(log), [engine])[0].cached_tokens(HUGE).tolist() == expected["single"]
    spread = lineage_of(log, replica=Labels.of(["a", "b"] * 2))
    assert reuse_distances(spread, [engine])[0].cached_tokens(HUGE).tolist() == expected["round_robin"]
    assert simulate_pool(spread, engine, 500).cached_tokens.tolist() == expected["round_robin"]


def test_a_million_blocks_take_seconds_not_minutes() -> None:
    turns, sessions = 25, 16
    rows = np.arange(turns * sessions)
    turn = rows // sessions
    parent = np.where(turn > 0, rows - sessions, np.where(rows > 0, rows - 1, -1))
    shared = np.where(turn > 0, 4096 * turn, np.where(rows > 0, 2048, 0))
    lineage = Lineage.from_lengths((4096 * (turn + 1)).tolist(), shared.tolist(), parent.tolist())
    begun = time.perf_counter()
    simulate_pool(lineage, resolve("vllm"), 60_000)
    took = time.perf_counter() - begun
    blocks = int(lineage.sequence_tokens.sum()) // 16
    print(f"{blocks / took / 1e6:.2f} M blocks/s")
    assert blocks > 1_000_000 and took < 10
