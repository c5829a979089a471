"""Hash traces read as columns give exactly what their rows give one by one: lineage, account, messages and tree."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prefixscope.api import AnalyzeOptions, CapacityOptions, EngineChoice, LogOptions, analyze, capacity
from prefixscope.errors import PrefixscopeError
from prefixscope.index.grafting import Grafting
from prefixscope.ingest import parcel, pipeline, run
from prefixscope.logs import hash_columns, lines, parsing, reading
from prefixscope.report.json import analyze_json, capacity_json, encode
from tests.ingest.compared import SAMPLES, assert_same, read
from tests.ingest.hash_logs import random_trace

ODDITIES = (0.0, 0.02, 0.15, 0.6)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short runs of plain rows become columns, and a file is read in several batches."""
    monkeypatch.setattr(parsing, "FEWEST_ROWS", 3)
    monkeypatch.setattr(reading, "BATCH_BYTES", 6000)
    monkeypatch.setattr(reading, "line_batches", functools.partial(lines.line_batches, size=6000))
    monkeypatch.setattr(reading, "raw_chunks", lambda path: _chunks(Path(path).read_bytes()))


def _chunks(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), 2000):
        yield data[start : start + 2000]


def row_by_row(*files: Path, **options: Any) -> Any:
    """The reference: no row is read as a part of columns."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (pipeline, parcel):
            patch.setattr(module, "rows_may_be_columns", lambda rules: False)
        return outcome(*files, **options)


def outcome(*files: Path, **options: Any) -> Any:
    try:
        return read(*files, **options)
    except PrefixscopeError as error:
        return type(error), str(error)


def assert_equal(*files: Path, **options: Any) -> Any:
    """Both ways agree; gives what they found."""
    fast, slow = outcome(*files, **options), row_by_row(*files, **options)
    if isinstance(slow, tuple):
        assert fast == slow
        return slow
    assert not isinstance(fast, tuple), fast
    assert_same(fast, slow)
    assert fast.breaks is None or fast.breaks.columns.cause.codes.tolist() == slow.breaks.columns.cause.codes.tolist()
    one, other = fast.text.built, slow.text.built
    assert one.identities == other.identities
    assert one.tree.unique_symbols == other.tree.unique_symbols
    renamed: dict[int, int] = {}
    for identity, mine, reference in zip(one.identities, one.ends, other.ends, strict=True):
        path, same = one.tree.tokens_of(mine.leaf), other.tree.tokens_of(reference.leaf)
        if identity.tokenizer is not None:
            assert path == same
            continue
        symbols, others = (np.frombuffer(tokens, "<u4").tolist() for tokens in (path, same))
        assert [renamed.setdefault(symbol, there) for symbol, there in zip(symbols, others, strict=True)] == others
    assert len(set(renamed.values())) == len(renamed)
    return fast


@pytest.mark.parametrize("oddity", ODDITIES)
def test_random_traces(tmp_path: Path, oddity: float, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    take = run.Run.take_columns
    monkeypatch.setattr(run.Run, "take_columns", lambda self, found: (taken.append(len(found)), take(self, found)))
    rows = 0
    for seed in range(30):
        path = tmp_path / f"{seed}.jsonl"
        path.write_bytes(random_trace(seed, 150, unit=(512, 16, 1)[seed % 3], oddity=oddity, bailian=seed % 5 == 4))
        found = assert_equal(path)
        rows += 0 if isinstance(found, tuple) else len(found.lineage)
    assert rows > 2000
    least = {0.0: 1.0, 0.02: 0.9, 0.15: 0.6, 0.6: 0.05}[oddity]
    assert sum(taken) >= least * rows  # else the rows would only be compared with themselves


@pytest.mark.parametrize("oddity", ODDITIES[1:])
def test_options_and_several_files(tmp_path: Path, oddity: float) -> None:
    paths = []
    for seed in range(100, 103):
        paths.append(tmp_path / f"{seed}.jsonl")
        paths[-1].write_bytes(random_trace(seed, 90, unit=512, oddity=oddity, bailian=seed == 101))
    ticket = SAMPLES / "support-chat.jsonl"
    asked = ({"strict": True}, {"breaks": True}, {"namespace_by": "session_id"}, {"format": "mooncake"})
    for options in (*asked, *({"limit": limit} for limit in (1, 2, 17, 90, 91, 200))):
        assert_equal(*paths, **options)
    for options in ({}, {"breaks": True}, {"limit": 300}):
        assert_equal(paths[1], ticket, paths[0], paths[2], paths[1], **options)


def test_traces_with_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    take = run.Run.take_columns
    monkeypatch.setattr(run.Run, "take_columns", lambda self, found: (taken.append(len(found)), take(self, found)))
    # the patch of the fewest rows does not reach other processes
    monkeypatch.setattr(reading, "line_batches", functools.partial(lines.line_batches, size=60_000))
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for seed, path in enumerate(paths):
        path.write_bytes(random_trace(seed, 1500, unit=512, oddity=0.01))
    alone = row_by_row(*paths)
    assert not taken
    assert_same(alone, outcome(*paths, workers=2))
    assert sum(taken) > 1000
    limited = [outcome(*paths, workers=count, limit=1800) for count in (1, 2)]
    assert_same(row_by_row(*paths, limit=1800), limited[0])
    assert_same(*limited)


def test_sessions_behind_and_before_a_trace(tmp_path: Path) -> None:
    requests = [{"t": n, "in": 128, "out": 3, "hash_ids": [1, n], "type": "n"} for n in range(20)]
    session = {"id": "s", "block_size": 64, "hash_id_scope": "global", "requests": requests}
    sessions = tmp_path / "sessions.jsonl"
    sessions.write_text(json.dumps(session) + "\n")
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(random_trace(3, 200, unit=64, oddity=0.1))
    for files in ((sessions, trace), (trace, sessions), (trace, sessions, trace)):
        found = assert_equal(*files)
        assert len(found.lineage) > 150


def test_the_reports_are_equal_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(random_trace(11, 400, unit=512, oddity=0.1))
    log = LogOptions((str(path),), warmup="10%", models=(f"*={SAMPLES / 'model'}",))

    def documents() -> list[str]:
        engine = EngineChoice()
        analyzed = analyze(AnalyzeOptions(log, engine), lambda *_: None)
        curve = capacity(CapacityOptions(log, engine), lambda *_: None)
        return [str(encode(analyze_json(analyzed.reports))), str(encode(capacity_json(curve)))]

    fast = documents()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "rows_may_be_columns", lambda rules: False)
        assert fast == documents()


def test_clean_traces_need_no_walk_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(random_trace(5, 300, unit=512, oddity=0.0, one_model=True))
    monkeypatch.setattr("prefixscope.index.tree.PrefixTree.insert", lambda *_: pytest.fail("inserted from the root"))
    assert len(read(path).lineage) == 300


def test_numbers_below_the_fewest_rows_stay_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "FEWEST_ROWS", hash_columns.FEWEST_ROWS)
    monkeypatch.setattr(Grafting, "insert", lambda *_: pytest.fail("a batch of so few rows"))
    path = tmp_path / "trace.jsonl"
    path.write_bytes(random_trace(6, hash_columns.FEWEST_ROWS - 1, unit=512, oddity=0.0))
    assert len(read(path).lineage) == hash_columns.FEWEST_ROWS - 1
