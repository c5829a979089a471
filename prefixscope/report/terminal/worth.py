"""One sentence on what reuse is worth."""

from __future__ import annotations

from prefixscope.report.numbers import count, duration, tokens
from prefixscope.results.worth import Worth

__all__ = ["saved_seconds"]


def saved_seconds(worth: Worth) -> str:
    """What reuse is worth in prefill seconds, with its range, or why there is no number."""
    if worth.saved_s is None or worth.low_s is None or worth.high_s is None:
        return f"seconds saved: no number: {worth.why}"
    outside = f"; {count(worth.outside_range)} requests lie outside the measured lengths" if worth.outside_range else ""
    return (
        f"the predicted reuse of {count(worth.requests)} requests ({tokens(worth.cached_tokens)}) saves "
        f"{duration(worth.saved_s)} of prefill when served one after another ({duration(worth.low_s)} to "
        f"{duration(worth.high_s)}){outside}; this is no throughput"
    )
