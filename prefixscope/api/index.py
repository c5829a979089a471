"""`index`: reads and tokenises once; the result holds no text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

import numpy as np

from prefixscope import __version__
from prefixscope.api.options import EngineChoice, LogOptions, Progress
from prefixscope.api.reading import lineage_of, selected
from prefixscope.index.store import write_index as store_index
from prefixscope.results import (
    InputReport,
)

__all__ = ["IndexSummary", "write_index"]


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """What an index file holds."""

    rows: int
    namespaces: int
    pools: tuple[str, ...]
    prompt_tokens: int
    unique_tokens: int
    input: InputReport


def write_index(options: LogOptions, engine: EngineChoice, file: IO[bytes], progress: Progress) -> IndexSummary:
    """Reads and tokenises once and writes the lineage as Parquet to an open binary file."""
    ingested = lineage_of(options, engine, progress, breaks=True)
    lineage = selected(ingested.lineage, options).lineage
    store_index(lineage, file, tool_version=__version__)
    return IndexSummary(
        rows=len(lineage),
        namespaces=len(np.unique(lineage.namespace)),
        pools=lineage.pools,
        prompt_tokens=int(lineage.prompt_tokens.sum()),
        unique_tokens=int((lineage.sequence_tokens - lineage.shared_tokens).sum()),
        input=ingested.report,
    )
