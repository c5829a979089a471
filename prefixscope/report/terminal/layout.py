"""The look that all parts of a terminal report share: labelled lines, section titles, quiet tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from prefixscope.report.text import visible

__all__ = ["WIDE", "Look", "bullets", "labelled", "plain_table", "section", "user_text"]

WIDE = 110
"""From this many columns on, reports show what is nice to have."""


@dataclass(frozen=True, slots=True)
class Look:
    """How a report is shown.

    `width` in columns; `skips`: list every located skip; `options`: the command line options that this build has, so
    that no sentence names one that is not there.
    """

    width: int = 80
    skips: bool = False
    options: frozenset[str] = frozenset()

    @property
    def is_wide(self) -> bool:
        """Whether there is room for explanations beside the numbers."""
        return self.width >= WIDE


def user_text(text: str | None, absent: str = "(not logged)", style: str = "") -> Text:
    """Text from the user's data: never markup, control characters visible."""
    return Text(absent, style="dim") if text is None else Text(visible(text), style=style)


def labelled(lines: Iterable[tuple[str, RenderableType]]) -> Table:
    """Lines with a label in front; long text wraps behind the label."""
    table = Table.grid(padding=(0, 1), pad_edge=False)
    table.add_column(width=8, no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for label, content in lines:
        table.add_row(label, content)
    return table


def section(title: str, *content: RenderableType) -> Group:
    """A titled part of the report, set off by an empty line and indented."""
    return Group("", Text(f"  {title}", style="bold"), *(Padding(part, (0, 0, 0, 2)) for part in content))


def plain_table(*columns: tuple[str, str]) -> Table:
    """A table without lines: (heading, "left" | "right" | "text") per column; text columns may wrap."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim", show_edge=False)
    for heading, kind in columns:
        if kind == "text":
            table.add_column(heading, overflow="fold", ratio=None)
        else:
            table.add_column(heading, justify="right" if kind == "right" else "left", no_wrap=True)
    return table


def bullets(sentences: Iterable[str | Text], style: str = "") -> Table:
    """Sentences that wrap behind a dash."""
    table = Table.grid(padding=(0, 1), pad_edge=False)
    table.add_column(width=1, no_wrap=True)
    table.add_column(overflow="fold")
    for sentence in sentences:
        table.add_row("-", sentence if isinstance(sentence, Text) else Text(sentence, style=style))
    return table
