"""Lists of what the tool knows: models with their facts, log formats with what each can tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from prefixscope.report.numbers import bytes_, count
from prefixscope.report.terminal.layout import plain_table
from prefixscope.report.text import visible

__all__ = ["fact_sheets", "format_sheet", "format_table"]


def fact_sheets(items: Sequence[Any], nothing: str) -> RenderableType:
    """One sheet per frozen dataclass: its `name` as the title, then every field that is known, by its own name."""
    if not items:
        return Text(nothing)
    parts: list[RenderableType] = []
    for item in items:
        fields = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        parts.extend(["", Text(visible(str(fields.pop("name", type(item).__name__))), style="bold"), _sheet(fields)])
    return Group(*parts[1:])


def format_table(formats: Sequence[Any]) -> RenderableType:
    """One line per format: its name, what it is, what it can tell beyond prompts."""
    table = plain_table(("format", "left"), ("what it is", "text"), ("what it tells", "text"))
    for form in formats:
        table.add_row(Text(visible(form.name), "bold"), visible(form.description), ", ".join(_tells(form)))
    hint = "prefixscope formats --how NAME says how to switch such logging on."
    return Group(table, "", Text(hint, style="dim"))


def format_sheet(form: Any) -> RenderableType:
    """One format in full, with how to switch its logging on."""
    table = _sheet({"what it is": form.description, "what it tells": ", ".join(_tells(form)), "switch it on": form.how})
    return Group(Text(visible(form.name), style="bold"), table)


def _tells(form: Any) -> list[str]:
    """The capabilities of a format (its `has_...` fields that are true) in words."""
    names = sorted(name for name in dir(form) if name.startswith("has_") and getattr(form, name) is True)
    return [name.removeprefix("has_").replace("_", " ") for name in names] or ["nothing more"]


def _sheet(fields: Mapping[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for name, value in fields.items():
        if value is not None and value != () and value != {}:
            table.add_row(f"  {visible(name.replace('_', ' '))}", Text(_value(name, value)))
    return table


def _value(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return bytes_(value) if "bytes" in name else count(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{visible(str(key))}: {_value(name, item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_value(name, item) for item in value)
    return visible(str(value))
