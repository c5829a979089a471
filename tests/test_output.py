"""OutputFile: whole or absent, never over someone's file, every failure a sentence."""

from __future__ import annotations

import gc
import itertools
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path
from types import FrameType

import pytest

from prefixscope.errors import PrefixscopeError
from prefixscope.output import OutputFile, remove_unfinished

ROOT = Path(__file__).resolve().parents[1]


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_appears_only_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    with OutputFile(str(target), option="--json") as handle:
        handle.write(b"{}")
        assert not target.exists()
        assert len(names(tmp_path)) == 1
    assert target.read_bytes() == b"{}"
    assert names(tmp_path) == ["report.json"]


def test_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    with OutputFile(str(tmp_path / "ours"), option="--json") as handle:
        handle.write(b"x")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_leaves_nothing_on_error(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), OutputFile(str(tmp_path / "report.json"), option="--json") as handle:
        handle.write(b"half")
        raise error
    assert names(tmp_path) == []


def test_refuses_an_existing_file_before_the_work(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("mine")
    with pytest.raises(PrefixscopeError, match=r"^--json .*report\.json: the file exists; --force overwrites it$"):
        OutputFile(str(target), option="--json").__enter__()
    assert target.read_text() == "mine"
    assert names(tmp_path) == ["report.json"]


def test_refuses_a_file_that_appeared_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    with (
        pytest.raises(PrefixscopeError, match="the file exists"),
        OutputFile(str(target), option="--json") as handle,
    ):
        handle.write(b"ours")
        target.write_text("theirs")
    assert target.read_text() == "theirs"
    assert names(tmp_path) == ["report.json"]


def test_refuses_at_the_end_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with OutputFile(str(tmp_path / "a"), option="--json") as handle:
        handle.write(b"a")
    assert (tmp_path / "a").read_bytes() == b"a"
    with pytest.raises(PrefixscopeError, match="exists"), OutputFile(str(tmp_path / "b"), option="-o"):
        (tmp_path / "b").write_text("theirs")
    assert names(tmp_path) == ["a", "b"]


def test_force_overwrites_and_keeps_the_mode_and_the_link(tmp_path: Path) -> None:
    real = tmp_path / "real.json"
    real.write_text("old")
    real.chmod(0o640)
    link = tmp_path / "link.json"
    link.symlink_to(real)
    with OutputFile(str(link), option="--json", force=True) as handle:
        handle.write(b"new")
        assert real.read_text() == "old"
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


def test_force_keeps_the_old_file_when_the_work_fails(tmp_path: Path) -> None:
    target = tmp_path / "report.json"
    target.write_text("old")
    with pytest.raises(RuntimeError), OutputFile(str(target), option="--json", force=True) as handle:
        handle.write(b"new")
        raise RuntimeError
    assert target.read_text() == "old"
    assert names(tmp_path) == ["report.json"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("no/such/x.json", r"--json .*: the folder .*no/such does not exist"),
        (".", "is a folder, not a file"),
        ("x" * 300, "the name is too long"),
        ("nul\0byte", "can't be used"),
    ],
)
def test_bad_paths_are_sentences(tmp_path: Path, name: str, sentence: str) -> None:
    with pytest.raises(PrefixscopeError, match=sentence):
        OutputFile(os.path.join(tmp_path, name), option="--json").__enter__()
    assert names(tmp_path) == []


def test_empty_name() -> None:
    with pytest.raises(PrefixscopeError, match="the file name is empty"):
        OutputFile("", option="--json").__enter__()


def test_devices_are_written_straight() -> None:
    with OutputFile("/dev/null", option="--json") as handle:
        handle.write(b"gone")
    assert not Path("/dev/null").is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_a_sentence() -> None:
    with (
        pytest.raises(PrefixscopeError, match=r"^--requests /dev/full: the disk is full$"),
        OutputFile("/dev/full", option="--requests") as handle,
    ):
        handle.write(b"x" * (3 << 20))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_at_the_last_flush_is_a_sentence() -> None:
    with (
        pytest.raises(PrefixscopeError, match="the disk is full"),
        OutputFile("/dev/full", option="--requests") as handle,
    ):
        handle.write(b"x")


def run(code: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, check=False, **options
    )


@pytest.mark.parametrize("path", ["-", "/dev/stdout", "/dev/fd/1"])
def test_standard_output_by_any_name(path: str) -> None:
    done = run(f"""
        from prefixscope.output import OutputFile, remove_unfinished
        print("before")
        with OutputFile({path!r}, option="--json") as handle:
            handle.write(b"{{}}")
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.replace(b"\r", b"") in (b"before\n{}", b"{}before\n")
    assert done.stderr == b""


def test_stdout_redirected_to_a_file_is_not_taken_for_an_existing_file(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from prefixscope.output import OutputFile\n"
                "with OutputFile('/dev/stdout', option='--json') as h: h.write(b'{}')",
            ],
            cwd=ROOT,
            stdout=out,
            check=True,
        )
    assert (tmp_path / "out").read_bytes() == b"{}"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (PermissionError(13, "Permission denied"), "permission denied"),
        (OSError(30, "Read-only file system"), "the file system is read-only"),
        (OSError(24, "Too many open files"), "Too many open files"),
    ],
)
def test_files_that_can_not_be_opened_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, sentence: str
) -> None:
    def refuse(*_: object) -> int:
        raise error

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PrefixscopeError, match=rf"--json .*x\.json: {sentence}$"):
        OutputFile(str(tmp_path / "x.json"), option="--json").__enter__()


def test_a_failing_sync_is_a_sentence_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(PrefixscopeError, match="Input/output error"), OutputFile(str(tmp_path / "x"), option="-o"):
        pass
    assert names(tmp_path) == []


def write_new(target: Path, force: bool) -> None:
    with OutputFile(str(target), option="--json", force=force) as handle:
        handle.write(b"new")


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line that runs within output.py or its user, as Ctrl-C could."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: FrameType, event: str, argument: object) -> Interrupt | None:
        if not frame.f_code.co_filename.endswith(os.sep + "output.py") and frame.f_code is not write_new.__code__:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # handles that nobody could close
@pytest.mark.parametrize("force", [False, True])
def test_an_interrupt_at_any_line_leaves_a_whole_file_or_nothing(tmp_path: Path, force: bool) -> None:
    outcomes = set()
    for line in itertools.count(1):
        folder = tmp_path / str(line)
        folder.mkdir()
        target = folder / "r.json"
        if force:
            target.write_bytes(b"old")
        interrupt = Interrupt(line)
        before = sys.gettrace()
        try:
            sys.settrace(interrupt)
            write_new(target, force)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        gc.collect()
        remove_unfinished()
        left = {path.name: path.read_bytes() for path in folder.iterdir()}
        outcomes.add(str(left))
        assert left in ([{"r.json": b"old"}] if force else [{}]) + [{"r.json": b"new"}], line
        if interrupt.left > 0:
            break
    assert len(outcomes) == 2
    assert line > 50
