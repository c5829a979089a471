"""Many rows at once on their way into a lineage, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prefixscope.index.lineage import Int64
from prefixscope.records import Identity

__all__ = ["RowBatch"]


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Rows in the order of their log, all of whose known symbols are of the prompt.

    There is at least one. `counts` holds the builder's columns of numbers by name, `labels` those of its columns of
    texts that any row has; a single text stands for all rows.
    `identity` is a place in `identities`, one a row. `symbols` holds `symbol_counts[k]` symbols of row k behind those
    of the rows before; they are small numbers, given without large gaps. Only the time of arrival is known.
    """

    counts: Mapping[str, Int64]
    time_ns: Int64
    labels: Mapping[str, Sequence[str | None] | str]
    request_ids: Sequence[str | None]
    reads_cache: bool
    identities: Sequence[Identity]
    identity: Int64
    symbols: npt.NDArray[np.uint32]
    symbol_counts: Int64

    def __len__(self) -> int:
        return len(self.time_ns)
