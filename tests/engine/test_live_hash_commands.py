"""The commands `hashes` and `events` against a live vLLM 0.32: base, salted, adapter and chat requests."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from prefixscope.cli.main import main
from tests.engine.serving import REPOSITORY, EngineConfiguration, RunningEngine

ALGORITHMS = ("sha256", "sha256_cbor")
SMALL_CACHE = ("--num-gpu-blocks-override", "65", "--max-model-len", "1024")


def configuration(algorithm: str) -> EngineConfiguration:
    """sha256 runs without PYTHONHASHSEED (its fixed seed), the other with 0."""
    return EngineConfiguration(
        options=(*SMALL_CACHE, "--prefix-caching-hash-algo", algorithm),
        environment={} if algorithm == "sha256" else {"PYTHONHASHSEED": "0"},
        with_adapters=True,
        events=True,
    )


pytestmark = pytest.mark.parametrize(
    "engine", [configuration(algorithm) for algorithm in ALGORITHMS], ids=ALGORITHMS, indirect=True, scope="module"
)


class Served:
    """One server's log, and the options that describe it."""

    def __init__(self, engine: RunningEngine, model: Path, folder: Path) -> None:
        assert engine.events_endpoint is not None and engine.replay_endpoint is not None
        self.engine = engine
        self.folder = folder
        self.live = [engine.events_endpoint, "--replay-endpoint", engine.replay_endpoint]
        self.seed = engine.configuration.environment.get("PYTHONHASHSEED")
        self.stated = ["--engine", "vllm@0.32", "--algorithm", f"vllm-{engine.configuration.options[-1]}"]
        if self.seed is not None:
            self.stated += ["--hash-seed", self.seed]
        self.adapters = [f"--adapter-path={name}={path}" for name, path in engine.adapters.items()]
        self.reading = ["--model", f"tiny={model}"]
        self.log = folder / "log.jsonl"
        self.recording = folder / "events.jsonl"
        self.lines: list[dict[str, Any]] = []
        self._ask()
        self.log.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        told = ["--record", str(self.recording), "--json", str(folder / "report.json")]
        told += ["--requests", str(folder / "rows.jsonl"), "--log", str(self.log), "--idle", "1"]
        assert main(["events", *self.live, *self.stated, *self.adapters, *self.reading, *told]) == 0
        self.report = json.loads((folder / "report.json").read_text())

    def _ask(self) -> None:
        draw = random.Random(11)
        shared = [draw.randrange(300, 2000) for _ in range(140)]
        bodies: list[dict[str, Any]] = [
            {"prompt": shared},
            {"prompt": shared},
            {"prompt": shared[:100] + [7] * 33},
            {"prompt": shared, "cache_salt": "red"},
            {"prompt": shared, "cache_salt": "red"},
            {"prompt": shared, "model": "la"},
            {"prompt": shared, "model": "lb", "cache_salt": "blue"},
            {"prompt": [draw.randrange(300, 2000) for _ in range(900)]},
            {"prompt": [draw.randrange(300, 2000) for _ in range(901)]},
            {"prompt": shared},
        ]
        system = {"role": "system", "content": "You answer customers of a small shop. " * 20}
        for question in ("Where is my parcel?", "Where is my parcel now?"):
            bodies.append({"messages": [system, {"role": "user", "content": question}]})
        for number, body in enumerate(bodies):
            line = {"model": "tiny", "max_tokens": 1, "temperature": 0, **body}
            sent = time.time_ns()
            path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
            answer = self.engine.post(path, line)
            if "prompt" in line:
                line["prompt_token_ids"] = line.pop("prompt")
            self.lines.append({"request_id": f"r{number}", "timestamp": sent, **line, "usage": answer["usage"]})
            time.sleep(0.05)  # the publisher's thread stamps a batch after the answer may have been sent


@pytest.fixture(scope="module")
def served(engine: RunningEngine, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(engine, tiny_model, tmp_path_factory.mktemp("served"))


def stored_hashes(recording: Path) -> set[int]:
    batches = [json.loads(line) for line in recording.read_text().splitlines()]
    events = [event for batch in batches for event in batch["events"] if event["type"] == "BlockStored"]
    return {value for event in events for value in event["block_hashes"]}


def test_every_hash_is_equal_and_no_block_of_the_log_is_missing(served: Served) -> None:
    report = served.report
    assert report["hashes"]["equal"] == report["hashes"]["checked"] == report["blocks_stored"] > 60
    assert report["lost"] == [] and report["removals_of_unknown"] == 0 and report["restarts"] == 0
    assert report["block_sizes"] == {"32": report["blocks_stored"]}
    assert report["blocks_removed"] > 0, "the small cache must have thrown blocks out"
    log = report["log"]
    assert log["requests"] == len(served.lines) and log["block_size"] == 32
    assert log["at_end"]["missing"] == 0 and log["when_sent"]["gone"] > 0


def test_what_the_events_say_was_held_is_what_the_engine_said_it_cached(served: Served) -> None:
    log = served.report["log"]
    assert log["agreeing_requests"] == log["compared_requests"] == len(served.lines)
    assert log["compared_cached_tokens"] > 500
    rows = [json.loads(line) for line in (served.folder / "rows.jsonl").read_text().splitlines()]
    cached = [line["usage"]["prompt_tokens_details"]["cached_tokens"] for line in served.lines]
    assert [row["held_prefix_tokens"] for row in rows] == cached


def test_the_keys_of_the_log_are_those_in_the_events(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    options = [*served.stated, *served.adapters, *served.reading, "--block-size", "32"]
    assert main(["hashes", str(served.log), *options, "--quiet"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["prompt_tokens"] for row in rows] == [line["usage"]["prompt_tokens"] for line in served.lines]
    ours = {integer for row in rows for integer in row["integers"]}
    assert ours <= stored_hashes(served.recording)
    assert len(ours) > 60


def test_a_wrong_seed_in_a_recording_is_named(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    stated = [*served.stated[:4], "--hash-seed", "42", *served.adapters]
    assert main(["events", str(served.recording), *stated, "--json", "-"]) == 0
    checks = json.loads(capsys.readouterr().out)["hashes"]
    assert {difference["ingredient"] for difference in checks["differences"]} == {"seed"}
    assert checks["unexplained"] == checks["parent_unknown"] == 0
    true = "no PYTHONHASHSEED" if served.seed is None else f"PYTHONHASHSEED={served.seed}"
    assert true in checks["differences"][0]["statement"]


def test_ctrl_c_ends_listening_with_a_report(served: Served) -> None:
    command = [sys.executable, "-m", "prefixscope", "events", served.live[0], *served.stated, *served.adapters]
    listening = subprocess.Popen(
        [*command, "--json", "-"], cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert listening.stderr is not None
        assert "Ctrl-C ends it" in listening.stderr.readline()
        time.sleep(2)  # a subscription takes a moment to reach the publisher
        served.engine.complete(list(range(400, 700)))
        time.sleep(2)
        listening.send_signal(signal.SIGINT)
        out, err = listening.communicate(timeout=30)
    finally:
        listening.kill()
    assert listening.returncode == 0, err
    report = json.loads(out)
    assert report["blocks_stored"] >= 9 and report["lost"][0]["first_missing"] == 0, "it came late, and says so"
    assert report["hashes"]["equal"] >= 9
    assert report["hashes"]["unexplained"] == report["hashes"]["different"] == 0
