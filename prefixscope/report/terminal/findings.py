"""What is worth saying before any table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from prefixscope.report.finding_words import finding_in_words
from prefixscope.report.terminal.layout import bullets, section
from prefixscope.report.text import visible
from prefixscope.results import PoolReport

__all__ = ["findings_part"]


def findings_part(pools: Sequence[PoolReport]) -> Iterator[RenderableType]:
    """One part per pool with something to say, named where there are several pools."""
    for pool in pools:
        name = f" ({visible(pool.pool)})" if len(pools) > 1 else ""
        for finding in pool.findings:
            first, *others = finding_in_words(finding, pool.engine)
            yield section(f"first of all{name}", bullets([Text(first, style="bold"), *map(Text, others)]))
