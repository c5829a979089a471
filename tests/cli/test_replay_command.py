"""`prefixscope replay` against the mock endpoints that ship with the package."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from prefixscope.cli.main import main
from prefixscope.replay import run as replay_run
from prefixscope.replay.mock import LyingEndpoint, MockEndpoint

URL = "http://engine.test:8000/v1"


def write_log(path: Path, *, rows: int = 30, model: str | None = "m") -> str:
    """Families of prompts of token ids that share beginnings."""
    dice = random.Random(5)
    heads = [[dice.randrange(1000) for _ in range(96)] for _ in range(3)]
    lines = []
    for row in range(rows):
        tail = [dice.randrange(1000) for _ in range(dice.randrange(8, 60))]
        body: dict[str, Any] = {"request_id": f"r{row}", "timestamp": 1_795_000_000 + row}
        if model is not None:
            body["model"] = model
        lines.append(json.dumps({**body, "prompt_token_ids": dice.choice(heads) + tail}))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts an endpoint where the network would be."""

    def put(endpoint: MockEndpoint) -> MockEndpoint:
        monkeypatch.setattr(replay_run, "network_transport", lambda ca_file: endpoint)
        return endpoint

    return put


def test_a_replay_is_exact_and_passes_validation(
    tmp_path: Path, serve: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(MockEndpoint(16, models=("m",)))
    report = tmp_path / "report.json"
    log = write_log(tmp_path / "log.jsonl")
    assert main(["replay", log, "--endpoint", URL, "--sample", "20", "--validate", "--json", str(report)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "serial 20 of 20" in out
    assert "the prediction holds" in out
    assert "read 0 cached tokens" in out
    found = json.loads(report.read_text())
    phases = {phase["phase"]: phase["comparison"] for phase in found["replay"]["phases"]}
    assert set(phases) == {"cold", "serial", "warm", "concurrency 8"}
    assert all(phase["exact"] == phase["requests"] == 20 for phase in phases.values())
    assert phases["warm"]["measured_cached_tokens"] > phases["serial"]["measured_cached_tokens"] > 0
    assert phases["cold"]["measured_cached_tokens"] == 0
    assert found["sample"]["requests"] == 20


def test_a_dry_run_sends_nothing(tmp_path: Path, serve: Any, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint = serve(MockEndpoint(16, models=("m",)))
    assert main(["replay", write_log(tmp_path / "log.jsonl"), "--endpoint", URL, "--dry-run"]) == 0
    assert "nothing was sent" in capsys.readouterr().out
    assert endpoint.requests == []


def test_a_lying_endpoint_fails_validation(tmp_path: Path, serve: Any, capsys: pytest.CaptureFixture[str]) -> None:
    serve(LyingEndpoint(lambda cached, prompt: cached and cached - 16, 16, models=("m",)))
    log = write_log(tmp_path / "log.jsonl")
    assert main(["replay", log, "--endpoint", URL, "--sample", "10", "--validate"]) in (1, 3)
    err = capsys.readouterr().err
    assert "--validate" in err
    assert "Traceback" not in err


def test_the_endpoint_may_call_the_model_otherwise(
    tmp_path: Path, serve: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(MockEndpoint(16, models=("served-name",)))
    log = write_log(tmp_path / "log.jsonl")
    assert main(["replay", log, "--endpoint", URL, "--sample", "5"]) == 1
    assert "it serves served-name" in capsys.readouterr().err
    assert main(["replay", log, "--endpoint", URL, "--sample", "5", "--served", "m=served-name"]) == 0
    nameless = write_log(tmp_path / "nameless.jsonl", model=None)
    assert main(["replay", nameless, "--endpoint", URL, "--sample", "5"]) == 2
    assert "--served '*=SERVED'" in capsys.readouterr().err
    assert main(["replay", nameless, "--endpoint", URL, "--sample", "5", "--served", "*=served-name"]) == 0


def test_the_key_comes_from_the_environment_and_is_shown_nowhere(
    tmp_path: Path, serve: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = serve(MockEndpoint(16, models=("m",)))
    log = write_log(tmp_path / "log.jsonl")
    asked = ["replay", log, "--endpoint", URL, "--sample", "5", "--api-key-variable", "ENGINE_KEY"]
    assert main(asked) == 2
    assert "ENGINE_KEY" in capsys.readouterr().err
    monkeypatch.setenv("ENGINE_KEY", "hush-hush")
    files = tmp_path / "report.json", tmp_path / "run.jsonl"
    assert main([*asked, "--json", str(files[0]), "--run-file", str(files[1])]) == 0
    shown = capsys.readouterr()
    assert all("hush-hush" not in text for text in (shown.out, shown.err, *(file.read_text() for file in files)))
    assert endpoint.requests[-1].headers["authorization"] == "Bearer hush-hush"


@pytest.mark.parametrize(
    ("extra", "code", "sentence"),
    [
        (["--phases", "warm"], 2, "--phases warm"),
        (["--phases", "later"], 2, "known are"),
        (["--isolation", "hope"], 2, "--isolation hope"),
        (["--served", "x"], 2, "--served x"),
        (["--endpoint", "ftp://x"], 2, "--endpoint"),
    ],
)
def test_wrong_options_get_one_sentence(
    extra: list[str], code: int, sentence: str, tmp_path: Path, serve: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(MockEndpoint(16, models=("m",)))
    log = write_log(tmp_path / "log.jsonl")
    assert main(["replay", log, "--endpoint", URL, *extra]) == code
    err = capsys.readouterr().err
    assert sentence in err
    assert "Traceback" not in err


def test_an_index_and_standard_input_can_not_be_replayed(
    tmp_path: Path, serve: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    serve(MockEndpoint(16, models=("m",)))
    log = write_log(tmp_path / "log.jsonl")
    stored = str(tmp_path / "log.parquet")
    assert main(["index", log, "-o", stored]) == 0
    assert main(["replay", stored, "--endpoint", URL]) == 1
    assert "an index holds no prompts" in capsys.readouterr().err
    assert main(["replay", "-", "--endpoint", URL]) == 1
    assert "standard input" in capsys.readouterr().err


def test_the_sample_of_one_line_with_several_prompts_is_found_again(tmp_path: Path, serve: Any) -> None:
    endpoint = serve(MockEndpoint(16, models=("m",)))
    prompts = [[number] * 40 for number in range(1, 9)]
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"model": "m", "prompt": prompts}) + "\n")
    asked = ["replay", str(path), "--endpoint", URL, "--sample", "8", "--phases", "serial", "--send-as", "ids"]
    assert main(asked) == 0
    sent = [body["prompt"] for body in endpoint.bodies if body.get("prompt") in prompts]
    assert sorted(sent) == sorted(prompts)
