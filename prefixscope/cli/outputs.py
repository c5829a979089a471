"""What a command writes besides its report: opened before the work, filled after it, and told at the end."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from prefixscope.cli.screen import say, show
from prefixscope.errors import OptionError
from prefixscope.output import OutputFile
from prefixscope.report.text import visible
from prefixscope.report.warnings import warnings_in_words
from prefixscope.results import Warned

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Outputs"]


class Outputs:
    """The files of one command. Entering opens them; leaving in peace makes them appear.

    With one of them on standard output, that holds nothing else: the report is not shown, and warnings go to stderr.
    """

    def __init__(
        self,
        *,
        json_file: str | None = None,
        requests: str | None = None,
        force: bool = False,
        stdout_is_data: bool = False,
        more: Mapping[str, str | None] | None = None,
    ) -> None:
        from prefixscope.report.rows import row_format

        if requests is not None:
            row_format(requests)
        named = [("--json", json_file), ("--requests", requests), *(more or {}).items()]
        self._files = {
            option: OutputFile(path, option=option, force=force) for option, path in named if path is not None
        }
        self._stdout_is_data = stdout_is_data
        self._refuse_one_file_for_two()
        self._stack = contextlib.ExitStack()
        self._handles: dict[str, IO[bytes]] = {}

    def _refuse_one_file_for_two(self) -> None:
        taken: dict[str, str] = {"-": "another file"} if self._stdout_is_data else {}
        for option, file in self._files.items():
            place = "-" if file.is_stdout else os.path.realpath(file.path)
            if place in taken and place != os.path.realpath(os.devnull):
                raise OptionError(f"{taken[place]} and {option} both write to {file.path}")
            taken[place] = option

    @property
    def stdout_is_data(self) -> bool:
        """Whether standard output is taken by a file."""
        return self._stdout_is_data or any(file.is_stdout for file in self._files.values())

    def __enter__(self) -> Outputs:
        with self._stack as stack:
            for option, file in self._files.items():
                self._handles[option] = stack.enter_context(file)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def write_json(self, document: Mapping[str, Any]) -> None:
        """Writes the document where the user asked for it."""
        from prefixscope.report.json import encode

        if "--json" in self._handles:
            self._handles["--json"].write(encode(document))

    def write(self, option: str, content: bytes) -> None:
        """Writes a file of another option (`more`) where the user asked for it."""
        if option in self._handles:
            self._handles[option].write(content)

    def write_rows(self, rows: Mapping[str, Sequence[Any]]) -> None:
        """Writes the rows where the user asked for them."""
        from prefixscope.report.rows import write_rows

        if "--requests" in self._handles:
            write_rows(rows, self._handles["--requests"], self._files["--requests"].path)

    def tell(self, report: RenderableType, *, warnings: Iterable[Warned] = (), quiet: bool = False) -> None:
        """Shows the report, or where stdout holds data its warnings on stderr; then the names of the files written."""
        written = [f"Wrote {visible(file.path)}" for file in self._files.values() if not file.is_stdout]
        if not self.stdout_is_data:
            show(report)
            for line in written:
                show(line)
        elif not quiet:
            for sentence in warnings_in_words(warnings):
                say(f"prefixscope: warning: {sentence}")
            for line in written:
                say(line)
