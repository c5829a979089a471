"""The program as a process: what it imports, broken pipes, signals, colours, real input through to the end."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-c", "import sys; from prefixscope.cli.main import main; sys.exit(main())"]


def environment(**changes: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    return kept | {"PYTHONPATH": str(ROOT)} | changes


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    options = {"capture_output": True, "env": environment()} | options
    return subprocess.run([*PROGRAM, *arguments], check=False, timeout=60, **options)  # type: ignore[call-overload]


HEAVY = ("transformers", "tokenizers", "numba", "numpy", "pyarrow", "duckdb", "jinja2", "orjson", "fastokens", "xxhash")


@pytest.mark.parametrize("arguments", [["--help"], ["analyze", "--help"], ["--version"], ["nonsense"]])
def test_help_imports_no_heavy_library(arguments: list[str]) -> None:
    code = (
        "import sys; from prefixscope.cli.main import main; "
        f"main({arguments!r}); print('|'.join(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(), check=True)
    loaded = set(done.stderr.splitlines()[-1].split("|"))
    assert not loaded & set(HEAVY)
    assert "prefixscope.cli.analyze" in loaded


@pytest.mark.parametrize("arguments", [["--json", "-"], []])
def test_a_broken_pipe_ends_quietly(log: Path, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run("analyze", str(log), *arguments, stdout=writing, stderr=subprocess.PIPE, capture_output=False)
    os.close(writing)
    assert done.stderr == b"" or b"warning" in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr
    assert done.returncode == 0


def test_help_into_a_broken_pipe_is_quiet() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run("--help", stdout=writing, stderr=subprocess.PIPE, capture_output=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_broken_pipe_hides_no_failed_gate(log: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = run("analyze", str(log), "--fail-under", "99", stdout=writing, stderr=subprocess.PIPE, capture_output=False)
    os.close(writing)
    assert done.returncode == 3
    assert done.stderr.startswith(b"prefixscope: --fail-under 99: ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [[], ["--json", "-"]])
def test_a_full_stdout_is_a_sentence(log: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = run("analyze", str(log), *arguments, "-q", stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 1
    assert done.stderr == b"prefixscope: standard output: No space left on device\n"


def test_closed_streams_are_no_traceback(log: Path) -> None:
    command = " ".join(f"'{part}'" for part in [*PROGRAM, "analyze", str(log)])
    done = subprocess.run(f"{command} >&- 2>&-", shell=True, env=environment(), capture_output=True, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_runs_leave_nothing(tmp_path: Path, number: signal.Signals, code: int) -> None:
    os.mkfifo(tmp_path / "endless.jsonl")
    target = tmp_path / "out" / "r.json"
    target.parent.mkdir()
    process = subprocess.Popen(
        [*PROGRAM, "analyze", str(tmp_path / "endless.jsonl"), "--json", str(target)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(),
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not list(target.parent.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(target.parent.iterdir()), "the file is opened before the long work"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert (out, err) == (b"", b"prefixscope: interrupted\n" if code == 130 else b"prefixscope: terminated\n")
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("width", ["0", "-1", "wide", "99999999999"])
def test_an_impossible_width_is_ignored(width: str) -> None:
    done = subprocess.run([*PROGRAM, "--help"], env=environment(COLUMNS=width), capture_output=True, check=False)
    assert b"how much of your llm prefill is repeated work" in done.stdout.lower()


def in_a_terminal(arguments: list[str], **changes: str) -> str:
    """What the program shows on a terminal of its own (stdout and stderr together)."""
    shown = b""
    main, inside = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdin=inside, stdout=inside, stderr=inside, env=environment(TERM="xterm", **changes)
    )
    os.close(inside)
    while True:
        try:
            chunk = os.read(main, 65536)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    os.close(main)
    assert process.wait(timeout=30) == 0
    return shown.decode()


def test_colours_and_progress_on_a_terminal(log: Path) -> None:
    shown = in_a_terminal(["analyze", str(log)])
    assert "\x1b[36m" in shown, "cyan bars"
    assert "reading" in shown


def test_no_color_and_quiet_on_a_terminal(log: Path) -> None:
    shown = in_a_terminal(["analyze", str(log), "--quiet"], NO_COLOR="1")
    assert not any(f"\x1b[{code}m" in shown for code in range(30, 48))
    assert "reading" not in shown


def test_ascii_output_is_possible(log: Path) -> None:
    done = run("analyze", str(log), env=environment(PYTHONIOENCODING="ascii"))
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert b"####" in done.stdout
