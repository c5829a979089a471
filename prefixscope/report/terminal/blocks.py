"""Block sizes as a small chart: what each would let the engine reuse, and the slots it would waste."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from prefixscope.report.numbers import percent, plural, share, tokens
from prefixscope.report.terminal.bars import Bar
from prefixscope.report.terminal.layout import Look, section
from prefixscope.report.text import visible
from prefixscope.report.words import engine_name
from prefixscope.results import BlockSizeRow, PoolReport

__all__ = ["block_chart"]


def block_chart(pool: PoolReport, look: Look, *, name_pool: bool, short: bool = False) -> RenderableType:
    """The sweep of one pool; bars are to the scale of the ideal, which is shown first.

    `short` shows the sizes the engine offers, where that is known, else every second one.
    """
    ideal = pool.totals.reusable_tokens
    width = max(min(look.width - 50, 50), 8)
    table = _table(width)
    whole = pool.totals.prompt_tokens
    table.add_row("ideal", Bar(1.0 if ideal else 0.0, width, "green"), percent(ideal, whole), "", "")
    for row in _chosen(pool) if short else pool.block_sizes:
        in_use = row.block_size == pool.engine.match_unit
        note = "in use" if in_use else "not offered" if row.accepted is False else ""
        bar = Bar(row.cached_tokens / ideal if ideal else 0.0, width, "cyan" if in_use else "blue")
        cells = (f"{row.block_size:,}", bar, share(row.token_hit_rate), tokens(row.wasted_slot_tokens), note)
        table.add_row(*cells, style="bold" if in_use else "")
    title = f"block sizes ({engine_name(pool.engine)}, infinite memory)"
    if name_pool:
        title += f", pool {visible(pool.pool)}"
    return section(title, table, Text(_largest(pool.largest_block_size_with_reuse, bool(pool.block_sizes))))


def _chosen(pool: PoolReport) -> list[BlockSizeRow]:
    in_use = pool.engine.match_unit
    if any(row.accepted is not None for row in pool.block_sizes):
        return [row for row in pool.block_sizes if row.accepted is not False or row.block_size == in_use]
    if len(pool.block_sizes) <= 8:
        return list(pool.block_sizes)
    return [row for place, row in enumerate(pool.block_sizes) if place % 2 == 0 or row.block_size == in_use]


def _table(width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("block", justify="right", no_wrap=True)
    table.add_column("", width=width, no_wrap=True)
    table.add_column("of prompt", justify="right", no_wrap=True)
    table.add_column("token slots wasted", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="dim")
    return table


def _largest(size: int | None, swept: bool) -> str:
    if size is None:
        return "No block size has any reuse." if swept else "No block size was tried."
    return f"Some reuse is left up to a size of {plural(size, 'token')} (a limit, no advice)."
