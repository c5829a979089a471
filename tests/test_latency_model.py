"""A fitted latency turns expected reuse into prefill seconds: b and c times the tokens that are not computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prefixscope.cli.main import main
from prefixscope.replay.fit import LatencyModel


@pytest.fixture
def latency(tmp_path: Path) -> str:
    nothing = ((0.0, 0.0, 0.0),) * 3
    fit = LatencyModel(0.01, 1e-4, 1e-8, nothing, 40, 0, 1, 4000, 4000, 0.0, 0.0, 0.0, 0.99, "a test")
    path = tmp_path / "latency.json"
    path.write_text(fit.to_json())
    return str(path)


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.jsonl"
    rows = [{"model": "m", "timestamp": 1_795_000_000 + n, "prompt_token_ids": list(range(100))} for n in range(3)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_analyze_tells_the_seconds_saved(
    latency: str, log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    assert main(["analyze", log, "--latency-model", latency, "--json", str(report)]) == 0
    worth = json.loads(report.read_text())["worth"]
    assert (worth["requests"], worth["cached_tokens"]) == (3, 192)
    assert worth["saved_s"] == pytest.approx(192 * 1e-4 + 2 * 96 * 100 * 1e-8)
    assert "this is no throughput" in " ".join(capsys.readouterr().out.split())


def test_without_a_model_there_is_no_number(log: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert main(["analyze", log, "--json", str(report)]) == 0
    assert json.loads(report.read_text())["worth"] is None


def test_tiers_are_priced_by_the_fitted_time(latency: str, log: str, tmp_path: Path) -> None:
    asked = ["capacity", log, "--tier", "hbm=7blocks", "--tier", "dram=100blocks@1GB/s"]
    assert main([*asked, "--latency-model", latency]) == 0
    assert main([*asked, "--latency-model", latency, "--prefill-tokens-per-second", "9"]) == 2


def test_a_file_that_is_no_latency_model_is_told(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", log, "--latency-model", log]) == 1
    assert "Traceback" not in capsys.readouterr().err
