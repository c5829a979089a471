"""Predictions (prefix tree, rule, pool simulator) against a block cache on real tokens; the two share no code."""

from __future__ import annotations

import random

import pytest

from prefixscope.engines import EngineOptions, resolve
from prefixscope.engines.profile import EngineProfile
from prefixscope.replay.item import SentRow, ids_of, tokens_of
from prefixscope.replay.mock_engine import MockEngine
from prefixscope.replay.predict import admission_order, predict
from tests.replay.workload import families

EndpointRows = list[tuple[str, list[int], int]]


def vllm(block_size: int) -> EngineProfile:
    return resolve("vllm@0.32", EngineOptions(block_size=block_size))


def served(rows: list[SentRow], block_size: int, blocks: int | None) -> list[int]:
    """Serves the rows one after another in the mock engine."""
    engine = MockEngine(block_size, blocks)
    cached = []
    for row in rows:
        ids = ids_of(row.tokens)
        running = engine.admit(row.namespace, ids[: row.prompt_tokens])
        assert running is not None
        for token in ids[row.prompt_tokens :]:
            assert engine.append(running, token)
        engine.release(running)
        cached.append(running.cached_tokens)
    return cached


def random_rows(count: int, seed: int) -> list[SentRow]:
    """Prompts of two namespaces; one in three goes on with generated tokens that a later prompt may begin with."""
    chance = random.Random(seed)
    rows: list[SentRow] = []
    for item in families(count, seed):
        ids = ids_of(item.tokens)
        if rows and chance.random() < 0.3:
            ids = (ids_of(chance.choice(rows[-5:]).tokens) + ids)[:900]
        output = [chance.randrange(2000) for _ in range(chance.choice((0, 0, 7, 40)))]
        namespace = (chance.choice("ab"),)
        rows.append(SentRow(namespace, tokens_of(ids + output), len(ids), len(ids) + len(output)))
    return rows


@pytest.mark.parametrize("block_size", [1, 16, 32])
@pytest.mark.parametrize("blocks", [None, 64, 200])
def test_every_row_is_exact_against_the_block_cache(block_size: int, blocks: int | None) -> None:
    rows = random_rows(150, seed=block_size)
    if blocks is not None and block_size == 1:
        blocks *= 16
    predicted = predict(rows, vllm(block_size), blocks)
    assert list(predicted.cached_tokens) == served(rows, block_size, blocks)
    assert sum(token or 0 for token in predicted.cached_tokens) > 0
    assert predicted.cache == ("infinite" if blocks is None else f"{blocks} blocks")


def test_a_memory_that_holds_everything_is_called_infinite() -> None:
    rows = random_rows(5, seed=1)
    assert predict(rows, vllm(16), 10_000).cache == "infinite"
    assert predict([], vllm(16), 10).cached_tokens == ()


def test_a_call_that_may_have_been_stored_makes_only_what_depends_on_it_unknown() -> None:
    a, b = list(range(40)), list(range(100, 140))
    rows = [SentRow((), tokens_of(ids), 40, 40) for ids in (a, b)]
    rows.insert(1, SentRow((), tokens_of([*a, *range(50, 90)]), 80, 80, stored=None))
    rows += [SentRow((), tokens_of([*a, *range(50, 90)]), 80, 80), SentRow((), tokens_of(b), 40, 40)]
    assert predict(rows, vllm(16)).cached_tokens == (0, None, 0, None, 32)


def test_where_forgetting_is_not_simulated_nothing_is_predicted() -> None:
    rows = random_rows(5, seed=1)
    profile = resolve("llama-cpp")
    assert (
        set(predict(rows, profile, 10).cached_tokens) == {None}
        and "not simulated" in predict(rows, profile, 10).why_unknown
    )
    assert None not in predict(rows, profile, None, "admission").cached_tokens


def test_a_call_that_never_reached_prefill_leaves_nothing() -> None:
    row = SentRow((), tokens_of(range(40)), 40, 40)
    never = SentRow((), tokens_of(range(40)), 40, 40, stored=False)
    assert predict([never, row, row], vllm(16)).cached_tokens == (None, 0, 32)


def test_admission_follows_the_heads_of_the_answers_else_the_time_of_sending() -> None:
    rows = [
        SentRow((), tokens_of([1]), 1, 1, sent_s=2.0, accepted_s=3.0),
        SentRow((), tokens_of([2]), 1, 1, sent_s=1.0, accepted_s=4.0),
        SentRow((), tokens_of([3]), 1, 1, sent_s=2.5),
    ]
    assert admission_order(rows, "serial") == [0, 1, 2]
    assert admission_order(rows, "admission") == [2, 0, 1]


def test_with_overlap_an_engine_that_stores_at_the_end_shares_nothing_in_flight() -> None:
    """SGLang inserts when a prefill has ended: two equal prompts at once compute both; vLLM's second one reads."""
    ids = tokens_of(range(64))
    rows = [SentRow((), ids, 64, 64, sent_s=at, first_token_s=at + 1, finished_s=at + 1) for at in (0.0, 0.1, 5.0)]
    assert predict(rows, resolve("sglang"), order="admission").cached_tokens == (0, 0, 63)
    assert predict(rows, vllm(16), order="admission").cached_tokens == (0, 48, 48)
