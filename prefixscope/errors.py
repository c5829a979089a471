"""Every error a user can meet.

    PrefixscopeError            exit code 1: a user error, said in one sentence
    +-- InputError              a log or index can't be used; knows file and line
    |   +-- FormatError         the content is not in the format it was taken for
    |   +-- IndexFileError      an index file is damaged or of a newer version
    +-- ModelError              a model name, tokenizer, template or config can't be resolved
    +-- OptionError             exit code 2: an option's value makes no sense
    +-- EndpointError           a live engine did not answer as it must
    +-- WorkerError             a worker process died or failed
    +-- GateFailed              exit code 3: --fail-under, --strict, lint or validation

`cli.main` catches these (and KeyboardInterrupt, 130); nothing else ends the process. A traceback is a bug.
"""

from __future__ import annotations

__all__ = [
    "EndpointError",
    "FormatError",
    "GateFailed",
    "IndexFileError",
    "InputError",
    "ModelError",
    "OptionError",
    "PrefixscopeError",
    "WorkerError",
]


class PrefixscopeError(Exception):
    """A user error, told in one sentence."""

    exit_code = 1


class InputError(PrefixscopeError):
    """A log or an index can't be used. `file` and `line` (1-based) say where, when known."""

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        where = "" if file is None else (f"{file}: " if line is None else f"{file}:{line}: ")
        super().__init__(where + message)
        self.file = file
        self.line = line


class FormatError(InputError):
    """The content is not in the format it was taken for."""


class IndexFileError(InputError):
    """An index file is damaged, or was written by a newer version."""


class ModelError(PrefixscopeError):
    """A model name, tokenizer, template or config can't be resolved."""


class OptionError(PrefixscopeError):
    """An option's value makes no sense."""

    exit_code = 2


class EndpointError(PrefixscopeError):
    """A live engine did not answer as it must."""


class WorkerError(PrefixscopeError):
    """A worker process died or failed."""


class GateFailed(PrefixscopeError):  # noqa: N818 - the gate failed, the program did not
    """A gate (--fail-under, --strict, lint, validation) was not passed."""

    exit_code = 3
