"""`models` and `formats`: what the tool knows without reading a log."""

from __future__ import annotations

from dataclasses import fields

from prefixscope.api.options import LogOptions
from prefixscope.ingest import model_table
from prefixscope.logs import FORMATS
from prefixscope.models.sheet import ModelSheet, model_sheet
from prefixscope.models.table import ModelEntry
from prefixscope.results import (
    FormatFacts,
)

__all__ = ["formats", "model_facts"]


def model_facts(names: tuple[str, ...], options: LogOptions) -> tuple[ModelSheet, ...]:
    """One sheet per name, folder or hub id; without names, one per entry of --model and --models."""
    table = model_table(options.models, options.models_file)
    entries = list(table.entries.values())
    if names:
        entries = [table.resolve(name) or ModelEntry(name, base=name, location=name) for name in names]
    return tuple(model_sheet(entry) for entry in entries)


def formats() -> tuple[FormatFacts, ...]:
    """Every log format that can be read."""
    names = [facts.name for facts in fields(FormatFacts)]
    return tuple(FormatFacts(**{name: getattr(form, name) for name in names}) for form in FORMATS.values())
