"""Real files through the whole program: numbers, sentences, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from prefixscope.cli.main import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the program with these arguments and gives exit code, stdout and stderr."""

    def run_here(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        out, err = capsys.readouterr()
        return code, out, err

    return run_here


def test_the_worked_example_from_file_to_json(log: Path, run: Run) -> None:
    code, out, _ = run("analyze", str(log), "--json", "-")
    assert code == 0
    report = json.loads(out)
    totals = report["totals"]
    assert (totals["prompt_tokens"], totals["ideal_prefill_tokens"], totals["reusable_tokens"]) == (11520, 2304, 9216)
    assert totals["cached_tokens"] == 9216
    assert [(skip["line"], skip["reason"]) for skip in report["input"]["skipped"]] == [(6, "invalid_json")]


def test_the_worked_example_on_the_terminal(log: Path, run: Run) -> None:
    _, out, err = run("analyze", str(log))
    assert out.startswith("assumed: vLLM 0.33, block 16; not read from your engine\n")
    assert "80.0 % of your prefill is work already done   9,216 of 11.5 k prompt tokens" in out
    assert "1 not valid JSON" in out
    assert err == ""
    assert "\x1b" not in out


def test_strict_fails_naming_the_line(log: Path, run: Run) -> None:
    assert run("analyze", str(log), "--strict") == (3, "", f"prefixscope: --strict: {log}:6: invalid_json\n")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("missing.jsonl", lambda path: None),
        ("empty.jsonl", lambda path: path.write_bytes(b"")),
        ("folder", lambda path: path.mkdir()),
        ("binary.jsonl", lambda path: path.write_bytes(bytes(range(256)) * 20)),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, run: Run, name: str, make: Callable[[Path], None]) -> None:
    make(tmp_path / name)
    code, out, err = run("analyze", str(tmp_path / name))
    assert code == 1, err
    assert out == ""
    assert err.startswith("prefixscope: ")
    assert name in err
    assert err.count("\n") == 1


def test_requests_to_stdout_are_lines_of_json(log: Path, run: Run) -> None:
    _, out, _ = run("analyze", str(log), "--requests", "-", "--quiet")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["cached_tokens"] for row in rows] == [0] + [1024] * 9
    assert rows[3]["request_id"] == "r3"
    assert rows[3]["time"] == "2026-11-18T11:06:43Z"


def test_index_and_log_give_the_same_report(log: Path, run: Run, tmp_path: Path) -> None:
    index = tmp_path / "ten.parquet"
    code, out, _ = run("index", str(log), "-o", str(index))
    assert code == 0
    assert "10 rows, 1 pool, 1 namespace; it holds no text" in " ".join(out.split())
    reports = [json.loads(run("analyze", source, "--json", "-", "-q")[1]) for source in (str(log), str(index))]
    assert reports[0]["totals"] == reports[1]["totals"]
    assert reports[0]["pools"] == reports[1]["pools"]


def test_blocks_on_the_worked_example(log: Path, run: Run) -> None:
    _, out, _ = run("blocks", str(log), "--block-sizes", "16,1024,2048", "--json", "-", "-q")
    (pool,) = json.loads(out)["pools"]
    assert [row["cached_tokens"] for row in pool["block_sizes"]] == [9216, 9216, 0]
    assert pool["largest_block_size_with_reuse"] == 1024
