"""Finite memory on the terminal: the curve as a chart, what to pick, lifetimes, tiers, policies, pressure."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from prefixscope.report.numbers import bytes_, count, of, share
from prefixscope.report.terminal.bars import Bar
from prefixscope.report.terminal.layout import Look, bullets, section
from prefixscope.report.terminal.memory import memory_parts
from prefixscope.report.text import visible
from prefixscope.report.words import engine_name
from prefixscope.results import EngineUsed, PoolReport
from prefixscope.results.capacity import CapacityDetails, CapacitySection

__all__ = ["capacity_essence", "capacity_parts"]

_CURVES = {
    "engine": "least recently used blocks, with those that can't be matched",
    "lru": "least recently used blocks as in a textbook",
}


def capacity_essence(pool: PoolReport, look: Look, *, name_pool: bool) -> RenderableType | None:
    """A few sentences for `analyze`; None where the pool has no capacity section."""
    found = pool.capacity
    if found is None:
        return None
    title = f"memory ({_blocks(found)})" + (f", pool {visible(pool.pool)}" if name_pool else "")
    return section(title, bullets(_sentences(found)))


def capacity_parts(
    pool: PoolReport, details: CapacityDetails, look: Look, *, name_pool: bool
) -> Iterator[RenderableType]:
    """Everything `capacity` tells of one pool."""
    found = pool.capacity
    if found is None:
        return
    if name_pool:
        yield Group("", Text(f"== pool {visible(pool.pool)} ==", style="bold"))
    title = f"reuse at every size of memory ({_blocks(found)})"
    yield section(title, _chart(found, look), Text(_denominators(found, pool.engine), style="dim"))
    yield section("what to pick", bullets(_picks(found)))
    yield from memory_parts(found, details, look)


def _blocks(found: CapacitySection) -> str:
    size = "" if found.block_bytes is None else f" = {bytes_(found.block_bytes)} each"
    return f"blocks of {count(found.block_size)} tokens{size}"


def _denominators(found: CapacitySection, engine: EngineUsed) -> str:
    whole = of(found.infinite_cached_tokens, found.prompt_tokens, "prompt tokens")
    each = f" Sizes are of each of {count(found.replicas)} replicas." if found.replicas > 1 else ""
    return (
        f"Curve: {engine_name(engine)}, {_CURVES.get(found.model, visible(found.model))}, one request after another."
        f"{each} Without limit {whole} in {count(found.unique_blocks)} different full blocks; more than "
        f"{count(found.largest_useful_blocks)} blocks give nothing."
    )


def _chart(found: CapacitySection, look: Look) -> Table:
    """One line per point; bars are to the scale of what unlimited memory keeps."""
    has_bytes = found.block_bytes is not None
    notes = _notes(found)
    widest = len(count(max((point.blocks for point in found.points), default=0)))
    taken = 28 + max(widest, len("blocks")) + (13 if has_bytes else 0)
    width = max(min(look.width - taken - max(map(len, notes.values()), default=0), 40), 8)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("blocks", justify="right", no_wrap=True)
    if has_bytes:
        table.add_column("memory", justify="right", no_wrap=True)
    table.add_column("", width=width, no_wrap=True)
    for heading in ("of prompt", "of blocks"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, style="dim")
    whole = found.infinite_cached_tokens
    for point in found.points:
        chosen = point.asked or point.blocks in notes
        bar = Bar(point.cached_tokens / whole if whole else 0.0, width, "cyan" if chosen else "blue")
        cells: list[RenderableType] = [count(point.blocks), *([bytes_(point.bytes)] if has_bytes else []), bar]
        rates = [share(point.token_hit_rate), share(point.block_hit_rate), notes.get(point.blocks, "")]
        table.add_row(*cells, *rates, style="bold" if point.asked else "")
    return table


def _notes(found: CapacitySection) -> dict[int, str]:
    """What the user asked for, and where a share of the reuse is reached."""
    said: dict[int, list[str]] = {}
    for size in found.asked:
        said.setdefault(size.blocks, []).append(f"--capacity {visible(size.text)}")
    for step in found.recommended.shares:
        said.setdefault(step.blocks, []).append(f"{100 * step.share:g} % of the reuse")
    return {blocks: ", ".join(words) for blocks, words in said.items()} if found.infinite_cached_tokens else {}


def _sentences(found: CapacitySection) -> Iterator[Text]:
    if not found.infinite_cached_tokens:
        yield Text("Nothing is reused at any size.")
    else:
        for sentence in found.recommended.why:
            yield Text(visible(sentence))
    if found.recommended.requests_without_end and found.recommended.running_blocks is not None:
        without = count(found.recommended.requests_without_end)
        yield Text(f"{without} requests without a logged end are not among the running ones", style="dim")
    if found.block_bytes is None:
        yield Text(f"bytes are not known: {visible(found.block_bytes_why)}", style="dim")
    if found.approximation is not None:
        yield Text(f"the curve is {visible(found.approximation)} (docs/capacity.md)", style="dim")


def _picks(found: CapacitySection) -> Iterator[Text]:
    yield from _sentences(found)
    if found.block_size_choice is not None:
        yield Text(visible(found.block_size_choice.why))
    if found.block_bytes is not None:
        yield Text(f"KV bytes per token: {visible(found.block_bytes_why)}", style="dim")
