"""What reuse is worth in prefill seconds, by a fitted latency."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Worth"]


@dataclass(frozen=True, slots=True)
class Worth:
    """Prefill seconds the predicted reuse saves by the fitted latency, with a 95 % range; or why there is no number.

    `outside_range` requests lie outside the lengths that were measured; they count, but the fit is stretched there.
    """

    requests: int
    cached_tokens: int
    saved_s: float | None
    low_s: float | None
    high_s: float | None
    outside_range: int
    why: str
