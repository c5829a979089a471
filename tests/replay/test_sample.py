"""Samples: whole families in the log's order, alike in model and length, reusing about as the log does."""

from __future__ import annotations

import random

import numpy as np
import pytest

from prefixscope.index.lineage import Labels, Lineage
from prefixscope.replay.item import SentRow, tokens_of
from prefixscope.replay.predict import lineage_of
from prefixscope.replay.sample import families_of, sample_of


def log(sessions: int, turns: int, seed: int = 0, system: int = 200, models: tuple[str, ...] = ("m",)) -> Lineage:
    """Sessions of growing prompts behind one system prompt per model, interleaved."""
    import dataclasses

    chance = random.Random(seed)
    rows, names, session_of = [], [], []
    history: dict[int, list[int]] = {}
    order = [session for session in range(sessions) for _ in range(turns)]
    chance.shuffle(order)
    for session in order:
        model = models[session % len(models)]
        prompt = history.setdefault(session, [10_000 + at for at in range(system)])
        prompt += [chance.randrange(10_000) for _ in range(chance.randrange(40, 90))]
        rows.append(SentRow((model,), tokens_of(prompt), len(prompt), len(prompt)))
        names.append(model)
        session_of.append(str(session))
    return dataclasses.replace(lineage_of(rows), model=Labels.of(names), session=Labels.of(session_of))


def slow_families(lineage: Lineage, largest: int, unit: int) -> list[list[int]]:
    """Top-down by the definition: cut all links of the weakest level until every part is small enough."""

    def parts(rows: list[int], least: int) -> list[list[int]]:
        groups = [{row} for row in rows]
        for row in rows:
            parent, level = int(lineage.parent_row[row]), int(lineage.shared_tokens[row]) // unit
            together = [other for other in rows if other == parent and level >= least]
            together += [other for other in rows if lineage.session.codes[row] == lineage.session.codes[other] >= 0]
            joined = {row, *together}
            joined = joined.union(*(group for group in groups if group & joined))
            groups = [group for group in groups if not group & joined] + [joined]
        return [sorted(group) for group in groups]

    done, waiting = [], [(list(range(len(lineage))), 1)]
    while waiting:
        rows, least = waiting.pop()
        for part in parts(rows, least):
            if len(part) <= largest or least > int(lineage.shared_tokens.max()) // unit:
                done.append(part)
            else:
                waiting.append((part, least + 1))
    return sorted(done)


@pytest.mark.parametrize("seed", range(6))
def test_families_are_those_of_the_definition(seed: int) -> None:
    chance = random.Random(seed)
    lineage = log(chance.randrange(3, 9), chance.randrange(1, 5), seed, system=chance.choice((0, 40)))
    for largest in (1, 3, 6, 100):
        assert families_of(lineage, largest, 16) == slow_families(lineage, largest, 16)


def test_sessions_go_in_whole_though_all_share_a_system_prompt() -> None:
    lineage = log(60, 5)
    sample = sample_of(lineage, 40, 16, seed=1)
    assert len(sample.rows) == 40 and list(sample.rows) == sorted(set(sample.rows))
    chosen = set(sample.rows)
    for session in range(len(lineage.session.names)):
        rows = set(np.flatnonzero(lineage.session.codes == session).tolist())
        assert rows <= chosen or not rows & chosen
    report = sample.report
    assert (report.requests, report.families, report.cut_families, report.log_requests) == (40, 8, 0, 300)
    share, of_log = report.reusable_tokens / report.prompt_tokens, report.log_reusable_tokens / report.log_prompt_tokens
    assert abs(share - of_log) < 0.1


def test_random_rows_would_lose_the_reuse_that_families_keep() -> None:
    lineage = log(100, 6, system=0)
    sample = sample_of(lineage, 60, 16)
    mask = np.zeros(len(lineage), bool)
    mask[random.Random(0).sample(range(len(lineage)), 60)] = True
    random_rows = lineage.where(mask)
    by_chance = random_rows.reusable_tokens.sum() / random_rows.prompt_tokens.sum()
    assert sample.report.reusable_tokens / sample.report.prompt_tokens > by_chance + 0.2


def test_models_and_lengths_are_there_in_proportion() -> None:
    lineage = log(80, 3, models=("big", "big", "big", "small"))
    report = sample_of(lineage, 60, 16).report
    by_model: dict[str, int] = {}
    for stratum in report.strata:
        by_model[stratum.model] = by_model.get(stratum.model, 0) + stratum.sampled_requests
        assert abs(stratum.sampled_requests - stratum.requests / 4) <= 4
    assert by_model["big"] + by_model["small"] == 60 and 12 <= by_model["small"] <= 18
    assert sum(stratum.requests for stratum in report.strata) == 240


def test_a_session_longer_than_the_sample_gives_its_first_rows() -> None:
    sample = sample_of(log(1, 30), 10, 16)
    assert sample.rows == tuple(range(10)) and sample.report.cut_families == 1


@pytest.mark.parametrize("size", [1, 2, 7, 50, 299, 300, 5000])
def test_never_more_than_asked_and_the_same_for_the_same_seed(size: int) -> None:
    lineage = log(60, 5, seed=2)
    sample = sample_of(lineage, size, 16, seed=3)
    assert 1 <= len(sample.rows) <= min(size, 300) and sample == sample_of(lineage, size, 16, seed=3)
    if size >= 300:
        assert sample.rows == tuple(range(300)) and sample.report.reusable_tokens == sample.report.log_reusable_tokens


def test_a_large_log_is_sampled_quickly() -> None:
    count = 60_000
    chance = random.Random(1)
    parents = [-1, *(chance.randrange(max(0, row - 5000), row) for row in range(1, count))]
    prompts = [2000 + row % 3000 for row in range(count)]
    shared = [0, *(chance.randrange(1, 2000) for _ in range(1, count))]
    sample = sample_of(Lineage.from_lengths(prompts, shared, parents), 200, 16)
    assert 100 <= len(sample.rows) <= 200
