"""What lifetimes and resets took: named from the profile, from what the user tells, from events and measurements."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prefixscope import api
from prefixscope.breaks.resets import MeasuredMemory, emptied_at
from prefixscope.cli.main import main
from prefixscope.errors import OptionError
from prefixscope.index.lineage import UNKNOWN
from prefixscope.report.words_breaks import NOTES
from tests.cases import write_log


def nothing(*_: object) -> None:
    """Progress that nobody watches."""


def at(minutes: float) -> str:
    seconds = round(minutes * 60) + 3600
    return f"2026-04-07T{7 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}Z"


def asked(minutes: float, first: int, length: int, **fields: Any) -> dict[str, Any]:
    return {"prompt_token_ids": list(range(first, first + length)), "timestamp": at(minutes), **fields}


def explained(folder: Path, rows: list[dict[str, Any]], engine: str = "vllm", **options: Any) -> api.Explanation:
    choice = api.EngineChoice((engine,), **options.pop("choice", {}))
    log = api.LogOptions((str(write_log(folder / "log.jsonl", rows)),))
    return api.explain(api.ExplainOptions(log, choice, what_if=(), **options), nothing)


def causes(found: api.Explanation) -> list[str]:
    return list(found.rows["break_cause"])


RESENT = [asked(0, 0, 2048), asked(3, 0, 2049), asked(20, 0, 2050), asked(22, 0, 2051)]


def test_a_hosted_lifetime_that_ran_out_is_named(tmp_path: Path) -> None:
    found = explained(tmp_path, RESENT, "openai")
    assert causes(found) == ["first_seen", "append_only", "ttl_expired", "append_only"]
    (fault,) = found.report.faults
    assert (fault.cause, fault.requests) == ("ttl_expired", 1)
    endless = explained(tmp_path, RESENT, "openai", choice={"lifetime": "1h"})
    assert causes(endless) == ["first_seen", "append_only", "append_only", "append_only"]
    assert fault.lost_tokens == endless.rows["cached_tokens"][2] - found.rows["cached_tokens"][2] == 2048


def test_a_lifetime_given_with_ttl_takes_what_is_older(tmp_path: Path) -> None:
    found = explained(tmp_path, RESENT, ttl="10m")
    assert causes(found) == ["first_seen", "append_only", "ttl_expired", "append_only"]
    (fault,) = found.report.faults
    assert fault.lost_tokens == 2048 == found.rows["cached_tokens"][2]
    assert causes(explained(tmp_path, RESENT, ttl="30m"))[2] == "append_only"
    with pytest.raises(OptionError, match="--lifetime"):
        explained(tmp_path, RESENT, "anthropic", ttl="10m")


def test_only_the_part_that_is_too_old_expires(tmp_path: Path) -> None:
    rows = [asked(0, 0, 64), asked(8, 0, 32), asked(12, 0, 64)]
    found = explained(tmp_path, rows, ttl="10m")
    assert causes(found)[2] == "ttl_expired"
    assert found.report.faults[0].lost_tokens == 48 - 32


def test_a_told_reset_leaves_what_came_since(tmp_path: Path) -> None:
    found = explained(tmp_path, RESENT, reset_at=(at(10),))
    assert causes(found) == ["first_seen", "append_only", "cache_reset", "append_only"]
    (reset,) = found.report.resets
    assert (reset.source, reset.first_row, reset.requests, reset.lost_tokens) == ("told", 2, 1, 2048)
    assert found.report.faults[0].lost_tokens == 2048


def test_what_makes_no_difference_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explained(tmp_path, RESENT, reset_at=(at(10), at(600))).report.notes == ()
    for never in (at(-1), at(0), at(600)):
        found = explained(tmp_path, RESENT, reset_at=(never,))
        assert found.report.notes == ("no_reset_in_log",) and found.report.resets == ()
    events = tmp_path / "events.jsonl"
    events.write_text(json.dumps({"ts": 1.0, "events": []}) + "\n")
    assert explained(tmp_path, RESENT, kv_events=str(events)).report.notes == ("no_reset_recorded",)
    events.write_text(json.dumps({"ts": 1.0, "events": [{"type": "AllBlocksCleared"}]}) + "\n")
    assert explained(tmp_path, RESENT, kv_events=str(events)).report.notes == ("no_recorded_reset_in_log",)
    for command in ("explain", "lint"):
        assert main([command, str(tmp_path / "log.jsonl"), "--kv-events", str(events)]) == 0
        assert NOTES["no_recorded_reset_in_log"] in " ".join(capsys.readouterr().out.split())


def test_a_told_reset_of_two_replicas_is_one(tmp_path: Path) -> None:
    rows = [{**asked(number, 0, 640), "replica": f"gpu-{number % 2}"} for number in range(4)]
    found = explained(tmp_path, rows, reset_at=(at(1.5),))
    assert causes(found) == ["first_seen", "routed_elsewhere", "cache_reset", "cache_reset"]
    (reset,) = found.report.resets
    assert (reset.first_row, reset.requests, reset.lost_tokens) == (2, 2, 2 * 624)
    relative = [{"prompt_token_ids": list(range(640)), "timestamp": seconds} for seconds in (0, 10, 20, 30)]
    assert causes(explained(tmp_path, relative, reset_at=("15s",)))[2:] == ["cache_reset", "rewound"]
    assert causes(explained(tmp_path, relative, ttl="9s"))[1:] == ["ttl_expired"] * 3


def served(minutes: float, first: int, length: int, cached: int | None, **fields: Any) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    usage = {"prompt_tokens": length, "completion_tokens": 1, **details}
    return asked(minutes, first, length, usage=usage, **fields)


def two_conversations(after: list[int]) -> list[dict[str, Any]]:
    """Two conversations that grow in turn; then the cache gives `after`."""
    rows = [served(turn, base, 160 + 32 * turn, 128 + 32 * turn if turn else 0)
            for turn in range(3) for base in (10_000, 20_000)]  # fmt: skip
    lengths = (256, 256, 288, 288)
    rows += [
        served(5 + place, (10_000, 20_000)[place % 2], length, cached)
        for place, (length, cached) in enumerate(zip(lengths, after, strict=True))
    ]
    return rows


def test_a_reset_is_proven_by_what_was_measured(tmp_path: Path) -> None:
    rows = two_conversations([0, 0, 256, 256])
    found = explained(tmp_path, rows)
    assert causes(found)[6:] == ["cache_reset", "cache_reset", "append_only", "append_only"]
    (reset,) = found.report.resets
    assert (reset.source, reset.first_row, reset.requests, reset.lost_tokens) == ("measured", 6, 2, 2 * 224)
    assert causes(explained(tmp_path, rows, engine="openai", choice={"lifetime": "24h"})).count("cache_reset") == 0
    rows_of_analyze = api.analyze(api.AnalyzeOptions(api.LogOptions((str(tmp_path / "log.jsonl"),))), nothing).rows
    assert list(rows_of_analyze["break_cause"]) == causes(found)


@pytest.mark.parametrize(
    "after",
    [
        [0, 224, 256, 256],  # only one conversation lost its prefix
        [224, 224, 256, 256],
    ],
)
def test_other_misses_prove_no_reset(after: list[int], tmp_path: Path) -> None:
    found = explained(tmp_path, two_conversations(after))
    assert "cache_reset" not in causes(found) and found.report.resets == ()


def test_an_old_prefix_that_is_found_again_disproves_a_reset(tmp_path: Path) -> None:
    rows = [served(-1, 30_000, 96, 0), *two_conversations([0, 0, 256, 256])]
    assert causes(explained(tmp_path, rows)).count("cache_reset") == 2
    assert "cache_reset" not in causes(explained(tmp_path, [*rows, served(10, 30_000, 128, 96)]))


def test_a_burst_that_evicts_everything_proves_no_reset(tmp_path: Path) -> None:
    rows = two_conversations([0, 0, 256, 256])
    burst = [served(4 + place / 100, 100_000 + 1000 * place, 900, 0) for place in range(50)]
    found = explained(tmp_path, rows[:6] + burst + rows[6:])
    assert "cache_reset" not in causes(found)


def test_without_measurements_nothing_is_said(tmp_path: Path) -> None:
    rows = [{name: value for name, value in row.items() if name != "usage"} for row in two_conversations([0, 0, 0, 0])]
    assert explained(tmp_path, rows).report.resets == ()


def traffic(
    seed: int, capacity: int | None, resets: set[int], route: Callable[[int, int], int] = lambda *_: 0
) -> list[dict[str, Any]]:
    """Growing conversations behind one head, served by block-wise least-recently-used caches that tell their hits.
    `route` gives the cache for (request, conversation)."""
    draw = random.Random(seed)
    caches: dict[int, dict[tuple[int, ...], None]] = {}
    talks = [[*range(64), *range(1000 * (talk + 1), 1000 * (talk + 1) + 40)] for talk in range(6)]
    rows = []
    for number in range(120):
        if number in resets:
            caches.clear()
        talk = draw.randrange(6)
        held = caches.setdefault(route(number, talk), {})
        ids = talks[talk]
        blocks = [tuple(ids[: 16 * end]) for end in range(1, len(ids) // 16 + 1)]
        hits = 0
        while hits < (len(ids) - 1) // 16 and blocks[hits] in held:
            hits += 1
        for block in reversed(blocks):
            held.pop(block, None)
            held[block] = None
        while capacity is not None and len(held) > capacity:
            held.pop(next(iter(held)))
        rows.append(served(number / 10, 0, len(ids), 16 * hits))
        rows[-1]["prompt_token_ids"] = list(ids)
        if draw.random() < 0.1:
            talks[talk] = [*range(64), *range(100 * number + 20_000, 100 * number + 20_040)]
        else:
            ids.extend(draw.randrange(500, 900) for _ in range(draw.randrange(8, 40)))
    return rows


@pytest.mark.parametrize("capacity", [None, 400, 120, 60, 30, 12])
@pytest.mark.parametrize("seed", range(6))
def test_evictions_alone_are_never_taken_for_a_reset(seed: int, capacity: int | None, tmp_path: Path) -> None:
    assert explained(tmp_path, traffic(seed, capacity, set())).report.resets == ()


ROUTES: tuple[Callable[[int, int], int], ...] = (
    lambda number, _: number * 7919 % 5 % 2,
    lambda number, _: number % 3,
    lambda _, talk: talk % 2,
    lambda _, talk: talk % 3,
)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("route", ROUTES)
def test_replicas_that_are_not_logged_are_never_taken_for_a_reset(
    route: Callable[[int, int], int], seed: int, tmp_path: Path
) -> None:
    assert explained(tmp_path, traffic(seed, None, set(), route)).report.resets == ()


@pytest.mark.parametrize("capacity", [None, 400, 120])
@pytest.mark.parametrize("seed", range(6))
def test_a_reset_in_busy_traffic_is_found_where_it_was(seed: int, capacity: int | None, tmp_path: Path) -> None:
    found = explained(tmp_path, traffic(seed, capacity, {50, 90}))
    assert [reset.first_row for reset in found.report.resets] == [50, 90]
    lost = [row for row, cause in enumerate(causes(found)) if cause == "cache_reset"]
    assert min(lost) >= 50 and found.report.causes["cache_reset"] >= 4


def test_two_resets_one_after_another() -> None:
    memory = MeasuredMemory(
        expected=np.array([0, 0, 32, 32, 32, 32, 32, 32, 32, 32]),
        measured=np.array([0, 0, 32, 32, 0, 0, 32, 32, 0, 0]),
        parent=np.array([-1, -1, 0, 1, 2, 3, 4, 5, 6, 7]),
        stored=np.full(10, 40),
    )

    def since(row: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.where(memory.parent[row:] >= row, 32, 0)

    assert [one.row for one in emptied_at(memory, since)] == [4, 8]
    blind = MeasuredMemory(memory.expected, np.full(10, UNKNOWN), memory.parent, memory.stored)
    assert emptied_at(blind, since) == []


def test_what_the_rule_of_an_engine_takes_from_whole_prompts(tmp_path: Path) -> None:
    eagle = explained(tmp_path, RESENT, "vllm@0.32", choice={"speculative": "eagle"})
    assert causes(eagle) == ["first_seen", "engine_rule", "engine_rule", "engine_rule"]
    answered = [asked(0, 0, 2048, output_token_ids=list(range(9000, 12000)))]
    answered.append(asked(1, 0, 2048))
    answered[1]["prompt_token_ids"] = [*range(2048), *range(9000, 12000), 1, 2, 3]
    found = explained(tmp_path, answered, "anthropic")
    assert causes(found) == ["first_seen", "not_stored"]
    assert found.report.faults[0].lost_tokens == 2999  # what was sampled last has no KV
    assert causes(explained(tmp_path, answered)) == ["first_seen", "append_only"]
    short = [asked(0, 0, 64, output_token_ids=list(range(9000, 9065))), asked(1, 0, 64)]
    short[1]["prompt_token_ids"] = [*range(64), *range(9000, 9065), 1, 2, 3]
    # 128 tokens are below the minimum, whatever is kept of answers
    assert causes(explained(tmp_path, short, "anthropic")) == ["first_seen", "engine_rule"]


def test_recorded_events_tell_of_a_reset(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    stored = {
        "type": "BlockStored", "block_hashes": [1], "parent_block_hash": None, "token_ids": list(range(16)),
        "block_size": 16,
    }  # fmt: skip
    base = 1775548800  # 2026-04-07T08:00:00Z
    lines = [
        {"ts": base + 1.0, "events": [stored]},
        {"ts": base + 600.0, "events": [{"type": "AllBlocksCleared"}]},
    ]
    events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = explained(tmp_path, RESENT, kv_events=str(events))
    assert causes(found) == ["first_seen", "append_only", "cache_reset", "append_only"]
    assert found.report.resets[0].source == "events"


def test_the_story_tells_what_took_the_prefix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = [{**row, "request_id": f"r{number}"} for number, row in enumerate(RESENT)]
    log = str(write_log(tmp_path / "log.jsonl", named))

    def story(*more: str) -> str:
        assert main(["explain", log, "--request", "r2", *more]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "r1 used it last, 17 min 0 s before; entries live 5 min 0 s after their last use" in story(
        "--engine", "openai"
    )
    assert "r1 used it last" in story("--ttl", "10m")
    assert "The cache was emptied at 2026-04-07T08:10:00Z (as told)" in story("--reset-at", at(10))
    between = [asked(10, 50_000, 4096, request_id="other")]
    log = str(write_log(tmp_path / "other.jsonl", named[:2] + between + named[2:]))
    text = story("--capacity", "300blocks")
    assert "Between the two, 1 request stored 4,096 tokens in the same memory, which holds 4,800." in text
    replicas = [{**row, "replica": f"gpu-{number % 2}"} for number, row in enumerate(named)]
    log = str(write_log(tmp_path / "replicas.jsonl", [replicas[1], replicas[2]]))
    assert "It went to replica gpu-0; r1, which shares most with it, went to gpu-1." in story()
    running = [{**row, "finished_at": at(30), "first_token_at": at(29)} for row in named[1:3]]
    log = str(write_log(tmp_path / "running.jsonl", running))
    assert "r1 was still running, for 10 min 0 s more." in story("--engine", "sglang")
