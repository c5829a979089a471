"""Which files are read, and the one sentence for each that can't be."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from prefixscope.errors import FormatError, InputError, OptionError
from prefixscope.logs import FORMATS, LogFile, ReadOptions, expand, is_index, read_logs
from tests.logs.reading_of import read_bytes

ROW = b'{"prompt": "hello"}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_format_prefix_counts_only_for_a_registered_name(folder: Path) -> None:
    (folder / "a.jsonl").write_bytes(ROW)
    assert expand(["native:a.jsonl"], FORMATS) == (LogFile("a.jsonl", "native"),)
    assert expand(["nonsense:a.jsonl"], FORMATS) == (LogFile("nonsense:a.jsonl"),)
    assert expand(["./native:a.jsonl"], FORMATS) == (LogFile("./native:a.jsonl"),)
    assert expand(["C:\\x"], {"C"}) == (LogFile("C:\\x"),)
    assert expand(["native:-"], FORMATS) == (LogFile("-", "native"),)
    (folder / "native:a.jsonl").write_bytes(ROW)
    assert expand(["native:a.jsonl"], FORMATS) == (LogFile("native:a.jsonl"),)


def test_globs_are_sorted_and_hold_no_folders(folder: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "[x].jsonl"):
        (folder / name).write_bytes(ROW)
    (folder / "folder.jsonl").mkdir()
    assert [file.path for file in expand(["?.jsonl"], FORMATS)] == ["a.jsonl", "b.jsonl"]
    assert [file.path for file in expand(["*.jsonl"], FORMATS)] == ["[x].jsonl", "a.jsonl", "b.jsonl"]
    assert expand(["[x].jsonl"], FORMATS) == (LogFile("[x].jsonl"),)
    assert {file.format for file in expand(["native:*.jsonl"], FORMATS)} == {"native"}
    with pytest.raises(InputError, match="matches no file"):
        expand(["*.nothing"], FORMATS)


def test_an_impossible_name_is_a_sentence() -> None:
    with pytest.raises(InputError, match="it holds a NUL character"):
        expand(["a\0b"], FORMATS)


def test_stdin_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="only once"):
        expand(["-", "native:-"], FORMATS)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(ROW * 3)))
    assert [request.source.file for request in read_logs(expand(["-"], FORMATS))] == ["-"] * 3


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"\n \r\n\n", "only blank lines"),
        (bytes(range(130, 146)) + b"\0" * 50 + b"\n", "binary"),
        (b"\xff\xfe{\0", "UTF-16"),
        (b"PAR1....", "Parquet"),
        (b"PK\x03\x04rest", "zip"),
        (b"\x1f\x8b", "can't be unpacked"),
        (b"\x28\xb5\x2f\xfd", "can't be unpacked"),
    ],
)
def test_unusable_content_gets_one_sentence(folder: Path, data: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        read_bytes(folder, data)
    assert caught.value.file is not None and "\n" not in str(caught.value)


def test_missing_and_unreadable_paths(folder: Path) -> None:
    for path, sentence in [
        ("gone.jsonl", "no such file"),
        ("s3://bucket/x", "only local files"),
        (str(folder), "directory"),
        ("bad\0name", "can't be opened"),
    ]:
        with pytest.raises(InputError, match=sentence):
            list(read_logs([LogFile(path)]))
    (folder / "a.jsonl").write_bytes(ROW)
    with pytest.raises(InputError, match="'nonsense' is no log format"):
        list(read_logs(expand(["nonsense:a.jsonl"], FORMATS)))


def test_an_unknown_format_names_what_was_seen(folder: Path) -> None:
    with pytest.raises(FormatError, match=r"keys: colour, size.*prefixscope formats"):
        read_bytes(folder, b'{"colour": 1, "size": 2}\n')
    with pytest.raises(FormatError, match="no JSON object"):
        read_bytes(folder, b"one line\nanother line\n")
    with pytest.raises(OptionError, match="no such format"):
        read_bytes(folder, ROW, format="nonsense")


def test_a_parquet_file_is_an_index(folder: Path) -> None:
    (folder / "x.parquet").write_bytes(b"PAR1\0\0PAR1")
    (folder / "x.jsonl").write_bytes(ROW)
    assert is_index("x.parquet")
    assert not any(is_index(path) for path in ("x.jsonl", "gone", "-", "."))


def test_several_files_keep_their_order(folder: Path) -> None:
    for name in ("b.jsonl", "a.jsonl"):
        (folder / name).write_bytes(ROW * 2)
    reading = read_logs([LogFile("b.jsonl"), LogFile("a.jsonl"), LogFile("a.jsonl")], ReadOptions())
    sources = [(request.source.file, request.source.line) for request in reading]
    assert sources == [("b.jsonl", 1), ("b.jsonl", 2), ("a.jsonl", 1), ("a.jsonl", 2), ("a.jsonl", 1), ("a.jsonl", 2)]
    assert [w["reason"] for w in reading.ledger.warnings].count("file_named_twice") == 1
