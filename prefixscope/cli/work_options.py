"""Options of how the work is done, which never change a result."""

from __future__ import annotations

from typing import Annotated

import typer

from prefixscope.cli.options import READING

__all__ = ["Workers"]

Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="Processes that read, render and tokenise. Default: one for small logs, one per core for large ones.",
        rich_help_panel=READING,
        show_default=False,
    ),
]
