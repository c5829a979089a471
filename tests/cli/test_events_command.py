"""`prefixscope events` from recordings and sockets to pages, JSON and rows."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from prefixscope.cli.main import main
from prefixscope.engines.events import AllBlocksCleared, BlockRemoved, BlockStored, EventBatch, batch_to_line
from prefixscope.engines.hashes import ChainOptions, KeyIdentity
from tests.engines.chains import ids
from tests.engines.test_events_live import Publisher, message
from tests.engines.test_events_rederive import BLOCK, published
from tests.shared import SHARED, needs_shared

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
SECOND = 1_000_000_000
START = 1_795_000_000 * SECOND
TOKENS = list(range(50, 50 + 3 * BLOCK + 2))
OTHERS = list(range(500, 500 + 2 * BLOCK))
STATED = ["--engine", "vllm@0.32", "--hash-seed", "0", "--adapter-path", "la=/adapters/la"]


def stored(
    tokens: list[int], *, seed: str | None = "0", algorithm: str = "vllm-sha256", **identity: Any
) -> BlockStored:
    return published(algorithm, ChainOptions(version="0.32", seed=seed), ids(*tokens), KeyIdentity(**identity))


def recording(path: Path, *batches: tuple[float, Any], first: int = 0) -> str:
    lines = [
        batch_to_line(
            EventBatch(events if isinstance(events, tuple) else (events,), number, START + int(at * SECOND), 0)
        )
        for number, (at, events) in enumerate(batches, first)
    ]
    path.write_bytes(b"".join(lines))
    return str(path)


def log_of(path: Path, *requests: dict[str, Any]) -> str:
    rows = [
        {"request_id": f"r{n}", "timestamp": (START + int(row.pop("at") * SECOND)), "model": "m", **row}
        for n, row in enumerate(requests)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def report_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code = main(["events", *arguments, "--json", "-"])
    out, err = capsys.readouterr()
    assert code == 0, err
    made: dict[str, Any] = json.loads(out)
    return made


@pytest.fixture
def life(tmp_path: Path) -> tuple[str, str]:
    """A recording and a log: a prompt is stored, sent again, thrown out, sent again, and stored once more."""
    one, other = stored(TOKENS), stored(OTHERS)
    salted = stored(TOKENS, salt="do-not-tell")
    adapted = stored(TOKENS, adapter_name="la", adapter_path="/adapters/la")
    events = recording(
        tmp_path / "events.jsonl",
        (1.1, one), (3.0, (salted, adapted)), (4.0, BlockRemoved(one.hashes[1:])), (6.1, stored(TOKENS)), (7.0, other),
        (8.0, AllBlocksCleared()), (9.0, stored(OTHERS)),
    )  # fmt: skip
    cached = {"prompt_tokens": len(TOKENS), "prompt_tokens_details": {"cached_tokens": 0}}
    log = log_of(
        tmp_path / "log.jsonl",
        {"at": 1, "prompt_token_ids": TOKENS, "usage": cached},
        {"at": 2, "prompt_token_ids": TOKENS, "usage": cached | {"prompt_tokens_details": {"cached_tokens": 24}}},
        {"at": 5, "prompt_token_ids": TOKENS, "usage": cached | {"prompt_tokens_details": {"cached_tokens": 16}}},
        {"at": 2.5, "prompt_token_ids": TOKENS, "cache_salt": "do-not-tell"},
        {"at": 6.5, "prompt_token_ids": OTHERS},
        {"at": 9.5, "prompt_token_ids": [9] * BLOCK},
    )
    return events, log


def test_the_fate_of_every_block(life: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events, log = life
    rows_file = tmp_path / "rows.jsonl"
    report = report_of(
        capsys, events, "--log", log, *STATED, "--requests", str(rows_file), "--at", "2026-11-18T11:06:42.5Z"
    )
    assert report["hashes"]["equal"] == report["hashes"]["checked"] == report["blocks_stored"] == 16
    assert (report["blocks_removed"], report["clears"], report["lost"]) == (2, 1, [])
    assert report["held_at"]["time_ns"] == START + int(2.5 * SECOND)
    assert report["held_at"]["blocks"] == 3 and len(report["held_at"]["hashes"]) == 3
    assert report["held_at_end"]["by"] == [{"rank": 0, "medium": None, "group": None, "blocks": 2}]
    found = report["log"]
    assert (found["block_size"], found["algorithm"], found["blocks"]) == (BLOCK, "vllm-sha256", 15)
    assert found["when_sent"] == {"held": 4, "gone": 2, "later": 8, "missing": 1, "unknown": 0}
    assert found["at_end"] == {"held": 2, "removed": 0, "cleared": 12, "restart": 0, "missing": 1}
    assert (found["compared_requests"], found["agreeing_requests"]) == (3, 2)
    assert (found["compared_held_tokens"], found["compared_cached_tokens"]) == (32, 40)
    rows = [json.loads(line) for line in rows_file.read_text().splitlines()]
    assert [row["request_id"] for row in rows] == ["r0", "r1", "r2", "r3", "r4", "r5"]
    assert [row["held_prefix_tokens"] for row in rows] == [0, 24, 8, 0, 0, 0]
    assert [row["sent_gone"] for row in rows] == [0, 0, 2, 0, 0, 0]
    assert rows[2]["last_gone_ns"] == START + 4 * SECOND
    assert [row["end_missing"] for row in rows] == [0, 0, 0, 0, 0, 1]
    assert rows[5]["first_ended_ns"] is None


def test_the_page(life: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    events, log = life
    assert main(["events", events, "--log", log, *STATED]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "do-not-tell" not in out, "salts are secrets"
    said = " ".join(out.split())
    assert said.startswith("stated: vllm-sha256 of version 0.32, PYTHONHASHSEED=0; not read from your engine")
    assert "Every hash is the one we compute: 16 of 16 stored blocks." in said
    assert "held before, already thrown out 2 13.3 %" in said
    assert "the two agree in 2 of 3 requests" in said
    assert max(map(len, out.splitlines())) <= 80


def test_rows_as_parquet(life: tuple[str, str], tmp_path: Path) -> None:
    events, log = life
    target = tmp_path / "rows.parquet"
    assert main(["events", events, "--log", log, *STATED, "--requests", str(target)]) == 0
    assert pq.read_table(target)["sent_later"].to_pylist() == [3, 0, 0, 3, 2, 0]


@pytest.mark.parametrize(
    ("changed", "ingredient", "words"),
    [
        (["--engine", "vllm@0.32", "--hash-seed", "1"], "seed", "PYTHONHASHSEED=0, not PYTHONHASHSEED=1"),
        (["--engine", "vllm@0.32"], "seed", "PYTHONHASHSEED=0, not no PYTHONHASHSEED"),
        (["--engine", "vllm@0.27"], "seed", "PYTHONHASHSEED=0, not no PYTHONHASHSEED"),
        (["--algorithm", "vllm-sha256_cbor", "--hash-seed", "0"], "algorithm", "hashes with vllm-sha256, not"),
        (["--engine", "sglang"], "seed", "hashes with vllm-sha256, not sglang-events"),
    ],
)
def test_a_wrong_setting_is_named(
    changed: list[str], ingredient: str, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    events = recording(tmp_path / "events.jsonl", (1, stored(TOKENS)), (2, stored(OTHERS)))
    checks = report_of(capsys, events, *changed)["hashes"]
    assert checks["equal"] + checks["different"] == checks["checked"] == 5
    assert checks["differences"][0]["ingredient"] == ingredient
    assert words in checks["differences"][0]["statement"]
    assert main(["events", events, *changed]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


def test_a_wrong_adapter_path_and_an_unpublished_salt_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    adapted = stored(TOKENS, adapter_name="la", adapter_path="/adapters/la")
    hidden = replace(stored(TOKENS, salt="do-not-tell"), extra_keys=None)
    events = recording(tmp_path / "events.jsonl", (1, adapted), (2, hidden))
    log = log_of(tmp_path / "log.jsonl", {"at": 0, "prompt_token_ids": TOKENS, "cache_salt": "do-not-tell"})
    stated = ["--hash-seed", "0", "--adapter-path", "la=/old", "--adapter-path", "x=/adapters/la"]
    made = json.dumps(report_of(capsys, events, "--log", log, *stated))
    checks = json.loads(made)["hashes"]
    assert [difference["ingredient"] for difference in checks["differences"]] == ["adapter", "salt"]
    assert "path /adapters/la, not with the path /old" in checks["differences"][0]["statement"]
    assert "do-not-tell" not in made


def test_sglang_events(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = recording(tmp_path / "e.jsonl", (1, stored(TOKENS, algorithm="sglang-events", salt="s")))
    log = log_of(tmp_path / "log.jsonl", {"at": 2, "prompt_token_ids": TOKENS, "cache_salt": "s"})
    report = report_of(capsys, events, "--engine", "sglang", "--log", log)
    assert report["hashes"]["equal"] == 3
    assert report["log"]["when_sent"]["held"] == 3


@needs_shared
def test_the_shared_sample_end_to_end(capsys: pytest.CaptureFixture[str]) -> None:
    sample = str(SHARED / "formats" / "vllm_kv_events_decoded.jsonl")
    report = report_of(capsys, sample, "--at", "2026-11-18T09:00:01Z")
    assert (report["batches"], report["blocks_stored"], report["blocks_removed"], report["clears"]) == (2, 3, 1, 1)
    assert report["hashes"] == {
        "checked": 3, "equal": 0, "different": 0, "unexplained": 2, "parent_unknown": 1, "no_tokens": 0,
        "differences": [], "uncomputable": None,
    }  # fmt: skip
    assert report["held_at"]["blocks"] == 2 and report["held_at"]["hashes"][0] == "a1" * 32
    assert report["held_at_end"]["blocks"] == 0
    assert report["log"] is None
    assert main(["events", sample]) == 0
    assert "0 of 3 stored blocks have the hash we compute" in " ".join(capsys.readouterr().out.split())


def test_gaps_cut_lines_and_unknown_blocks_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    recording(path, (1, stored(TOKENS)), (2, BlockRemoved((77,))), first=4)
    lower = replace(stored(OTHERS), tokens=b"")
    path.write_bytes(path.read_bytes() + batch_to_line(EventBatch((lower,), 9, START)) + b'{"seq": 10, "ts": 1')
    (tmp_path / "events.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    report = report_of(capsys, str(tmp_path / "events.jsonl.gz"), *STATED)
    assert report["lost"] == [
        {"rank": 0, "first_missing": 0, "last_missing": 3}, {"rank": None, "first_missing": 0, "last_missing": 8}
    ]  # fmt: skip
    assert (report["cut_line"], report["removals_of_unknown"], report["hashes"]["no_tokens"]) == (4, 1, 2)
    assert main(["events", str(path), *STATED]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "messages 0 to 3 of rank 0 never arrived" in said
    assert "line 4, the last one, is cut off" in said


def test_a_log_of_another_time_or_clock_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = recording(tmp_path / "events.jsonl", (1, stored(TOKENS)))
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"timestamp": 3, "model": "m", "prompt_token_ids": TOKENS}) + "\n")
    report = report_of(capsys, events, *STATED, "--log", str(log))
    assert report["log"]["when_sent"]["unknown"] == 3, "a clock of its own can't be compared"
    assert report["log"]["timed_requests"] == 0
    assert main(["events", events, *STATED, "--log", str(log), "--block-size", "4"]) == 0
    assert "Not one block of the log was ever stored" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["nowhere.jsonl"], 1, "nowhere.jsonl"),
        (["LOG"], 1, "log.jsonl:1: not a KV event batch"),
        (["EVENTS", "--idle", "1"], 2, "--idle is for a live endpoint"),
        (["EVENTS", "--replay-endpoint", "tcp://x:1"], 2, "--replay-endpoint is for a live endpoint"),
        (["EVENTS", "--topic", "kv"], 2, "--topic is for a live endpoint"),
        (["tcp://127.0.0.1:1", "--replay-endpoint", "file"], 2, "not an endpoint"),
        (["EVENTS", "--requests", "rows.jsonl"], 2, "name it with --log"),
        (["EVENTS", "--at", "noon"], 2, "--at noon: write an ISO 8601 time"),
        (["EVENTS", "--algorithm", "dynamo-local"], 2, "KV events do not carry"),
        (["EVENTS", "--log", "LOG", "--engine", "vllm@0.27"], 2, "at random"),
        (["-", "--log", "-"], 2, "can't both be read from stdin"),
        (["tcp://127.0.0.1:1", "--idle", "0", "--quiet"], 1, "no KV event came from tcp://127.0.0.1:1"),
    ],
)
def test_errors_are_one_sentence(
    arguments: list[str], code: int, part: str, life: tuple[str, str], capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    named = {"EVENTS": life[0], "LOG": life[1]}
    before = sorted(tmp_path.iterdir())
    assert main(["events", *(named.get(argument, argument) for argument in arguments)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("prefixscope: ") and err.count("\n") == 1
    assert part in err
    assert sorted(tmp_path.iterdir()) == before


def test_a_publisher_is_recorded_and_the_recording_read_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    publisher, kept = Publisher(), tmp_path / "kept.jsonl"
    answers = threading.Thread(target=lambda: publisher.answer(6, True))
    answers.start()
    try:
        live = [publisher.events_endpoint, "--replay-endpoint", publisher.replay_endpoint, "--idle", "0.2"]
        report = report_of(capsys, *live, "--record", str(kept))
    finally:
        answers.join()
        publisher.close()
    assert report["batches"] == 6 and len(kept.read_bytes().splitlines()) == 6
    again = report_of(capsys, str(kept))
    assert {**again, "source": ""} == {**report, "source": ""}
    assert report_of(capsys, str(kept), "--batches", "2")["batches"] == 2
    assert main(["events", str(kept), "--record", "-"]) == 0
    assert capsys.readouterr().out.encode() == kept.read_bytes(), "stdout holds the recording and nothing else"
    assert message(0)[1] == (0).to_bytes(8, "big")


def test_the_sample_recording_is_explained_to_the_last_block(capsys: pytest.CaptureFixture[str]) -> None:
    log = ["--log", str(SAMPLES / "kv-requests.jsonl"), "--models", str(SAMPLES / "models.toml")]
    report = report_of(capsys, str(SAMPLES / "kv-events.jsonl"), "--engine", "vllm@0.32", *log)
    assert report["hashes"]["equal"] == report["blocks_stored"] == 108
    assert report["log"]["at_end"]["missing"] == 0
    assert report["log"]["agreeing_requests"] == report["log"]["requests"] == 10
    assert report["log"]["compared_cached_tokens"] == 8960
    events = (SAMPLES / "kv-events.jsonl").read_bytes()
    assert main(["hashes", *log[1:], "--engine", "vllm@0.32", "--block-size", "32", "-q"]) == 0
    ours = [integer for line in capsys.readouterr().out.splitlines() for integer in json.loads(line)["integers"]]
    assert len(ours) == 388
    assert all(str(integer).encode() in events for integer in ours)


def test_ctrl_c_ends_listening_and_reports() -> None:
    publisher = Publisher()
    command = [sys.executable, "-m", "prefixscope", "events", publisher.events_endpoint, "--json", "-"]
    listening = subprocess.Popen(command, cwd=SAMPLES.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert listening.stderr is not None
        assert "Ctrl-C ends it" in listening.stderr.readline()
        for number in range(200):  # a subscription takes a moment to reach the publisher
            publisher.events.send_multipart(message(number))
            time.sleep(0.01)
        listening.send_signal(signal.SIGINT)
        out, err = listening.communicate(timeout=30)
    finally:
        listening.kill()
        publisher.close()
    assert (listening.returncode, err) == (0, "")
    assert 0 < json.loads(out)["batches"] <= 200
