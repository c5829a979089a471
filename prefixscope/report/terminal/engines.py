"""Several engines on one log, side by side."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from prefixscope.report.numbers import count, percent, tokens
from prefixscope.report.terminal.layout import plain_table, section
from prefixscope.report.words import engine_name
from prefixscope.results import AnalyzeReport

__all__ = ["engine_names", "side_by_side"]


def engine_names(report: AnalyzeReport) -> str:
    """The engines of a report, in the order of its pools."""
    return ", ".join(dict.fromkeys(engine_name(pool.engine) for pool in report.pools)) or "no engine"


def side_by_side(reports: Sequence[AnalyzeReport]) -> RenderableType:
    """One line per engine; prompt and ideal are the log's, what differs is what the rules let through."""
    table = plain_table(
        ("engine", "text"),
        ("unit", "right"),
        ("cached", "right"),
        ("of prompt", "right"),
        ("expected", "right"),
        ("left to compute", "right"),
    )
    for report in reports:
        totals = report.totals
        units = sorted({pool.engine.match_unit for pool in report.pools})
        table.add_row(
            Text(engine_names(report)),
            ", ".join(count(unit) for unit in units),
            tokens(totals.cached_tokens),
            percent(totals.cached_tokens, totals.prompt_tokens),
            percent(totals.expected_cached_tokens, totals.prompt_tokens),
            tokens(totals.expected_prefill_tokens),
        )
    ideal = reports[0].totals
    table.add_row(
        Text("ideal", "dim"),
        "",
        tokens(ideal.reusable_tokens),
        percent(ideal.reusable_tokens, ideal.prompt_tokens),
        "",
        tokens(ideal.ideal_prefill_tokens),
        style="green",
    )
    whole = tokens(ideal.prompt_tokens)
    return section(f"engines side by side (shares are of {whole} prompt tokens, in infinite memory)", table)
