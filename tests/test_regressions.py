"""Faults that were found by trying to break the main path, each with the smallest input that showed it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from prefixscope.cli.main import main
from prefixscope.errors import IndexFileError
from prefixscope.index.store import read_index
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
    found = report(written(tmp_path / "x.jsonl", [{"prompt_token_ids": PROMPT, "usage": usage}]), tmp_path)
    assert found["measured"] is None


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


def run_in_shell(command: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1]), **variables}
    line = command.replace("prefixscope", f"'{sys.executable}' -m prefixscope", 1)
    return subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name != "posix", reason="closes a descriptor in a POSIX shell")
def test_a_closed_standard_input_is_told_in_a_sentence(tmp_path: Path) -> None:
    ended = run_in_shell("prefixscope analyze - <&-", tmp_path)
    assert (ended.returncode, ended.stderr) == (1, "prefixscope: -: standard input is closed\n")


def test_help_can_be_printed_in_any_encoding(tmp_path: Path) -> None:
    ended = run_in_shell("prefixscope analyze --help", tmp_path, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "--block-size" in ended.stdout


def damaged(path: Path, place: int) -> str:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    other = path.with_name("damaged.parquet")
    other.write_bytes(bytes(data))
    return str(other)


def test_a_changed_head_of_an_index_is_noticed_or_does_not_matter(tmp_path: Path) -> None:
    log = written(tmp_path / "x.jsonl", [{"model": "m", "prompt_token_ids": PROMPT}] * 3)
    index = tmp_path / "x.parquet"
    assert main(["index", log, "--output", str(index), "--quiet"]) == 0
    data, right = index.read_bytes(), read_index(str(index))
    noticed = 0
    for place in range(data.index(b"prefixscope"), len(data), 29):
        try:
            found = read_index(damaged(index, place))
        except IndexFileError:
            noticed += 1
            continue
        assert found.provenance == right.provenance and found.namespaces == right.namespaces
        assert found.shared_tokens.tolist() == right.shared_tokens.tolist()
        assert (found.breaks is None) == (right.breaks is None)
    assert noticed > 50


@pytest.mark.parametrize(
    ("column", "value"),
    [("prompt_tokens", -1), ("namespace", 7), ("pool", -3), ("unit", 0), ("n", 0), ("sequence_tokens", 2**62)],
)
def test_an_index_with_impossible_numbers_is_refused(tmp_path: Path, column: str, value: int) -> None:
    log = written(tmp_path / "x.jsonl", [{"model": "m", "prompt_token_ids": PROMPT}] * 3)
    index = tmp_path / "x.parquet"
    assert main(["index", log, "--output", str(index), "--quiet"]) == 0
    table = parquet.read_table(index)
    place = table.schema.get_field_index(column)
    parquet.write_table(table.set_column(place, column, pyarrow.array([value] * len(table))), index)
    with pytest.raises(IndexFileError, match="does not hold together"):
        read_index(str(index))


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
def test_a_file_name_that_is_not_utf8_can_be_indexed(tmp_path: Path) -> None:
    log = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jsonl"))
    index = tmp_path / "x.parquet"
    assert main(["index", written(log, [{"prompt_token_ids": PROMPT}] * 2), "-o", str(index), "--quiet"]) == 0
    assert report(str(index), tmp_path)["totals"]["requests"] == 2
