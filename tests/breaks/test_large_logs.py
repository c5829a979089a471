"""What is done about large logs changes no result where it must not, and is counted where it does."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prefixscope.breaks.effort as effort
import prefixscope.breaks.recurring as recurring
import prefixscope.breaks.sessions as sessions
import prefixscope.ingest.token_texts as token_texts
from prefixscope.api import EngineChoice, LogOptions
from prefixscope.api.reading import ingest_options
from prefixscope.breaks.packed import PackedTable
from prefixscope.ingest import Ingested, ingest
from prefixscope.ingest.token_texts import TokenTexts
from prefixscope.logs import FORMATS, expand
from prefixscope.models.table import ModelEntry
from prefixscope.models.tokenizer import load_model
from tests.breaks.told import ingested, told
from tests.cases import BYTES_MODEL
from tests.real_tokenizers import tokenizer_folder
from tests.shared import needs_shared

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "sample_logs" / "model"


def made(folder: Path, name: str, requests: int, tokens: int = 300) -> Path:
    """A log of benchmarks/breaks.py."""
    path = folder / f"{name}.jsonl"
    arguments = ("--write", path, "--log", name, "--requests", requests, "--tokens", tokens)
    subprocess.run([sys.executable, str(ROOT / "benchmarks" / "breaks.py"), *map(str, arguments)], check=True)
    return path


def read(path: Path, workers: int = 1) -> Ingested:
    log = LogOptions((str(path),), models=(f"*={MODEL}",), workers=workers)
    return ingest(expand(log.logs, FORMATS), ingest_options(log, EngineChoice(), breaks=True), lambda _: None)


@pytest.mark.parametrize("name", ["short", "clock", "completions", "clock-no-sessions"])
def test_what_is_taken_over_is_what_would_be_proven(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "_FREE", 10**12)
    path = made(tmp_path, name, 400)
    taken: Counter[str] = Counter()
    again = recurring.Recurring.again

    def counted(self: recurring.Recurring, *arguments: Any) -> recurring.Again | None:
        found = again(self, *arguments)
        taken["again"] += found is not None
        return found

    monkeypatch.setattr(recurring.Recurring, "again", counted)
    monkeypatch.setattr(recurring, "_ENOUGH", 4)
    monkeypatch.setattr(recurring, "_PROVEN_ONE_IN", 1000)
    fast = read(path)
    assert name == "clock-no-sessions" or taken["again"] > 50
    monkeypatch.setattr(recurring, "_ENOUGH", 10**9)
    slow = read(path)
    assert told(fast) == told(slow)
    assert fast.breaks is not None and slow.breaks is not None
    assert fast.breaks.examples == slow.breaks.examples


def test_a_place_that_turns_out_to_be_something_else_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After many clocks a word stands there: it is no clock, and nothing is taken over behind it."""
    monkeypatch.setattr(recurring, "_PROVEN_ONE_IN", 10**9)
    rules = "You are the support assistant of the bakery. Answer in one short paragraph and never invent prices. " * 4
    rows = []
    for number in range(60):
        now = f"10:{number % 6}0:00" if number != 50 else "as ever"
        rows.append((f"Now {now}. {rules}", f"question {number}"))
    lines = [
        {"model": "m", "session_id": "s", "timestamp": 1_780_000_000 + number,
         "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]}
        for number, (system, question) in enumerate(rows)
    ]  # fmt: skip
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    causes = [row.cause for row in told(read(path))]
    assert causes[50] == causes[51] == "system_variant"
    assert set(causes[1:50]) | set(causes[52:]) <= {"timestamp", "branched"}


@pytest.mark.parametrize(
    "name", ["unique", "tools", "token-ids", "clock", "clock-no-sessions", "completions", "edited"]
)
def test_what_costs_too_much_is_counted_as_not_compared(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path, name, 240)
    monkeypatch.setattr(effort, "_FREE", 10**12)
    whole = told(read(path))
    assert all(row.cause != "not_compared" for row in whole)
    monkeypatch.setattr(effort, "_FREE", 3000)
    first, second = read(path), read(path, workers=2)
    rows = told(first)
    assert rows == told(second)
    missing = [row for row in rows if row.cause == "not_compared"]
    assert 20 < len(missing) < 237
    assert first.breaks is not None and first.breaks.not_compared == len(missing)
    assert all(row.lost == 0 for row in missing)
    late = [(row, other) for row, other in zip(rows[60:], whole[60:], strict=True) if row.cause != "not_compared"]
    assert late, "steps that come with every row are spent on comparing whole rows"
    assert all(row.cause == other.cause for row, other in late)


def test_a_fault_in_every_prompt_does_not_hide_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks are taken over as long as steps for that are left, and what is rare still gets its turn."""
    monkeypatch.setattr(effort, "_FREE", 200_000)
    monkeypatch.setattr(effort, "_AGAIN_PER_ROW", 6.0)
    path = made(tmp_path, "short", 4000)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("search", "weather")]
    for number, line in enumerate(lines):
        if number >= 2000 and number % 4 < 2:
            line.update(session_id=f"agent {number // 4}", tools=tools[:: 1 if number % 4 else -1])
            line["messages"] = [{"role": "user", "content": f"Where does order {number // 4} stand, and who has it?"}]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    causes = Counter(row.cause for row in told(read(path)))
    assert causes["not_compared"] > 500 and causes["timestamp"] > 500
    assert causes["tools_reordered"] > 2, causes


@pytest.mark.parametrize("workers", [1, 2])
def test_forgotten_sessions_are_told(workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path, "short", 900)
    whole = told(read(path))
    monkeypatch.setattr(sessions, "_KNOWN_SESSIONS", 24)
    few = told(read(path, workers))
    assert {row.cause for row in whole} == {"first_seen", "timestamp"}
    changed = [(one, other) for one, other in zip(whole, few, strict=True) if one != other]
    assert 200 < len(changed) < 900 and all(other.cause == "not_compared" for _, other in changed)


@pytest.mark.parametrize("seed", range(5))
def test_a_packed_table_is_a_dict(seed: int) -> None:
    rng = random.Random(seed)
    table, expected = PackedTable(lately=rng.randrange(1, 40)), {}
    for step in range(6000):
        key = rng.choice([rng.randrange(64), rng.getrandbits(63), rng.randrange(3000) << 32])
        if key not in expected:
            assert table.get(key) is None
            expected[key] = step
            table.put(key, step)
        assert table.get(key) == expected[key]
    assert all(table.get(key) == value for key, value in expected.items())


@needs_shared
@pytest.mark.parametrize("name", ["sample", "bytes", "qwen3", "mistral_v3"])
def test_the_table_of_tokens_reads_as_the_tokenizer_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = {"sample": MODEL, "bytes": BYTES_MODEL}.get(name) or tokenizer_folder(name)
    model = load_model(ModelEntry("m", "m", str(folder)))
    monkeypatch.setattr(token_texts, "_ALWAYS_CHECKED", 0)
    monkeypatch.setattr(token_texts, "_CHECKED_ONE_IN", 1 << 60)
    texts = TokenTexts(model)
    rng = random.Random(1)
    assert (texts._backend is None) == (name == "mistral_v3")
    for _ in range(400):
        ids = np.array([rng.randrange(256 if rng.random() < 0.5 else 4000) for _ in range(rng.randrange(16))], "<u4")
        assert texts.decode(ids.tobytes()) == model.decode(ids.tobytes())
    encoded = model.encoder.encode("héllo wörld 🙂 漢字 한국어 <|im_start|> \n\t x", False)
    for start in range(0, len(encoded), 4):
        for end in range(start, len(encoded) + 1, 4):
            assert texts.decode(encoded[start:end]) == model.decode(encoded[start:end])


def test_sample_log_as_before() -> None:
    """All prompts of the sample log break at the clock, and none is left out."""
    read_log = ingested(ROOT / "sample_logs" / "volatile-header.jsonl", models=ROOT / "sample_logs" / "models.toml")
    counted = Counter(row.cause for row in told(read_log))
    assert counted["not_compared"] == 0 and counted["timestamp"] > 200
