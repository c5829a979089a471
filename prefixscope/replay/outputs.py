"""Do answers change when the prompt comes from the cache? At temperature 0 they must not: a broken cache is seen here.

Floating point sums may differ in the last bits between a prefill in one piece and one on top of cached blocks. Where
two tokens are equally likely within a tolerance, that decides which one comes out: such a difference is a tie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from prefixscope.replay.measurement import Reading
from prefixscope.results.replay import OutputReport

__all__ = ["TOLERANCE", "OutputCheck", "compare_answers", "output_report_of"]

TOLERANCE = 0.05
"""Natural-log probability; bfloat16 sums differ by about this much (8 bits of mantissa at logits around 10)."""


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """Two answers to one prompt. `position`: the first different token; `logprob_difference` over the equal ones."""

    verdict: Literal["equal", "tie", "different", "unknown"]
    position: int | None = None
    logprob_difference: float | None = None


def compare_answers(cold: Reading, warm: Reading, tolerance: float = TOLERANCE) -> OutputCheck:
    """By token ids where both have them, else by text.

    >>> compare_answers(Reading(output_ids=(5, 6)), Reading(output_ids=(5, 7))).verdict
    'different'
    """
    left: Sequence[object] | None = cold.output_ids
    right: Sequence[object] | None = warm.output_ids
    if left is None or right is None:
        left, right = cold.text, warm.text
    if not left and not right:
        return OutputCheck("unknown")
    same = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    drift = _largest(abs(a - b) for a, b in zip(cold.logprobs[:same], warm.logprobs[:same], strict=False))
    if same == len(left) == len(right):
        return OutputCheck("equal", None, drift)
    by_ids = cold.output_ids is not None and warm.output_ids is not None
    return OutputCheck("tie" if by_ids and _tie(cold, warm, same, tolerance) else "different", same, drift)


def _tie(cold: Reading, warm: Reading, at: int, tolerance: float) -> bool:
    """Both runs had the two best tokens within the tolerance of each other where they parted."""
    if at >= min(len(cold.logprobs), len(warm.logprobs), len(cold.runner_up), len(warm.runner_up)):
        return False
    gaps = (cold.logprobs[at] - cold.runner_up[at], warm.logprobs[at] - warm.runner_up[at])
    return all(abs(gap) <= tolerance for gap in gaps)


def _largest(values: object) -> float | None:
    known = [value for value in values if not math.isnan(value)]  # type: ignore[attr-defined]
    return max(known, default=None)


def output_report_of(
    pairs: Sequence[tuple[int, Reading | None, Reading | None]], tolerance: float = TOLERANCE
) -> OutputReport:
    """Sums up (row, cold answer, warm answer); None where one of them failed."""
    checks = [
        (row, OutputCheck("unknown") if cold is None or warm is None else compare_answers(cold, warm, tolerance))
        for row, cold, warm in pairs
    ]
    different = [(row, check) for row, check in checks if check.verdict == "different"]
    count = {name: sum(check.verdict == name for _, check in checks) for name in ("equal", "tie", "unknown")}
    return OutputReport(
        requests=len(checks),
        equal=count["equal"],
        ties=count["tie"],
        different=len(different),
        unknown=count["unknown"],
        largest_logprob_difference=max(
            (check.logprob_difference for _, check in checks if check.logprob_difference is not None), default=None
        ),
        tolerance=tolerance,
        first_row=different[0][0] if different else None,
        first_position=different[0][1].position if different else None,
    )
