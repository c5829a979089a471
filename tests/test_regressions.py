"""Faults that were found by trying to break the main path, each with the smallest input that showed it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from prefixscope.cli.main import main
from prefixscope.logs import FORMATS, expand, read_logs

PROMPT = list(range(80))


def written(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def report(log: str, folder: Path, *options: str) -> dict[str, Any]:
    target = folder / "report.json"
    assert main(["analyze", log, "--json", str(target), "--force", "--quiet", *options]) == 0
    return dict(json.loads(target.read_text()))


@pytest.mark.parametrize("value", [2**62, 2**63 - 1, 2**63, 10**30])
@pytest.mark.parametrize("field", ["n", "output_tokens", "completion_tokens", "prompt_tokens", "cached_tokens"])
def test_impossible_counts_are_dropped_and_never_overflow(tmp_path: Path, field: str, value: int) -> None:
    row: dict[str, Any] = {"model": "m", "prompt_token_ids": PROMPT}
    odd = (
        {**row, field: value}
        if field in ("n", "output_tokens")
        else {**row, "usage": {"prompt_tokens": 80, field: value}}
    )
    found = report(written(tmp_path / "x.jsonl", [row, row | odd, row | odd]), tmp_path)
    assert found["totals"]["output_tokens"] is None
    sizes = found["pools"][0]["block_sizes"]
    assert all(size["unique_blocks"] >= 0 and size["wasted_slot_tokens"] >= 0 for size in sizes)
    assert found["measured"] is None


def test_anthropic_counts_that_sum_beyond_64_bits(tmp_path: Path) -> None:
    usage = {"input_tokens": 2**62, "cache_read_input_tokens": 2**62}
    report(written(tmp_path / "x.jsonl", [{"prompt_token_ids": PROMPT, "usage": usage}]), tmp_path)


def test_a_row_with_several_choices_tells_the_mean_answer_also_when_it_is_one_token(tmp_path: Path) -> None:
    rows = [{"prompt_token_ids": PROMPT, "n": 3, "output_tokens": tokens} for tokens in (4, 7)]
    target = tmp_path / "rows.jsonl"
    report(written(tmp_path / "x.jsonl", rows), tmp_path, "--requests", str(target))
    found = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["output_tokens"] for row in found] == [1, 2]
    assert [row["sequence_tokens"] for row in found] == [80, 81]


@pytest.mark.parametrize(
    "options",
    [
        ["--warmup", "9" * 400 + "h"],
        ["--block-size", "9" * 30],
        ["--match-unit", str(2**63 - 1)],
        ["--cold-start"],
    ],
)
def test_senseless_option_values_are_usage_errors(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path / "x.jsonl", [{"timestamp": 1_760_000_000, "prompt_token_ids": PROMPT}])
    assert main(["analyze", log, *options]) == 2
    assert options[0] in capsys.readouterr().err


@pytest.mark.parametrize("sizes", ["9" * 5000, "9" * 30, "16,", "0"])
def test_senseless_block_sizes_are_usage_errors(tmp_path: Path, sizes: str) -> None:
    assert main(["blocks", written(tmp_path / "x.jsonl", [{"prompt_token_ids": PROMPT}]), "--block-sizes", sizes]) == 2


@pytest.mark.parametrize("option", [["--since", "2025-01-01"], ["--until", "2030-01-01"], ["--warmup", "5m"]])
def test_a_log_without_times_has_no_ranges_of_time(
    tmp_path: Path, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path / "x.jsonl", [{"prompt_token_ids": PROMPT}] * 3)
    assert main(["analyze", log, *option]) == 2
    assert "carry no time" in capsys.readouterr().err
    assert report(log, tmp_path, "--warmup", "50%")["totals"]["requests"] == 2


def test_a_first_line_longer_than_a_batch_does_not_hide_the_format(tmp_path: Path) -> None:
    rows = [{"prompt_token_ids": PROMPT, "note": "x" * (5 << 20)}, {"prompt_token_ids": PROMPT}]
    assert report(written(tmp_path / "x.jsonl", rows), tmp_path)["totals"]["requests"] == 2


def test_an_array_with_one_request_a_line_is_read_whole_and_without_false_faults(tmp_path: Path) -> None:
    rows = [json.dumps({"request_id": str(number), "prompt_token_ids": PROMPT}) for number in range(5)]
    for opening, between in (("[", ",\n"), ("[\n", ",\n"), ("[", "\n,")):
        path = tmp_path / "x.json"
        path.write_text(opening + between.join(rows) + "\n]\n")
        reading = read_logs(expand([str(path)], FORMATS))
        assert [request.request_id for request in reading] == ["0", "1", "2", "3", "4"]
        assert reading.ledger.skipped == ()


def test_what_lies_before_a_fault_in_gzip_data_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.gz"
    packed = gzip.compress(b"".join(json.dumps({"prompt_token_ids": [n]}).encode() + b"\n" for n in range(3000)))
    path.write_bytes(packed[:-8] + bytes(8))  # a wrong checksum, after all of the content
    reading = read_logs(expand([str(path)], FORMATS))
    assert len(list(reading)) == 3000
    assert [skip.reason for skip in reading.ledger.skipped] == ["corrupt_gzip"]
    middle = len(packed) // 2
    path.write_bytes(packed[:middle] + bytes(64) + packed[middle + 64 :])
    reading = read_logs(expand([str(path)], FORMATS))
    assert len(list(reading)) > 1000
