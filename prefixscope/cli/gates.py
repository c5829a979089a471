"""Gates: a result that is not good enough ends a run with exit code 3."""

from __future__ import annotations

from collections.abc import Sequence

from prefixscope.errors import GateFailed
from prefixscope.report.numbers import of, share
from prefixscope.report.words import engine_name
from prefixscope.results import AnalyzeReport

__all__ = ["below"]


def below(reports: Sequence[AnalyzeReport], least: float | None) -> GateFailed | None:
    """The failure of `--fail-under` for the first engine whose expected share is below `least`; None where all pass.

    A log without prompt tokens passes no gate: an unknown share is not a good one.
    """
    if least is None:
        return None
    for report in reports:
        found = report.totals.expected_token_hit_rate
        if found is None:
            return GateFailed(f"--fail-under {least * 100:g}: no prompt tokens were counted, so the share is unknown")
        if found < least:
            names = ", ".join(dict.fromkeys(engine_name(pool.engine) for pool in report.pools))
            counts = of(report.totals.expected_cached_tokens, report.totals.prompt_tokens, "prompt tokens")
            return GateFailed(f"--fail-under {least * 100:g}: {names} is expected to reuse {share(found)} ({counts})")
    return None
