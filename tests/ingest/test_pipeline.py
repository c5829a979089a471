"""The pipeline around engines that fail, repeats, and memory that stays in bounds."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from prefixscope.engines.wire import RENDERINGS
from prefixscope.errors import PrefixscopeError
from prefixscope.ingest import IngestOptions, ingest, model_table
from prefixscope.ingest.parcel import Job, Packer
from prefixscope.ingest.settings import prompt_rules
from prefixscope.logs import LogFile, OpenLog, ReadOptions
from prefixscope.logs.known_pieces import KnownPieces
from prefixscope.models import encode
from prefixscope.models.prompt import PromptMaker
from tests.ingest.compared import MODEL, SAMPLES, assert_same, columns, read


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough text for a fast engine, and one marked word late in it."""
    rows = [orjson.loads(line) for line in (SAMPLES / "support-chat.jsonl").read_bytes().splitlines()]
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    with path.open("wb") as file:
        for number in range(170):
            row = dict(rows[number % len(rows)])
            word = "zyx" if number == 150 else "bread"
            row["messages"] = [*row["messages"][:2], {"role": "user", "content": f"{number} {word} " * 60}]
            file.write(orjson.dumps(row) + b"\n")
    return path


@pytest.fixture(autouse=True)
def built_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "BUILD_AFTER_CHARACTERS", 1 << 12)


class WrongAt:
    """A fast engine that drops the last id of texts with a marked word."""

    name = "hasty"

    def __init__(self, backend: Any, word: str) -> None:
        self._inner, self._word = encode.TokenizersEncoder(backend), word

    def encode(self, text: str, add_special_tokens: bool) -> bytes:
        ids = self._inner.encode(text, add_special_tokens)
        return ids[:-4] if self._word in text else ids


def slow(log: Path, **options: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encode, "BUILD_AFTER_CHARACTERS", 1 << 40)
        return read(log, **options)


def test_an_engine_wrong_in_the_middle_starts_the_run_over(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "CHECKED_ONE_IN", 1)
    monkeypatch.setattr(encode.CheckedEncoder, "prove", lambda self, *_: setattr(self, "unchecked", 1))
    monkeypatch.setattr(encode, "_fast_engine", lambda backend: WrongAt(backend, "zyx"))
    found, right = read(log), slow(log)
    assert columns(found.lineage) == columns(right.lineage)
    assert set(found.lineage.provenance["encoders"].values()) == {"tokenizers"}
    (warned,) = (warning for warning in found.report.warnings if warning.reason == "fast_tokenizer_dropped")
    assert (warned.facts["file"], warned.facts["line"]) == (str(log), 151)
    assert warned.facts["tokenizer"] == str(SAMPLES / "model")


def test_an_engine_wrong_at_once_is_dropped_without_reading_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "_fast_engine", lambda backend: WrongAt(backend, "17 bread"))
    found = read(log)
    assert columns(found.lineage) == columns(slow(log).lineage)
    assert set(found.lineage.provenance["encoders"].values()) == {"tokenizers (hasty gave other ids and was dropped)"}
    assert "fast_tokenizer_dropped" in {warning.reason for warning in found.report.warnings}


def test_stdin_can_not_be_read_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode.CheckedEncoder, "prove", lambda self, *_: setattr(self, "unchecked", 1))
    monkeypatch.setattr(encode, "CHECKED_ONE_IN", 1)
    monkeypatch.setattr(encode, "_fast_engine", lambda backend: WrongAt(backend, "zyx"))
    with log.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": file}))
        with pytest.raises(PrefixscopeError, match="stdin can't be read twice; write the log to a file"):
            read("-")


def test_an_engine_that_differs_in_a_worker_is_told_to_the_parent(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode, "_fast_engine", lambda backend: WrongAt(backend, "17 bread"))
    options = IngestOptions(ReadOptions(), model_table([MODEL], None))
    packer = Packer(PromptMaker(prompt_rules(options, True)), with_bodies=False)
    opened = OpenLog(LogFile(str(log)), options.read)
    parcels = [packer.pack(Job(number, opened.plan, batch)) for number, batch in enumerate(opened.batches())]
    assert list(parcels[-1].dropped) == [str(SAMPLES / "model")]


def test_rendering_ahead_changes_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that takes its time: everything behind the first texts waits for it."""
    built = encode._fast_engine
    started = []

    def slowly(backend: Any) -> Any:
        started.append(gc.get_count())
        import time

        time.sleep(1.0)
        return built(backend)

    monkeypatch.setattr(encode, "_fast_engine", slowly)
    assert_same(read(log, breaks=True), slow(log, breaks=True), encoders=False)
    assert len(started) == 1


def test_the_collector_is_left_as_it_was(log: Path) -> None:
    before = gc.get_threshold()
    read(log, limit=5)
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0


def test_identical_prompts_are_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    plain = encode.TokenizersEncoder.encode

    def counted(self: Any, text: str, add_special_tokens: bool) -> bytes:
        calls.append(text)
        return plain(self, text, add_special_tokens)

    monkeypatch.setattr(encode.TokenizersEncoder, "encode", counted)
    row = {"model": "m", "messages": [{"role": "user", "content": "Do you sell rye?"}]}
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(orjson.dumps({**row, "request_id": str(n), "timestamp": n}) + b"\n" for n in range(100)))
    found = read(path)
    assert len(found.lineage) == 100 and len(calls) == 1
    assert found.lineage.shared_tokens[1:].tolist() == found.lineage.prompt_tokens[1:].tolist()


def test_a_small_log_needs_no_compiler_and_no_fast_engine() -> None:
    code = (
        "import sys\nfrom prefixscope.cli.main import main\n"
        f"code = main(['analyze', {str(SAMPLES / 'volatile-header.jsonl')!r}, '--model', {MODEL!r}, '--json', '-', "
        "'--limit', '9'])\n"
        "assert code == 0\n"
        "print([name for name in ('numba', 'fastokens', 'torch', 'duckdb') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=SAMPLES.parent, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == "[]"


def test_progress_is_told(log: Path) -> None:
    told: list[int] = []
    options = IngestOptions(ReadOptions(), model_table([MODEL], None))
    found = ingest([LogFile(str(log))], options, told.append)
    assert told == sorted(told) and told[-1] == found.report.requests_read


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize("name", ["support-chat.jsonl", "agent-tools.jsonl.gz"])
def test_messages_known_from_earlier_lines_change_nothing(
    rendering: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests share their messages then: no rendering, and nothing behind it, may change one."""
    path = str(SAMPLES / name)
    known = []
    real = KnownPieces._fill

    def fill(self: KnownPieces, value: Any, holder: Any, cut: Any) -> bool:
        filled = real(self, value, holder, cut)
        known.append((holder, repr(holder)))
        return filled

    monkeypatch.setattr(KnownPieces, "_fill", fill)
    found = read(path, render=rendering, breaks=True)
    assert len(known) > 100 and all(repr(holder) == before for holder, before in known)
    messages = [message for holder, _ in known for message in holder["messages"]]
    assert len(set(map(id, messages))) < 0.8 * len(messages)
    monkeypatch.setattr(KnownPieces, "plain_object", lambda self, raw: None)
    assert_same(found, read(path, render=rendering, breaks=True))
