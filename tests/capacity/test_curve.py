"""The curves against a per-block LRU that knows nothing of lineages."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prefixscope.capacity.distances import reuse_distances
from prefixscope.engines.rules import token_granular, whole_symbols
from prefixscope.errors import OptionError
from prefixscope.index.lineage import NO_TIME, Labels, Lineage
from tests.capacity.logs import Request, chat_log, lineage_of, profile, random_log

HUGE = 10**12


def lru_hits(log: list[Request], block: int, capacity: int, *, unit: int = 0, drop: int = 0, outputs: bool = True,
             pool: int | None = None) -> list[int]:  # fmt: skip
    """Cached tokens per request of a textbook LRU; a request's blocks are touched tail first, after its look-up."""
    unit = unit or block
    stack: list[tuple[int, tuple[int, ...]]] = []
    cached = []
    for request in log:
        if pool is not None and request.pool != pool:
            continue
        tokens = request.sequence if outputs else request.prompt
        keys = [(request.namespace, tokens[: (j + 1) * block]) for j in range(len(tokens) // block)]
        resident = set(stack[:capacity])
        hit = 0
        limit = len(request.prompt) - 1 if request.reads else 0
        while (hit + 1) * block <= limit and hit < len(keys) and keys[hit] in resident:
            hit += 1
        cached.append(max(hit * block // unit - drop, 0) * unit)
        touched = set(keys)
        stack = keys + [key for key in stack if key not in touched]
    return cached


SIZES = (1, 2, 3, 8)
CAPACITIES = (0, 1, 4, 11, 30, HUGE)


@pytest.mark.parametrize("seed", range(300))
def test_textbook_curve_equals_the_per_block_lru(seed: int) -> None:
    rng = random.Random(seed)
    log = random_log(rng, rng.randrange(1, 28), longest=rng.choice((6, 25, 60)))
    lineage = lineage_of(log)
    for found in reuse_distances(lineage, [profile(size) for size in SIZES], "lru"):
        curve = found.curve()
        for capacity in CAPACITIES:
            expected = lru_hits(log, found.profile.block_size, capacity)
            assert found.cached_tokens(capacity).tolist() == expected
            assert curve.hits_at(capacity) == (sum(expected), sum(expected) // found.profile.block_size)


@pytest.mark.parametrize("seed", range(40))
def test_units_drops_pools_and_prompt_only_engines(seed: int) -> None:
    rng = random.Random(1000 + seed)
    log = random_log(rng, 25, namespaces=4, pools=2)
    lineage = lineage_of(log)
    for block, unit, drop, outputs in ((2, 6, 0, True), (2, 6, 1, True), (3, 3, 1, True), (2, 4, 2, False)):
        (found,) = reuse_distances(lineage, [profile(block, unit=unit, drop=drop, stores_output=outputs)], "lru")
        for capacity in (0, 1, 3, 7, 12, 25, HUGE):
            for pool in (0, 1):
                mine = lineage.pool == pool
                expected = lru_hits(log, block, capacity, unit=unit, drop=drop, outputs=outputs, pool=pool)
                assert found.cached_tokens(capacity)[mine].tolist() == expected
                assert found.curve(mine).hits_at(capacity)[0] == sum(expected)


def test_a_dropped_unit_is_dropped_at_every_capacity() -> None:
    for seed in range(8):
        log = random_log(random.Random(2000 + seed), 25)
        for drop in (1, 2):
            (found,) = reuse_distances(lineage_of(log), [profile(3, drop=drop)], "lru")
            for capacity in range(found.curve().largest_useful_blocks + 2):
                assert found.cached_tokens(capacity).tolist() == lru_hits(log, 3, capacity, drop=drop)


@pytest.mark.parametrize("seed", range(30))
def test_partial_reuse_counts_the_partly_matched_block(seed: int) -> None:
    log = random_log(random.Random(seed), 30)
    lineage = lineage_of(log)
    trt = profile(4, unit=1, partial_reuse=True, rule=token_granular)
    (found,) = reuse_distances(lineage, [trt], "lru")
    curve, plain = found.curve(), reuse_distances(lineage, [profile(4)], "lru")[0].curve()
    assert found.cached_tokens(HUGE).tolist() == token_granular(lineage, trt).tolist()
    at = np.arange(60)
    assert (curve.tokens_at(at) >= plain.tokens_at(at)).all()
    assert (curve.tokens_at(at) <= plain.tokens_at(at) + 3 * len(log)).all()
    assert (curve.blocks_at(at) == plain.blocks_at(at)).all()
    assert [int(found.cached_tokens(c).sum()) for c in at] == curve.tokens_at(at).tolist()


@pytest.mark.parametrize("drop", [0, 1])
@pytest.mark.parametrize("model", ["engine", "lru"])
def test_monotone_and_equal_to_the_rule_in_an_infinite_cache(model: str, drop: int) -> None:
    for seed in range(30):
        lineage = lineage_of(random_log(random.Random(seed), 40))
        (found,) = reuse_distances(lineage, [profile(2, unit=4, drop=drop)], model)  # type: ignore[arg-type]
        table = np.stack([found.cached_tokens(c) for c in (*range(60), HUGE)])
        assert (np.diff(table, axis=0) >= 0).all()
        rule = found.profile.rule(lineage, found.profile)
        assert table[-1].tolist() == rule.tolist()
        curve = found.curve()
        assert curve.tokens_at(curve.largest_useful_blocks) == curve.infinite_tokens == rule.sum()
        if curve.largest_useful_blocks:
            assert curve.tokens_at(curve.largest_useful_blocks - 1) < curve.infinite_tokens


def test_smallest_capacity_for_a_number_of_tokens() -> None:
    (found,) = reuse_distances(lineage_of(random_log(random.Random(3), 40)), [profile(2, unit=6)])
    curve = found.curve()
    values = curve.tokens_at(np.arange(curve.largest_useful_blocks + 1)).tolist()
    for tokens in (0, 1, 6, values[-1] // 2, values[-1]):
        assert curve.capacity_for(tokens) == next(c for c, v in enumerate(values) if v >= tokens)
    assert curve.capacity_for(values[-1] + 1) is None


def test_between_corners_the_curve_is_straight() -> None:
    for seed in range(10):
        (found,) = reuse_distances(lineage_of(random_log(random.Random(seed), 40)), [profile(1)])
        curve = found.curve()
        corners = curve.corners()
        everywhere = np.arange(int(corners[-1]) + 5)
        straight = np.interp(everywhere, corners, curve.tokens_at(corners))
        assert straight.tolist() == curve.tokens_at(everywhere).tolist()


def test_lifetimes_against_a_clock_per_block() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        log = random_log(rng, 30)
        seconds = np.cumsum([rng.randrange(4) for _ in log])
        lineage = lineage_of(log, time_ns=seconds.astype(np.int64) * 10**9)
        (found,) = reuse_distances(lineage, [profile(2, drop=seed % 2)])
        for lifetime in (0, 1, 5, 20, 1000):
            last_use: dict[object, int] = {}
            total = 0
            for request, now in zip(log, seconds.tolist(), strict=True):
                keys = [(request.namespace, request.sequence[: 2 * j + 2]) for j in range(len(request.sequence) // 2)]
                hit = 0
                limit = (len(request.prompt) - 1) // 2 if request.reads else 0
                while hit < limit and now - last_use.get(keys[hit], -(10**9)) <= lifetime:
                    hit += 1
                total += 2 * max(hit - seed % 2, 0)
                last_use.update(dict.fromkeys(keys, now))
            assert found.lifetimes().tokens_at(lifetime) == total
    unknown = lineage_of(log, time_ns=np.full(len(log), NO_TIME))
    curve = reuse_distances(unknown, [profile(2)])[0].lifetimes()
    assert curve.requests_without_time == len(log) and curve.tokens_at(HUGE / 1e3) == 0


def test_compiled_and_plain_walk_agree() -> None:
    lineage = lineage_of(random_log(random.Random(9), 250, longest=30))
    profiles = [profile(1), profile(3, unit=6), profile(16, drop=1), profile(4, unhashed_first=False)]
    plain = reuse_distances(lineage, profiles)
    fast = reuse_distances(lineage, profiles, compile_from=0)
    for a, b in zip(plain, fast, strict=True):
        for name in ("row", "owner", "first", "count"):
            assert getattr(a, name).tolist() == getattr(b, name).tolist()
        assert a.steps == b.steps > 0


def header_sessions(sessions: int, turns: int) -> Lineage:
    """Sessions behind one header of 64 tokens that come back in turn, each turn 32 tokens longer."""
    rows = np.arange(sessions * turns)
    turn = rows // sessions
    parent = np.where(turn > 0, rows - sessions, np.where(rows > 0, rows - 1, -1))
    shared = np.where(turn > 0, 64 + 32 * turn, np.where(rows > 0, 64, 0))
    return Lineage.from_lengths((96 + 32 * turn).tolist(), shared.tolist(), parent.tolist())


def test_round_robin_sessions_take_few_steps() -> None:
    lineage = header_sessions(2000, 10)
    (found,) = reuse_distances(lineage, [profile(16)])
    assert found.steps / len(lineage) < 20


def test_random_returns_and_combs_take_few_steps() -> None:
    rng = random.Random(1)
    sessions, rows = 3000, 30_000
    last, turn = [-1] * sessions, [0] * sessions
    parent, shared, prompt = [], [], []
    for row in range(rows):
        s = rng.randrange(sessions)
        parent.append(last[s] if turn[s] else row - 1)
        shared.append(32 + 32 * turn[s] if turn[s] else 64 if row else 0)
        prompt.append(64 + 32 * (turn[s] + 1))
        last[s], turn[s] = row, turn[s] + 1
    assert reuse_distances(Lineage.from_lengths(prompt, shared, parent), [profile(16)])[0].steps < 20 * rows
    # A comb: row i shares i tokens with the one before, and teeth are asked for again from short to long.
    teeth = 2000
    parent = [*range(-1, teeth - 1), *range(teeth)]
    shared = [*range(0, 16 * teeth, 16), *range(16, 16 * teeth + 16, 16)]
    prompt = [16 * (i + 1) for i in range(teeth)] * 2
    assert reuse_distances(Lineage.from_lengths(prompt, shared, parent), [profile(16)])[0].steps < 20 * 2 * teeth


def test_replicas_have_their_own_memory() -> None:
    log = chat_log(random.Random(1), 60)
    names = [("a", "b", None)[i % 3] for i in range(len(log))]
    lineage = lineage_of(log, replica=Labels.of(names))
    (found,) = reuse_distances(lineage, [profile(4)], "lru")
    for name in ("a", "b", None):
        rows = [i for i, n in enumerate(names) if n == name]
        expected = lru_hits([log[i] for i in rows], 4, 25)
        assert found.cached_tokens(25)[rows].tolist() == expected
    (pooled,) = reuse_distances(lineage, [profile(4)], "lru", per_replica=False)
    assert pooled.cached_tokens(25).tolist() == lru_hits(log, 4, 25)


def test_warming_rows_fill_but_do_not_count() -> None:
    log = chat_log(random.Random(2), 50)
    (found,) = reuse_distances(lineage_of(log), [profile(4)], "lru")
    second = np.arange(50) >= 25
    curve = found.curve(second)
    assert curve.requests == 25
    assert curve.hits_at(30)[0] == sum(lru_hits(log, 4, 30)[25:])


def test_an_empty_log_has_an_empty_curve() -> None:
    (found,) = reuse_distances(Lineage.from_lengths([], [], []), [profile(16)])
    assert found.curve().hits_at(5) == (0, 0) and found.curve().largest_useful_blocks == 0


def test_units_that_do_not_fit_blocks_are_refused() -> None:
    with pytest.raises(OptionError, match="--match-unit 6"):
        reuse_distances(Lineage.from_lengths([9], [0], [-1]), [profile(4, unit=6)])


def test_hash_traces_count_the_partial_last_id() -> None:
    ids = profile(512, rule=whole_symbols, partial_reuse=True, recomputes_last_token=False, stores_output=False,
                  unhashed_first=False)  # fmt: skip
    lineage = Lineage.from_lengths([700, 700, 1100], [0, 700, 512], [-1, 0, 1], sequence_tokens=[710, 750, 1100])
    (found,) = reuse_distances(lineage, [ids])
    assert [found.cached_tokens(c).tolist() for c in (0, 1, 2, 3)] == [
        [0, 0, 0],
        [0, 512, 512],
        [0, 700, 512],
        [0, 700, 512],
    ]
    curve = found.curve()
    assert curve.hits_at(1) == (1024, 2) and curve.hits_at(2) == (1212, 3) and curve.prompt_blocks == 7
