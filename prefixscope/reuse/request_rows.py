"""Per-request columns: what each counted request could reuse, what is granted, and where the rest went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from prefixscope.index.lineage import UNKNOWN, Int64, Lineage, Mask
from prefixscope.reuse.accounting import SIMULATED, Accounting

__all__ = ["request_rows"]


def request_rows(lineage: Lineage, accounting: Accounting, counted: Mask) -> Mapping[str, list[Any]]:
    """Columns of the counted rows, in time order; None where something is unknown or was not simulated.

    `time` is in integer nanoseconds UTC (or from the log's start where its clock is relative).
    """
    rows = np.flatnonzero(counted).tolist()

    def known(values: Int64) -> list[int | None]:
        return [None if value == UNKNOWN else value for value in values[rows].tolist()]

    parents = known(lineage.parent_row)
    ids = lineage.request_id.tolist()
    columns: dict[str, list[Any]] = {
        "row": rows,
        "request_id": [ids[row] for row in rows],
        "time": lineage.time_ns[rows].tolist(),
        "model": [lineage.model[row] for row in rows],
        "namespace": [lineage.namespaces[code] for code in lineage.namespace[rows].tolist()],
        "replica": [lineage.replica[row] for row in rows],
        "session_id": [lineage.session[row] for row in rows],
        "tenant": [lineage.tenant[row] for row in rows],
        "prompt_tokens": lineage.prompt_tokens[rows].tolist(),
        "output_tokens": known(lineage.output_tokens),
        "sequence_tokens": lineage.sequence_tokens[rows].tolist(),
        "shared_tokens": lineage.shared_tokens[rows].tolist(),
        "shared_prompt_tokens": lineage.shared_prompt_tokens[rows].tolist(),
        "reusable_tokens": accounting.reusable[rows].tolist(),
        "cached_tokens": accounting.cached[rows].tolist(),
        "expected_cached_tokens": accounting.expected[rows].tolist(),
        "prefill_tokens": (lineage.prompt_tokens - accounting.cached)[rows].tolist(),
        "parent_row": parents,
        "parent": [None if parent is None else ids[parent] for parent in parents],
        "measured_cached_tokens": known(lineage.measured_cached_tokens),
        "loss_last_token": accounting.last_token[rows].tolist(),
        "loss_block_rounding": accounting.block_rounding[rows].tolist(),
        "loss_engine_rule": accounting.engine_rule[rows].tolist(),
    }
    nothing: list[None] = [None] * len(rows)
    for rung in SIMULATED:
        lost = getattr(accounting, rung)
        columns[f"loss_{rung}"] = nothing if lost is None else known(lost)
    for name in ("break_cause", "break_candidate_row", "break_part", "first_different_token", "below_unit"):
        columns[name] = nothing
    if lineage.breaks is not None:
        columns["break_cause"] = [lineage.breaks.cause[row] for row in rows]
        columns["break_part"] = [lineage.breaks.part[row] for row in rows]
        columns["break_candidate_row"] = known(lineage.breaks.candidate_row)
        columns["first_different_token"] = known(lineage.breaks.first_different_token)
    return columns
