"""Caches: whole files or none, never in the way, bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prefixscope.user_cache import cache_folder, keep, kept, trim


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PREFIXSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.setenv("PREFIXSCOPE_CACHE", "OFF")
    assert cache_folder() is None
    keep("room", "a", b"x")
    trim("room", 0)
    assert kept("room", "a") is None
    monkeypatch.delenv("PREFIXSCOPE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "prefixscope"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "prefixscope"


def test_what_is_kept_comes_back() -> None:
    assert kept("room", "a") is None
    keep("room", "a", b"one")
    keep("room", "a", b"two")
    assert kept("room", "a") == b"two"


def test_a_folder_that_can_not_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file where the folder should be")
    keep("room", "a", b"x")
    trim("room", 0)
    assert kept("room", "a") is None
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_an_interrupt_leaves_no_half_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        keep("room", "a", b"x")
    assert list((folder / "room").iterdir()) == []


def test_what_was_not_used_for_longest_goes_first(folder: Path) -> None:
    for number, name in enumerate("abcd"):
        keep("room", name, b"x" * 100)
        os.utime(folder / "room" / name, (number, number))
    (folder / "room" / ".dead.tmp").write_bytes(b"half")
    os.utime(folder / "room" / ".dead.tmp", (5, 5))
    (folder / "room" / ".fresh.tmp").write_bytes(b"half")
    assert kept("room", "a") == b"x" * 100
    trim("room", 250)
    assert sorted(path.name for path in (folder / "room").iterdir()) == [".fresh.tmp", "a", "d"]
