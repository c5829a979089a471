"""The terminal report: a list of rich renderables, in the order a reader needs them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from prefixscope.report.numbers import plural
from prefixscope.report.terminal.blocks import block_chart
from prefixscope.report.terminal.breaks import breaks_essence
from prefixscope.report.terminal.capacity import capacity_essence, capacity_parts
from prefixscope.report.terminal.engines import engine_names, side_by_side
from prefixscope.report.terminal.findings import findings_part
from prefixscope.report.terminal.groups import group_tables, sessions_part
from prefixscope.report.terminal.head import head, input_lines
from prefixscope.report.terminal.headline import headline, rates
from prefixscope.report.terminal.ladder import ladder, pools_table
from prefixscope.report.terminal.layout import Look, bullets, section
from prefixscope.report.terminal.measured import measured_part
from prefixscope.report.terminal.prefixes import top_prefixes
from prefixscope.report.terminal.worth import saved_seconds
from prefixscope.report.text import visible
from prefixscope.report.warnings import warnings_in_words
from prefixscope.results import AnalyzeReport, BlocksReport, CapacityReport, Warned

__all__ = ["Look", "analyze_report", "blocks_report", "capacity_report", "index_report", "warnings_part"]

_COUNTED = "How it was counted: docs/definitions.md; all options: prefixscope {} --help"


def analyze_report(reports: Sequence[AnalyzeReport], look: Look) -> RenderableType:
    """The report of `analyze`: for one engine as it is, for several a comparison first and then each in turn."""
    first = reports[0]
    parts: list[RenderableType] = [
        head(first.input, [report.pools for report in reports], _namespaces(first), look, first.totals.requests)
    ]
    if len(reports) > 1:
        parts.append(side_by_side(reports))
    for report in reports:
        if len(reports) > 1:
            parts.extend(["", Text(f"== {engine_names(report)} ==", style="bold")])
        parts.extend([headline(report, look), *findings_part(report.pools), *_engine_details(report, look)])
    if len(reports) > 1:
        parts.extend(["", Text("== the log ==", style="bold")])
    parts.extend([*_log_details(first, look, several=len(reports) > 1), *warnings_part(first.input.warnings)])
    return Group(*parts, "", Text(_COUNTED.format("analyze"), style="dim"))


def blocks_report(report: BlocksReport, look: Look) -> RenderableType:
    """The report of `blocks`: the sweep of every pool."""
    parts: list[RenderableType] = [head(report.input, [report.pools], None, look)]
    parts.extend(findings_part(report.pools))
    for pool in report.pools:
        parts.append(block_chart(pool, look, name_pool=len(report.pools) > 1))
    return Group(*parts, *warnings_part(report.input.warnings), "", Text(_COUNTED.format("blocks"), style="dim"))


def capacity_report(report: CapacityReport, look: Look) -> RenderableType:
    """The report of `capacity`: pool after pool, they share no memory."""
    parts: list[RenderableType] = [head(report.input, [report.pools], None, look, report.counted_requests)]
    for pool, details in zip(report.pools, report.details, strict=True):
        parts.extend(capacity_parts(pool, details, look, name_pool=len(report.pools) > 1))
    how = _COUNTED.format("capacity").replace("definitions", "capacity")
    return Group(*parts, *warnings_part(report.input.warnings), "", Text(how, style="dim"))


def index_report(summary: Any, path: str, look: Look) -> RenderableType:
    """What `index` read and wrote."""
    parts = input_lines(summary.input, (), None, look)
    held = [plural(_number(summary.rows), "row"), plural(_number(summary.pools), "pool")]
    held.append(plural(_number(summary.namespaces), "namespace"))
    line = Text(f"Wrote {visible(path)}: {', '.join(held)}; it holds no text")
    return Group(parts, *warnings_part(summary.input.warnings), "", line)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else len(value)


def warnings_part(warnings: Iterable[Warned]) -> Iterator[RenderableType]:
    """What may bend the result, last, so that it is read; one sentence per reason."""
    sentences = warnings_in_words(warnings)
    if sentences:
        yield section("warnings", bullets(Text(sentence, style="yellow") for sentence in sentences))


def _engine_details(report: AnalyzeReport, look: Look) -> Iterator[RenderableType]:
    if not report.totals.prompt_tokens:
        return
    yield ladder(report, look)
    essence = breaks_essence(report.breaks, look)
    if essence is not None:
        yield essence
    yield rates(report.totals)
    if len(report.pools) > 1:
        yield pools_table(report)
    for pool in report.pools:
        if pool.block_sizes:
            yield block_chart(pool, look, name_pool=len(report.pools) > 1, short=True)
        memory = capacity_essence(pool, look, name_pool=len(report.pools) > 1)
        if memory is not None:
            yield memory
    if report.worth is not None:
        yield section("what the expected reuse is worth (--latency-model)", bullets([saved_seconds(report.worth)]))
    if report.measured is not None:
        yield measured_part(report.measured, report.unexplained_tokens)


def _log_details(report: AnalyzeReport, look: Look, *, several: bool) -> Iterator[RenderableType]:
    """What belongs to the log more than to an engine; shares of groups are those of the first engine."""
    prefixes = top_prefixes(report.prefixes, report.totals.prompt_tokens, look)
    if prefixes is not None:
        yield prefixes
    yield from group_tables(report.groups, f"; engine: {engine_names(report)}" if several else "")
    sessions = sessions_part(report.sessions)
    if sessions is not None:
        yield sessions


def _namespaces(report: AnalyzeReport) -> int | None:
    return sum(group.by == "namespace" for group in report.groups) or None
