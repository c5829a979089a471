"""Standard output and error as consoles, and progress on stderr while the work is long.

Colours and the width of the window only on a terminal; elsewhere no colours, and the width is COLUMNS or 80.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from prefixscope.api import Progress
    from prefixscope.report.terminal import Look

__all__ = ["console_for", "look_of", "say", "show", "shown_progress"]

NARROWEST = 60


def console_for(stream: TextIO | None) -> Console:
    """A console that shows data as it is: no markup, no highlighting, no emoji codes."""
    from rich.console import Console

    stream = stream if stream is not None else io.StringIO()  # the stream was closed by the caller (>&-)
    is_terminal = bool(getattr(stream, "isatty", lambda: False)())
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
    if not encoding.startswith("utf") and isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    options: dict[str, Any] = {"markup": False, "highlight": False, "emoji": False, "soft_wrap": False}
    if not is_terminal:
        options |= {"force_terminal": False, "no_color": True, "width": max(columns(), NARROWEST)}
    return Console(file=stream, **options)


def show(report: RenderableType) -> None:
    """Prints to stdout; where that is no terminal, without the blanks that fill lines up."""
    console = console_for(sys.stdout)
    if console.is_terminal or sys.stdout is None:
        console.print(report, soft_wrap=isinstance(report, str))
        return
    with console.capture() as capture:
        console.print(report, soft_wrap=isinstance(report, str))
    for line in capture.get().splitlines():
        print(line.rstrip())


def look_of(stream: TextIO | None, *, skips: bool = False) -> Look:
    """How reports on this stream look; knows which options this build has."""
    from prefixscope.cli.main import option_names
    from prefixscope.report.terminal import Look

    return Look(width=console_for(stream).width, skips=skips, options=option_names())


def columns() -> int:
    """COLUMNS where it is a sensible number, else 80."""
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() and 0 < int(text) < 10_000 else 80


def say(sentence: str) -> None:
    """One line on stderr; a closed stderr is no reason to fail."""
    if sys.stderr is None:
        return
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    with contextlib.suppress(OSError, ValueError):
        print(sentence.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


@contextlib.contextmanager
def shown_progress(quiet: bool) -> Iterator[Progress]:
    """A function to report progress to; it draws on stderr when that is a terminal and the user wants it."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield _silent
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Drawn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[done]}"),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Drawn(*columns, console=console_for(sys.stderr), transient=True) as drawn:
        yield _Tasks(drawn).report


def _silent(what: str, done: int, total: int | None) -> None:
    """Progress that nobody watches."""


class _Tasks:
    """One line per kind of work, in order of appearance."""

    def __init__(self, drawn: Any) -> None:
        self._drawn = drawn
        self._tasks: dict[str, Any] = {}

    def report(self, what: str, done: int, total: int | None) -> None:
        from prefixscope.report.numbers import tokens
        from prefixscope.report.text import visible

        if what not in self._tasks:
            self._tasks[what] = self._drawn.add_task(visible(what), total=total, done="", rate="")
        task = self._tasks[what]
        seconds = self._drawn.tasks[self._drawn.task_ids.index(task)].elapsed
        rate = f"{tokens(round(done / seconds))}/s" if seconds else ""
        amount = tokens(done) if total is None else f"{tokens(done)} of {tokens(total)}"
        self._drawn.update(task, completed=done, total=total, done=amount, rate=rate)
