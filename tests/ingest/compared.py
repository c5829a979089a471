"""What must be equal when the same log is read in another way."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from prefixscope.index.lineage import Labels, Lineage
from prefixscope.ingest import Ingested, IngestOptions, ingest, model_table
from prefixscope.logs import LogFile, ReadOptions

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"
MODEL = f"*={SAMPLES / 'model'}"


def read(*files: Path | str, **options: Any) -> Ingested:
    """The lineage of some files under the model of the sample logs."""
    reading = {name: options.pop(name) for name in ("strict", "limit", "format") if name in options}
    table = model_table([options.pop("model", MODEL)], None)
    asked = IngestOptions(ReadOptions(**reading), table, **options)
    return ingest([LogFile(str(file)) for file in files], asked, lambda done: None)


def assert_same(one: Ingested, other: Ingested, *, encoders: bool = True) -> None:
    """Every column, name and count of two runs; `encoders`: also the engines that served."""
    assert columns(one.lineage) == columns(other.lineage)
    provenance = [dict(ingested.lineage.provenance) for ingested in (one, other)]
    if not encoders:
        for facts in provenance:
            facts.pop("encoders")
    assert provenance[0] == provenance[1]
    assert one.report == other.report


def columns(lineage: Lineage) -> dict[str, Any]:
    """All columns as plain lists."""
    found: dict[str, Any] = {"namespaces": lineage.namespaces, "pools": lineage.pools}
    for column in dataclasses.fields(lineage):
        found |= _plain(column.name, getattr(lineage, column.name))
    return found


def _plain(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Labels):
        return {name: [value.codes.tolist(), value.names]}
    if isinstance(value, np.ndarray):
        return {name: value.tolist()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f"{name}.{part.name}": _plain("", getattr(value, part.name)) for part in dataclasses.fields(value)}
    return {}
