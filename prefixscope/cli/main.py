"""The command line: which commands there are, and how every run ends.

Exit codes: 0 done; 1 a user error in one sentence; 2 usage; 3 a gate failed; 130 interrupted (143 terminated). Nothing
else in the package ends the process, and a traceback is always our bug.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer

from prefixscope import __version__
from prefixscope.cli.analyze import analyze
from prefixscope.cli.blocks import blocks
from prefixscope.cli.capacity import capacity
from prefixscope.cli.events import events
from prefixscope.cli.explain import explain
from prefixscope.cli.formats import formats
from prefixscope.cli.hashes import hashes
from prefixscope.cli.index import index
from prefixscope.cli.lint import lint
from prefixscope.cli.models import models_
from prefixscope.cli.replay import replay
from prefixscope.cli.screen import columns, say
from prefixscope.errors import PrefixscopeError
from prefixscope.output import remove_unfinished
from prefixscope.report.text import visible

__all__ = ["app", "main", "option_names"]

app = typer.Typer(
    name="prefixscope",
    help="How much of your LLM prefill is repeated work, what your engine can reuse of it, and where the rest goes.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "analyze": analyze,
    "index": index,
    "blocks": blocks,
    "capacity": capacity,
    "explain": explain,
    "lint": lint,
    "replay": replay,
    "hashes": hashes,
    "events": events,
    "models": models_,
    "formats": formats,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"prefixscope {__version__}")
        raise typer.Exit


@app.callback()
def _prefixscope(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def option_names() -> frozenset[str]:
    """Every option that some command of this build has."""
    commands = getattr(typer.main.get_command(app), "commands", {}).values()
    return frozenset(name for command in commands for parameter in command.params for name in parameter.opts)


class _Terminated(BaseException):
    """The process was asked to end (SIGTERM, SIGHUP)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code; `arguments` default to those of the process."""
    try:
        return _ended(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # once more, while the first was being answered
        return 130
    finally:
        remove_unfinished()


def _ended(arguments: list[str]) -> int:
    """Runs one command; however it ends, it becomes an exit code and at most one sentence."""
    try:
        _print_in_any_encoding()
        if "COLUMNS" in os.environ:
            os.environ["COLUMNS"] = str(columns())  # help for a width of nothing would be empty
        with _asked_to_end():
            code = _run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()
        return code
    except PrefixscopeError as error:
        return _fail(visible(str(error)), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except _Terminated:
        return _fail("terminated", 143)
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except SystemExit as ended:
        # rich ends the process itself when nobody reads what it prints; nobody else does
        if isinstance(ended.__context__, BrokenPipeError):
            return 0
        raise
    except MemoryError:
        return _fail("out of memory; --limit N reads fewer requests", 1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _forget_stdout()
        return _fail(f"{visible(str(error.filename or 'standard output'))}: {error.strerror}", 1)
    except Exception as error:
        message = _usage_message(error)
        if message is None:
            raise
        return _fail(message, 2)


def _print_in_any_encoding() -> None:
    """Help texts hold characters beyond ASCII: a stream that can't carry one shows its escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")


def _run(arguments: list[str]) -> int:
    """Parses and runs. Not by calling the app: that would end the process itself on a broken pipe."""
    command = typer.main.get_command(app)
    if not arguments:
        arguments = ["--help"]
    try:
        with command.make_context("prefixscope", arguments) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    return 0


def _usage_message(error: Any) -> str | None:
    """The sentence of a usage error; None for what is none. Their classes are private, so they are told by shape."""
    if not callable(getattr(error, "format_message", None)) or getattr(error, "exit_code", None) is None:
        return None
    message = str(error.format_message()).strip().rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "prefixscope"
    return f"{visible(message)}. {path} --help lists what can be given."


def _fail(sentence: str, code: int) -> int:
    say(f"prefixscope: {sentence}")
    return code


def _forget_stdout() -> None:
    """Nobody reads stdout any more: what is still buffered goes nowhere, also when the interpreter ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def _asked_to_end() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into an exception, so that half-written files are removed; only where unhandled."""

    def stop(*_: object) -> None:
        raise _Terminated

    replaced = []
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        with contextlib.suppress(ValueError):  # not in the main thread
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, stop)
                replaced.append(number)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)
