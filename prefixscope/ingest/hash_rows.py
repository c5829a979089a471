"""Columns of a hash trace to rows of a lineage: what the prompt maker does with one hash row, for many at once."""

from __future__ import annotations

import numpy as np

from prefixscope.index.lineage import NO_TIME, OUTPUTS, UNKNOWN, Int64
from prefixscope.index.row_batch import RowBatch
from prefixscope.ingest.hash_numbers import HashNumbers
from prefixscope.logs.hash_columns import HashColumns
from prefixscope.models.identity import identity_of
from prefixscope.models.prompt import PromptRules
from prefixscope.records import Identity, LoggedRequest, Source

__all__ = ["ends_early", "row_batch", "rows_may_be_columns"]

_TIER = 5


def rows_may_be_columns(rules: PromptRules) -> bool:
    """Whether these rules look at nothing of a hash row but its model: no changed requests, no field to separate by."""
    return rules.rewrite is None and rules.identity.namespace_by is None


def ends_early(columns: HashColumns) -> int:
    """Rows whose last, partly filled block has no id."""
    return int((columns.id_counts * columns.unit < columns.prompt_tokens).sum())


def row_batch(columns: HashColumns, rules: PromptRules, numbers: HashNumbers) -> RowBatch:
    """The rows, with their ids numbered."""
    rows, unit = len(columns), columns.unit
    generated = columns.output_tokens
    tokens = columns.prompt_tokens
    has_output = generated >= 0
    stored = np.maximum(generated - 1, 0)
    labels = {"file": columns.file, "model": columns.model, "session": columns.session_id}
    identities, identity = _identities(columns, rules)

    def same(value: int) -> Int64:
        return np.full(rows, value, np.int64)

    return RowBatch(
        counts={
            "line": columns.line,
            "unit": same(unit),
            "tier": same(_TIER),
            "output": np.where(has_output, OUTPUTS.index("length"), OUTPUTS.index("unknown")),
            "n": same(1),
            "status": same(UNKNOWN),
            "prompt_tokens": tokens,
            "sequence_tokens": tokens + stored,
            "output_tokens": np.where(has_output, generated, UNKNOWN),
            "measured_prompt_tokens": same(UNKNOWN),
            "measured_cached_tokens": same(UNKNOWN),
            "known_tokens": columns.id_counts if unit == 1 else tokens,
        },
        time_ns=np.where(columns.has_time, columns.time_ns, NO_TIME),
        labels={name: texts for name, texts in labels.items() if texts is not None},
        request_ids=columns.request_id or (None,) * rows,
        reads_cache=True,
        identities=identities,
        identity=identity,
        symbols=numbers.of(columns.ids),
        symbol_counts=columns.id_counts,
    )


def _identities(columns: HashColumns, rules: PromptRules) -> tuple[list[Identity], Int64]:
    """Who may share with whom rests on the model alone."""
    places: dict[str | None, int] = {None: 0} if columns.model is None else {}
    codes = np.zeros(len(columns), np.int64)
    if columns.model is not None:
        codes[:] = [places.setdefault(name, len(places)) for name in columns.model]
    found = []
    for name in places:
        request = LoggedRequest(Source(columns.file, 0), "hashes", {}, model=name, tier=_TIER, unit=columns.unit)
        found.append(identity_of(request, rules.table.resolve(name), rules.identity))
    return found, codes
