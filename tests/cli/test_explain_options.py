"""`explain` and `lint` take what `analyze` takes of an engine, and use it."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from prefixscope.cli.analyze import analyze
from prefixscope.cli.explain import explain
from prefixscope.cli.lint import lint
from prefixscope.cli.main import main
from tests.cases import write_log
from tests.engines.test_engine_url import VLLM, VLLM_METRICS, serving

OTHERS = {
    "measured": "explain compares no totals with counters",
    "latency_model": "explain tells tokens, not seconds",
    "concurrency": "it sizes memory for requests that run, which only capacity sections show",
    "fail_under": "the gate of analyze",
}
"""What `explain` leaves out, and why."""
NOT_IN_LINT = {"warmup", "since", "until", "cold_start", "requests", "skips"}
"""Lint checks a recorded file as a whole, for its exit code."""


def parameters(command: Any) -> dict[str, Any]:
    return {name: one.annotation for name, one in inspect.signature(command).parameters.items()}


def test_explain_takes_the_options_of_analyze() -> None:
    ours, theirs = parameters(explain), parameters(analyze)
    assert set(theirs) - set(ours) == set(OTHERS)
    assert {name: ours[name] for name in ours if name in theirs} == {
        name: theirs[name] for name in theirs if name in ours
    }


def test_lint_takes_those_of_the_engine() -> None:
    ours, theirs = parameters(lint), parameters(analyze)
    assert set(theirs) - set(ours) == set(OTHERS) | NOT_IN_LINT
    assert all(ours[name] == theirs[name] for name in ours if name in theirs)


def resent(folder: Path, **fields: Any) -> str:
    ids = list(range(640))
    rows = [
        {"prompt_token_ids": ids, "request_id": "a", "timestamp": "2026-11-30T08:00:00Z", **fields},
        {"prompt_token_ids": [*ids, 1], "request_id": "b", "timestamp": "2026-11-30T08:00:01Z"},
    ]
    return str(write_log(folder / "log.jsonl", rows))


def causes(log: str, folder: Path, *more: str) -> dict[str, int]:
    document = folder / "report.json"
    assert main(["explain", log, "--json", str(document), "--force", "--quiet", *more]) == 0
    return dict(json.loads(document.read_text())["causes"])


def test_an_overlap_is_named_with_a_service_time(tmp_path: Path) -> None:
    log = resent(tmp_path)
    assert causes(log, tmp_path) == {"first_seen": 1, "append_only": 1}
    overlapping = ("--engine", "tensorrt-llm", "--service-time", "30s")
    assert causes(log, tmp_path, *overlapping) == {"first_seen": 1, "in_flight": 1}
    assert causes(log, tmp_path, "--engine", "tensorrt-llm", "--service-time", "500ms") == {
        "first_seen": 1, "append_only": 1,
    }  # fmt: skip


def test_rows_of_explain_equal_those_of_analyze(tmp_path: Path) -> None:
    log = resent(tmp_path)
    for more in (
        ("--engine", "tensorrt-llm", "--service-time", "30s"),
        ("--engine", "sglang", "--block-size", "64", "--service-time", "5s", "--capacity", "20blocks"),
        ("--engine", "openai", "--lifetime", "1s"),
        ("--speculative", "eagle", "--engine", "vllm@0.32", "--max-batched-tokens", "256", "--service-time", "3s"),
        ("--engine", "llama-cpp", "--slots", "1"),
    ):
        found = []
        for command in ("analyze", "explain"):
            rows = tmp_path / f"{command}.jsonl"
            assert main([command, log, "--requests", str(rows), "--force", "--quiet", *more]) == 0
            found.append(rows.read_text())
        assert found[0] == found[1], more


def test_a_running_engine_tells_block_size_and_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = resent(tmp_path)
    pages = {**VLLM, "/metrics": VLLM_METRICS.replace("1001", "11")}
    with serving(pages) as (url, _):
        assert causes(log, tmp_path, "--engine-url", url) == {"first_seen": 1, "evicted": 1}
        assert main(["explain", log, "--engine-url", url, "--request", "b"]) == 0
        story = " ".join(capsys.readouterr().out.split())
        assert main(["lint", log, "--engine-url", url, "--fail-on", "evicted"]) == 3
    assert "in the same memory, which holds 320." in story
    assert causes(log, tmp_path) == {"first_seen": 1, "append_only": 1}


def test_lint_fails_on_what_memory_and_engine_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = resent(tmp_path)
    assert main(["lint", log, "--fail-on", "evicted", "--capacity", "10blocks"]) == 3
    assert "found evicted in 1 request" in capsys.readouterr().err
    assert main(["lint", log, "--fail-on", "evicted"]) == 0
    assert main(["lint", log, "--fail-on", "ttl_expired", "--ttl", "500ms"]) == 3
    assert main(["lint", log, "--fail-on", "in_flight", "--engine", "tensorrt-llm", "--service-time", "9s"]) == 3


def test_wrong_words_get_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = resent(tmp_path)
    untimed = str(write_log(tmp_path / "untimed.jsonl", [{"prompt_token_ids": [1, 2, 3]}]))
    for arguments, said in (
        ([log, "--ttl", "soon"], "--ttl soon"),
        ([log, "--reset-at", "noon"], "--reset-at noon: write an ISO 8601 time"),
        ([log, "--lifetime", "5m"], "--lifetime acts on"),
        ([log, "--kv-events", "tcp://localhost:5557"], "name a recording"),
        ([log, "--kv-events", str(tmp_path / "nothing.jsonl")], "nothing.jsonl"),
        ([untimed, "--ttl", "5m"], "carry no time"),
        ([log, "--ttl", "5m", "--engine", "gemini"], "--lifetime"),
    ):
        assert main(["explain", *arguments]) in (1, 2)
        error = capsys.readouterr().err
        assert said in error and "Traceback" not in error, error


def test_standard_input_is_not_read_for_two_things(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "-", "--kv-events", "-"]) == 2
    assert "the log is read from standard input already" in capsys.readouterr().err


def test_a_bad_lifetime_is_not_told_to_be_a_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_log(tmp_path / "log.jsonl", [{"prompt_token_ids": [1, 2], "timestamp": 1_800_000_000}])
    assert main(["explain", str(log), "--ttl", "50%"]) == 2
    assert "--ttl 50%: write 0, or a duration such as 90s, 10m, 2h" in capsys.readouterr().err
