"""Faults, rungs and the price of isolation, as reports and rows give them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from prefixscope import api
from prefixscope.breaks.rungs import below_unit, final_causes, rung_losses_of
from prefixscope.index.lineage import BreakColumns, Labels, Lineage
from tests.breaks.situations import RULES, chat
from tests.breaks.told import CHATML
from tests.cases import case, logged, write_log, write_models
from tests.shared import needs_shared


def nothing(*_: object) -> None:
    """Progress that nobody watches."""


def explained(
    folder: Path, rows: list[dict[str, object]], template: str | None = CHATML, **options: object
) -> api.Explanation:
    models = None if template is None else str(write_models(folder, {"chat_template": template}))
    path = write_log(folder / "log.jsonl", rows)
    log = api.LogOptions((str(path),), models_file=models, render=None if template is None else "plain")
    return api.explain(api.ExplainOptions(log, what_if=(), **options), nothing)  # type: ignore[arg-type]


def lineage_with(causes: list[str], prompts: list[int], shared: list[int]) -> Lineage:
    parents = [-1 if not one else row - 1 for row, one in enumerate(shared)]
    lineage = Lineage.from_lengths(prompts, shared, parents)
    zeros = np.zeros(len(causes), np.int64)
    nobody = Labels.of([None] * len(causes))
    columns = BreakColumns(Labels.of(causes), nobody, nobody, zeros - 1, zeros - 1, zeros - 1, zeros, zeros)
    from dataclasses import replace

    return replace(lineage, breaks=columns)


def test_rungs_are_to_blame_only_where_the_prompt_is_not() -> None:
    causes = ["first_seen", "rewound", "append_only", "branched", "timestamp", "branched", "rewound"]
    lineage = lineage_with(causes, [100] * 7, [0, 100, 90, 10, 10, 64, 100])
    losses = {
        "engine_rule": np.array([0, 0, 16, 0, 0, 0, 0]), "in_flight": None,
        "routing": np.array([0, 0, 16, 0, 0, 0, 5]), "capacity": np.array([0, 64, 32, 0, 8, -1, 5]),
    }  # fmt: skip
    final = final_causes(lineage, np.full(7, 16), losses)
    assert final == [
        "first_seen", "evicted", "evicted", "shorter_than_block", "timestamp", "branched", "routed_elsewhere",
    ]  # fmt: skip
    rounding = np.array([0, 0, 0, 10, 10, 0, 0])
    assert rung_losses_of(final, losses, rounding).tolist() == [0, 64, 32, 10, 0, 0, 5]
    assert below_unit(lineage, np.full(7, 16)).tolist() == [False, False, False, True, True, False, False]


def test_answers_that_an_engine_does_not_keep() -> None:
    lineage = lineage_with(["first_seen", "append_only"], [64, 128], [0, 90])
    from dataclasses import replace

    lineage = replace(lineage, shared_prompt_tokens=np.array([0, 64]))
    losses = {"engine_rule": np.array([0, 16])}
    assert final_causes(lineage, np.full(2, 16), losses, np.array([False, False]))[1] == "not_stored"
    assert final_causes(lineage, np.full(2, 16), losses, np.array([True, True]))[1] == "engine_rule"


@needs_shared
def test_01_a_short_shared_prefix_is_no_missing_one(tmp_path: Path) -> None:
    rows = case(1)["requests"]
    for size, cause in ((16, "branched"), (784, "shorter_than_block")):
        found = explained(tmp_path, rows, None, engine=api.EngineChoice(("vllm",), block_size=size))
        assert found.rows["break_cause"] == ["first_seen", cause, cause]
        assert found.rows["below_unit"] == [False, size == 784, size == 784]
    (fault,) = found.report.faults
    assert (fault.cause, fault.requests, fault.lost_tokens) == ("shorter_than_block", 2, 480)


@needs_shared
@pytest.mark.parametrize(("blocks", "cause"), [(6, "evicted"), (12, "rewound")])
def test_36_a_miss_by_eviction_is_never_a_prompt_change(blocks: int, cause: str, tmp_path: Path) -> None:
    found = explained(
        tmp_path, case(36)["requests"], None,
        engine=api.EngineChoice(("vllm",), block_size=4), memory=api.MemoryOptions((f"{blocks}blocks",)),
    )  # fmt: skip
    assert found.rows["cached_tokens"][-1] == 8
    assert found.rows["break_cause"][-1] == cause
    assert [fault.cause for fault in found.report.faults] == (["evicted"] if cause == "evicted" else [])


@needs_shared
def test_38_a_conversation_over_two_replicas_was_routed_elsewhere(tmp_path: Path) -> None:
    rows = [{**row, "replica": f"r{number % 2}"} for number, row in enumerate(map(logged, case(38)["requests"]))]
    found = explained(tmp_path, rows, None)
    lost = found.rows["loss_routing"]
    assert sum(lost) == case(38)["expect"]["lost_to_routing_round_robin"]
    assert found.rows["break_cause"] == [
        "first_seen",
        *("routed_elsewhere" if one else "append_only" for one in lost[1:]),
    ]


@needs_shared
@pytest.mark.parametrize("number", [25, 26])
def test_the_price_of_isolation(number: int, tmp_path: Path) -> None:
    found = case(number)
    models = write_models(tmp_path, found["setup"])
    path = write_log(tmp_path / "log.jsonl", found["requests"])
    log = api.LogOptions((str(path),), models_file=None if models is None else str(models))
    report = api.explain(api.ExplainOptions(log, what_if=(found["expect"]["cause"],)), nothing).report
    again = sum(one.recomputed_tokens for one in report.isolation if one.by == "namespace")
    assert again == 100  # two requests of fifty tokens would have found everything
    (found_if,) = report.what_ifs
    ignored = [0, 48, 48, 48] if number == 25 else [0, 48, 48, 48, 48]
    assert found_if.cached_tokens_after == sum(ignored)


@needs_shared
def test_faults_group_by_place_and_count_what_they_cost(tmp_path: Path) -> None:
    rows = []
    for number in range(6):
        rows.append(chat(f"Now 10:0{number}:00. {RULES}", f"question {number}"))
        rows.append(chat(f"{RULES}\nRequest id 5a28{number}77c: be brief.", f"other question {number}"))
    report = explained(tmp_path, rows).report
    assert {(fault.cause, fault.part) for fault in report.faults} >= {
        ("timestamp", "system"),
        ("volatile_id", "system"),
    }
    assert report.lost_tokens == sum(fault.lost_tokens for fault in report.faults)
    assert sum(report.causes.values()) == 12
    assert [fault.lost_tokens for fault in report.faults] == sorted(
        (fault.lost_tokens for fault in report.faults), reverse=True
    )


@needs_shared
def test_07_counts_what_agrees_behind_the_clock(tmp_path: Path) -> None:
    found = explained(tmp_path, case(7)["requests"])
    fault = found.report.faults[0]
    assert fault.example is not None and fault.example.text_before == "m\nCurrent time is 20:37:"
    assert (fault.example.old, fault.example.new) == ("19. You are ", "52. You are ")
    rules = case(7)["requests"][0]["messages"][0]["content"].partition("19")[2]
    header = len("<|im_end|>\n<|im_start|>user\n")
    # behind the clock: the rest of the rules and the header of the question
    assert fault.example.agreed_tokens == len(rules) + header


@needs_shared
def test_text_can_be_hidden_everywhere(tmp_path: Path) -> None:
    report = explained(tmp_path, case(7)["requests"], hide_text=True).report
    example = report.faults[0].example
    assert example is not None and (example.text_before, example.old, example.new) == (None, None, None)
    assert example.first_different_token == 41
