"""Several processes give the same result as one, and end well whatever happens to them."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from prefixscope.errors import GateFailed, InputError, ModelError, OptionError
from prefixscope.ingest import workers
from prefixscope.ingest.parcel import Job, Packer
from prefixscope.ingest.settings import prompt_rules
from prefixscope.logs import LogFile, ReadOptions
from tests.ingest.compared import MODEL, SAMPLES, assert_same, read

REPOSITORY = SAMPLES.parent


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Chats of two samples dealt to several files, hash rows, token ids, and every kind of row that is left out."""
    folder = tmp_path_factory.mktemp("logs")
    lines = (SAMPLES / "support-chat.jsonl").read_bytes().splitlines()[:120]
    lines += gzip.decompress((SAMPLES / "agent-tools.jsonl.gz").read_bytes()).splitlines()[:80]
    parts = [folder / f"part{number}.jsonl" for number in range(5)]
    for number, part in enumerate(parts):
        part.write_bytes(b"\n".join(lines[number::5]) + b"\n")
    odd = folder / "odd.jsonl"
    odd.write_bytes(b"\n".join([
        b'{"model": "m", "prompt_token_ids": [1, 2, 3, 4], "output_token_ids": [5, 6], "cache_salt": "a"}',
        b'{"model": "m", "prompt_token_ids": [1, 2, 3, 9], "cache_salt": "b"}',
        b"not json", b"", b'{"model": "m", "messages": []}', b'{"model": "m", "messages": [{"role": 3}]}',
        b'{"model": "m", "prompt": "Once upon a time", "response": "there was rye."}',
        b'{"model": "m", "prompt": ["Once upon a night", [7, 8, 9]]}',
        b'{"model": "m", "prompt": "Once", "prompt": "twice"}',
    ]))  # fmt: skip
    hashes = folder / "hashes.jsonl"
    hashes.write_bytes(b"\n".join((SAMPLES / "hash-trace.jsonl").read_bytes().splitlines()[:50]))
    return [*parts, odd, hashes]


@pytest.mark.parametrize("breaks", [False, True])
def test_the_number_of_processes_changes_nothing(files: list[Path], breaks: bool) -> None:
    alone = read(*files, breaks=breaks, workers=1)
    assert len(alone.lineage) > 200 and len(alone.report.skipped) >= 3 and len(alone.lineage.namespaces) > 3
    assert_same(alone, read(*files, breaks=breaks, workers=3), encoders=False)


def test_a_limit_ends_the_reading_at_the_same_row(files: list[Path]) -> None:
    for limit in (1, 37, 90):
        alone, crew = (read(*files, workers=count, limit=limit) for count in (1, 2))
        assert crew.report.requests_read == limit
        assert_same(alone, crew, encoders=False)


def test_errors_are_those_of_one_process(files: list[Path], tmp_path: Path) -> None:
    for wrong in ({"model": "other=nowhere"}, {"model": "*=/nowhere/at/all"}, {"strict": True}):
        told = []
        for count in (1, 2):
            with pytest.raises((ModelError, GateFailed)) as caught:
                read(*files, workers=count, **wrong)
            told.append((type(caught.value), str(caught.value)))
        assert told[0] == told[1]
    with pytest.raises(InputError, match="there is no such file"):
        read(files[0], tmp_path / "missing.jsonl", workers=2)


def test_workers_are_counted_from_one() -> None:
    with pytest.raises(OptionError, match="--workers 0"):
        read(SAMPLES / "support-chat.jsonl", workers=0)


def test_small_logs_stdin_and_limits_need_no_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefixscope.ingest import IngestOptions, model_table

    options = IngestOptions(ReadOptions(), model_table([MODEL], None))
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"x" * 1000)
    assert workers.worker_count([LogFile(str(log))], options) == 1
    monkeypatch.setattr(workers, "SMALLEST_FOR_WORKERS", 500)
    monkeypatch.setattr(workers, "_cores", lambda: 64)
    assert workers.worker_count([LogFile(str(log))], options) == workers.MOST_WORKERS
    assert workers.worker_count([LogFile(str(log)), LogFile("-")], options) == 1


def test_every_piece_of_a_body_travels_once(files: list[Path]) -> None:
    from prefixscope.ingest import IngestOptions, model_table
    from prefixscope.logs import OpenLog
    from prefixscope.models.prompt import PromptMaker

    options = IngestOptions(ReadOptions(), model_table([MODEL], None), breaks=True)
    packer = Packer(PromptMaker(prompt_rules(options, True)), with_bodies=True)
    sent: list[bytes] = []
    for number, file in enumerate(files[:2]):
        log = OpenLog(LogFile(str(file)), options.read)
        for batch in log.batches():
            for row in packer.pack(Job(number, log.plan, batch)).rows:
                pieces = row.pieces  # type: ignore[union-attr]
                assert pieces is not None
                sent += [text for _, text in pieces.messages if text is not None]
    assert len(sent) == len(set(sent)) > 50


# -- processes that end in the middle -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some batches of different prompts: enough to be interrupted."""
    rows = [orjson.loads(line) for line in (SAMPLES / "support-chat.jsonl").read_bytes().splitlines()]
    path = tmp_path_factory.mktemp("long") / "long.jsonl"
    with path.open("wb") as file:
        number = 0
        while file.tell() < 24 << 20:
            row = rows[number % len(rows)]
            row["messages"] = [{"role": "user", "content": f"{number} {number * 7919} words " * 400}]
            file.write(orjson.dumps(row) + b"\n")
            number += 1
    return path


class Running:
    """The program on a long log with two workers, once both are there."""

    def __init__(self, log: Path) -> None:
        command = [sys.executable, "-m", "prefixscope", "analyze", str(log), "--model", MODEL, "--workers", "2"]
        self.process = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.children: list[int] = []
        until(lambda: len(self.seen()) == 2)
        time.sleep(0.3)

    def seen(self) -> list[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        self.children = [int(child) for child in listed.split()]
        return self.children

    def finished(self) -> tuple[int, str, str]:
        stdout, stderr = self.process.communicate(timeout=60)
        return self.process.returncode, stdout, stderr

    def all_gone(self) -> bool:
        return not any(is_alive(child) for child in self.children)


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def running(long_log: Path) -> Iterator[Running]:
    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():
        pytest.skip("this system does not list the children of a process")
    run = Running(long_log)
    yield run
    if run.process.poll() is None:
        run.process.kill()
        run.process.communicate()


def test_a_killed_worker_ends_the_run_with_the_place(running: Running, long_log: Path) -> None:
    os.kill(running.children[0], signal.SIGKILL)
    code, stdout, stderr = running.finished()
    assert (code, stdout) == (1, "")
    assert "a worker process was killed by SIGKILL" in stderr and "Traceback" not in stderr
    assert f"{long_log}, lines " in stderr
    until(running.all_gone, 10)


def test_ctrl_c_ends_everything_at_once(running: Running) -> None:
    running.process.send_signal(signal.SIGINT)
    code, stdout, stderr = running.finished()
    assert (code, stdout, stderr) == (130, "", "prefixscope: interrupted\n")
    until(running.all_gone, 10)


def test_workers_do_not_outlive_a_killed_parent(running: Running) -> None:
    os.kill(running.process.pid, signal.SIGKILL)
    running.finished()
    until(running.all_gone, 10)
