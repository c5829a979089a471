"""Policies against the curve, their own rules on small examples, and the optimum against all cache contents."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from prefixscope.capacity.distances import reuse_distances
from prefixscope.capacity.policies import POLICIES, simulate_policy
from prefixscope.engines import EngineOptions, resolve
from prefixscope.engines.profile import EngineProfile
from prefixscope.engines.rules import whole_symbols
from prefixscope.errors import OptionError
from prefixscope.index.lineage import Lineage
from tests.capacity.logs import Request, chat_log, lineage_of, profile, random_log

ENGINES = [
    profile(4),
    profile(2, unit=4),
    profile(4, drop=1),
    profile(3, stores_output=False),
    resolve("vllm", EngineOptions(block_size=2, speculative="eagle")),
    profile(
        4, rule=whole_symbols, partial_reuse=True, recomputes_last_token=False, stores_output=False,
        unhashed_first=False,
    ),
]  # fmt: skip


def logs(count: int) -> list[list[Request]]:
    return [
        random_log(random.Random(seed), 45, longest=16) if seed % 2 else chat_log(random.Random(seed), 60, sessions=5)
        for seed in range(count)
    ]


@pytest.mark.parametrize("engine", ENGINES, ids=range(len(ENGINES)))
def test_lru_by_simulation_is_the_textbook_curve(engine: EngineProfile) -> None:
    for log in logs(14):
        if engine.partial_reuse:  # a hash trace knows whole symbols only
            log = [Request(tuple(t for token in r.prompt for t in [token] * 4), (), r.namespace) for r in log]
        lineage = lineage_of(log)
        whole = profile(
            engine.match_unit,
            **{
                name: getattr(engine, name)
                for name in ("rule", "stores_output", "partial_reuse", "recomputes_last_token", "lookahead_tokens")
            },
            drop=engine.drop_units,
        )
        (found,) = reuse_distances(lineage, [whole], "lru")
        per_unit = engine.match_unit // engine.block_size
        for units in (0, 2, 7, 15, 40, 10_000):
            run = simulate_policy("lru", lineage, engine, units * per_unit)
            assert run.cached_tokens.tolist() == found.cached_tokens(units).tolist()


@pytest.mark.parametrize("engine", ENGINES[:5], ids=range(5))
def test_optimum_is_at_least_every_policy_and_all_equal_the_rule_without_limit(engine: EngineProfile) -> None:
    for log in logs(10):
        lineage = lineage_of(log, time_ns=np.arange(len(log)) * 10**9)
        for blocks in (3, 8, 20, 41):
            best = simulate_policy("optimum", lineage, engine, blocks)
            for name in POLICIES:
                run = simulate_policy(name, lineage, engine, blocks)
                assert run.hit_units <= best.hit_units, (name, blocks)
                assert run.cached_tokens.sum() <= best.cached_tokens.sum()
        for name in (*POLICIES, "optimum"):
            run = simulate_policy(name, lineage, engine, 10**6)
            assert run.cached_tokens.tolist() == engine.rule(lineage, engine).tolist(), name
            assert run.evicted_units == 0


def best_by_search(log: list[Request], block: int, capacity: int, *, closed: bool) -> int:
    """Most hit blocks over all cache contents after every request (closed under prefixes, or any)."""
    states: dict[frozenset[object], int] = {frozenset(): 0}
    for request in log:
        keys = [(request.namespace, request.sequence[: (j + 1) * block]) for j in range(len(request.sequence) // block)]
        countable = (len(request.prompt) - 1) // block if request.reads else 0
        following: dict[frozenset[object], int] = {}
        for cache, score in states.items():
            hits = 0
            while hits < min(countable, len(keys)) and keys[hits] in cache:
                hits += 1
            at_hand = cache | set(keys)
            for size in range(min(capacity, len(at_hand)) + 1):
                for kept in itertools.combinations(sorted(at_hand, key=repr), size):
                    content = frozenset(kept)
                    if closed and any(
                        len(tokens) > block and (space, tokens[:-block]) not in content for space, tokens in kept
                    ):
                        continue
                    if score + hits > following.get(content, -1):
                        following[content] = score + hits
        states = following
    return max(states.values())


def test_optimum_is_the_best_of_all_caches_by_search() -> None:
    equal = 0
    for seed in range(60):
        rng = random.Random(seed)
        log = [
            Request(tuple(rng.randrange(2) for _ in range(rng.randrange(2, 8))), (), 0, 0, rng.random() > 0.1)
            for _ in range(6)
        ]
        for capacity in (1, 2):
            run = simulate_policy("optimum", lineage_of(log), profile(2), capacity)
            assert run.hit_units == best_by_search(log, 2, capacity, closed=False)
            closed = best_by_search(log, 2, capacity, closed=True)
            assert run.hit_units >= closed
            assert run.cached_tokens.sum() == 2 * run.hit_units
            equal += run.hit_units == closed
    assert equal >= 110, "a bound that is nearly always reached by a prefix-closed cache"


def run_of(name: str, prompts: list[tuple[int, ...]], blocks: int, seconds: list[int] | None = None) -> list[int]:
    """Hit blocks per request; one token is one block, and the last one of a prompt never counts."""
    times = np.array(seconds if seconds is not None else range(len(prompts))) * 10**9
    lineage = lineage_of([Request((*p, 999)) for p in prompts], time_ns=times)
    return simulate_policy(name, lineage, profile(1), blocks).cached_tokens.tolist()


def singles(text: str) -> list[tuple[int, ...]]:
    """One letter per request; with the last token it takes two blocks."""
    return [(ord(c),) for c in text]


def test_each_policy_keeps_what_its_rule_says() -> None:
    assert run_of("fifo", singles("abaca"), 4)[-1] == 0, "a was first in, its use does not matter"
    assert run_of("lru", singles("abaca"), 4)[-1] == 1
    assert run_of("lfu", singles("aaabcba"), 4)[-1] == 1, "a was used most"
    assert run_of("sieve", singles("abaca"), 4)[-1] == 1, "a is marked, b goes"


def test_lifetime_forgets_in_time() -> None:
    assert run_of("ttl", singles("aaa"), 100, [0, 300, 601]) == [0, 1, 0]
    assert run_of("ttl", singles("aba"), 100, [0, 200, 300]) == [0, 0, 1]


def test_lifetime_without_limit_is_a_point_of_the_lifetime_curve() -> None:
    for seed in range(25):
        rng = random.Random(seed)
        log = random_log(rng, 50)
        seconds = np.cumsum([rng.choice((0, 1, 4)) for _ in log])
        lineage = lineage_of(log, time_ns=seconds.astype(np.int64) * 10**9)
        for lifetime in (1, 5, 25):
            engine = profile(2, lifetime_s=float(lifetime))
            curve = reuse_distances(lineage, [engine])[0].lifetimes()
            run = simulate_policy("ttl", lineage, engine, 10**6)
            assert run.cached_tokens.sum() == curve.tokens_at(lifetime)


def test_priority_keeps_what_several_continued() -> None:
    header = (1, 2, 3)
    prompts = [(*header, 10), (*header, 20), *[(c, c, c, c) for c in range(50, 56)], (*header, 30)]
    assert run_of("priority", prompts, 9)[-1] == 3
    assert run_of("lru", prompts, 9)[-1] == 0


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(OptionError, match="--policy newest"):
        simulate_policy("newest", Lineage.from_lengths([5], [0], [-1]), profile(4), 5)
