"""Causes that no prompt is to blame for: what engine, router or memory took from prompts that kept all they could.

They depend on the engine's rule and on what was simulated, so they are worked out when those are known, from the
losses per row; the columns of the lineage hold what the texts tell.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from prefixscope.breaks.causes import NO_FAULTS
from prefixscope.index.lineage import Int64, Lineage, Mask

__all__ = ["RUNG_OF_CAUSE", "below_unit", "final_causes", "rung_losses_of"]

RUNG_OF_CAUSE: Mapping[str, str] = {
    "engine_rule": "engine_rule",
    "ttl_expired": "lifetime",
    "cache_reset": "reset",
    "in_flight": "in_flight",
    "routed_elsewhere": "routing",
    "evicted": "capacity",
}
"""Which rung of the ladder a cause stands for; `lifetime` and `reset` are told apart from it and are no rungs."""


def below_unit(lineage: Lineage, match_units: Int64) -> Mask:
    """Rows that share something, but less than one unit of a match: no block of it can be found again."""
    shared = lineage.reusable_tokens
    return (shared > 0) & (shared < match_units)


def final_causes(
    lineage: Lineage, match_units: Int64, losses: Mapping[str, Int64 | None], stores_output: Mask | None = None
) -> list[str | None]:
    """The cause of every row under an engine. `losses` are tokens lost per rung and row (None: not simulated).

    Of several rungs the one that took most is named, the upper one where they took the same. Rounding to the unit is
    named only where it took everything; a row whose prompt broke keeps that cause.
    """
    assert lineage.breaks is not None
    causes = [lineage.breaks.cause[row] for row in range(len(lineage))]
    kept_all = np.array([cause in NO_FAULTS for cause in causes], np.bool_)
    names = [cause for cause, rung in RUNG_OF_CAUSE.items() if losses.get(rung) is not None]
    lost = [np.maximum(np.asarray(losses[RUNG_OF_CAUSE[name]]), 0) for name in names]
    too_short = below_unit(lineage, match_units)
    table = np.stack(lost) if lost else np.zeros((0, len(lineage)), np.int64)
    for row in np.flatnonzero(kept_all).tolist():
        if table.shape[0] and table[:, row].max() > 0:
            causes[row] = names[int(table[:, row].argmax())]
            if causes[row] == "engine_rule" and _in_answers(lineage, stores_output, row, int(table[:, row].max())):
                causes[row] = "not_stored"
        elif too_short[row]:
            causes[row] = "shorter_than_block"
    return causes


def rung_losses_of(causes: list[str | None], losses: Mapping[str, Int64 | None], match_lost: Int64) -> Int64:
    """Tokens lost to the cause named for each row; 0 where it is no rung's. `match_lost`: tokens lost to rounding."""
    lost = np.zeros(len(causes), np.int64)
    for row, cause in enumerate(causes):
        rung = losses.get(RUNG_OF_CAUSE.get("engine_rule" if cause == "not_stored" else cause or "", ""))
        if rung is not None:
            lost[row] = max(int(rung[row]), 0)
        elif cause == "shorter_than_block":
            lost[row] = int(match_lost[row])
    return lost


def _in_answers(lineage: Lineage, stores_output: Mask | None, row: int, lost: int) -> bool:
    """Whether most of what is missing lies in an answer, which this engine does not keep."""
    if stores_output is None or stores_output[row]:
        return False
    return 2 * int(lineage.reusable_tokens[row] - lineage.shared_prompt_tokens[row]) > lost
