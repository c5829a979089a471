"""The tables under the curve: lifetimes, tiers, eviction policies, block sizes, the working set, who evicts whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from prefixscope.report.numbers import bytes_, count, duration, plural, share, tokens
from prefixscope.report.terminal.bars import Bar
from prefixscope.report.terminal.layout import Look, plain_table, section, user_text
from prefixscope.report.text import shortened, visible
from prefixscope.results.capacity import (
    CapacityDetails,
    CapacitySection,
    EvictedGroup,
    Evictions,
    LifetimePoint,
    PolicyRow,
    TierRow,
    WorkingSetRow,
)

__all__ = ["memory_parts"]

_MOST = 8


def memory_parts(found: CapacitySection, details: CapacityDetails, look: Look) -> Iterator[RenderableType]:
    """Every table that has something to say."""
    if details.block_sizes_at_capacity[1:]:
        yield _block_sizes(found, details)
    if details.lifetimes:
        yield _lifetimes(details.lifetimes, details.requests_without_time, found.infinite_cached_tokens, look)
    else:
        yield section("lifetimes and working set", Text("The log has no times, so nothing can be said.", style="dim"))
    if details.tiers:
        yield _tiers(details)
    if details.policies:
        yield _policies(details.policies, details.optimum_of)
    if details.working_sets:
        yield _working_sets(details.working_sets)
    if details.evictions is not None:
        yield _evictions(details.evictions, look)


def _block_sizes(found: CapacitySection, details: CapacityDetails) -> RenderableType:
    asked = found.asked[0] if found.asked else None
    sized = [] if asked is None else [(f"at {visible(asked.text)}", "right")]
    table = plain_table(("block", "right"), ("without limit", "right"), *sized, ("", "left"))
    pick = found.block_size_choice
    for row in details.block_sizes_at_capacity:
        notes = ["in use"] if row.block_size == found.block_size else []
        if pick is not None and row.block_size == pick.block_size:
            notes.append("largest that costs less than 1 %")
        cells = [count(row.block_size), share(row.infinite_token_hit_rate)]
        table.add_row(*cells, *([] if asked is None else [share(row.token_hit_rate)]), Text(", ".join(notes), "dim"))
    return section("block sizes the engine offers (of prompt tokens; equal memory in tokens)", table)


def _lifetimes(points: Sequence[LifetimePoint], without_time: int, whole: int, look: Look) -> RenderableType:
    width = max(min(look.width - 50, 40), 8)
    table = plain_table(("kept after last use", "right"), ("", "left"), ("of prompt", "right"), ("", "left"))
    for point in points:
        bar = Bar(point.cached_tokens / whole if whole else 0.0, width, "cyan" if point.asked else "blue")
        note = Text("--ttl" if point.asked else "", "dim")
        table.add_row(duration(point.seconds), bar, share(point.token_hit_rate), note)
    left_out = f"{plural(without_time, 'request')} without a time left out" if without_time else ""
    return section("lifetimes, memory without limit", table, *([Text(left_out, style="dim")] if left_out else []))


def _tiers(details: CapacityDetails) -> RenderableType:
    table = plain_table(
        ("tier", "text"), ("size", "right"), ("adds", "right"), ("of prompt", "right"), ("read", "right"),
        ("written", "right"), ("fetch", "right"), ("compute", "right"),
    )  # fmt: skip
    for row in details.tiers:
        table.add_row(
            user_text(row.name), visible(row.size), tokens(row.gain_tokens), share(row.gain_rate),
            _known(row.read_bytes), _known(row.written_bytes), _seconds(row.fetch_seconds),
            _seconds(row.recompute_seconds),
        )  # fmt: skip
    kind = "exclusive: no block in two of them" if details.tiers_exclusive else "inclusive: lower ones hold copies"
    chunk = f"; below the first in chunks of {count(details.tier_chunk_tokens)}" if details.tier_chunk_tokens else ""
    return section(f"tiers ({kind}{chunk})", table, *(Text(line) for line in _verdicts(details.tiers)))


def _verdicts(tiers: Sequence[TierRow]) -> Iterator[str]:
    for row in tiers[1:]:
        name = visible(row.name)
        if row.saved_seconds is not None and row.slower_requests is not None:
            slower = f"{plural(row.slower_requests, 'request')} would be faster computed"
            yield f"{name}: fetching saves {duration(row.saved_seconds)} of prefill over the log; {slower}."
        elif row.gain_tokens:
            yield (
                f"{name}: whether fetching beats computing needs a bandwidth (@25GB/s), the model's KV bytes and "
                "--prefill-tokens-per-second."
            )


def _known(size: int | None) -> str:
    return "" if size is None else bytes_(size)


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _policies(rows: Sequence[PolicyRow], optimum_of: str | None) -> RenderableType:
    sizes = list(dict.fromkeys(row.blocks for row in rows))
    table = plain_table(("policy", "left"), *((f"{count(size)} blocks", "right") for size in sizes))
    for name in dict.fromkeys(row.policy for row in rows):
        cells = [share(row.token_hit_rate) for row in rows if row.policy == name]
        table.add_row(Text(name, "green" if name == "optimum" else ""), *cells)
    notes = [] if optimum_of is None else [Text(f"optimum: {optimum_of}.", style="dim")]
    return section("eviction policies (of prompt tokens; each simulated block by block)", table, *notes)


def _working_sets(rows: Sequence[WorkingSetRow]) -> RenderableType:
    table = plain_table(("used within", "right"), ("p95 of requests", "right"), ("peak", "right"))
    for row in rows:
        table.add_row(
            duration(row.window_s),
            _blocks(row.p95_blocks, row.p95_bytes),
            _blocks(row.peak_blocks, row.peak_bytes),
        )
    return section("working set: different full blocks in use", table)


def _blocks(blocks: int, size: int | None) -> str:
    return f"{count(blocks)} blocks" + ("" if size is None else f" ({bytes_(size)})")


def _evictions(found: Evictions, look: Look) -> RenderableType:
    table = plain_table(("loses", "right"), ("of lost", "right"), ("who", "text"), ("because of", "text"))
    room = max((look.width - 30) // 2, 16)
    for row in found.rows[:_MOST]:
        part = share(row.tokens / found.lost_tokens)
        table.add_row(
            tokens(row.tokens), part, _group(found.groups, row.victim, room), _group(found.groups, row.evictor, room)
        )
    rest = sum(row.tokens for row in found.rows[_MOST:])
    more = [Text(f"{tokens(rest)} more in smaller parts", style="dim")] if rest else []
    title = f"who evicts whom at {count(found.blocks)} blocks ({tokens(found.lost_tokens)} tokens are lost)"
    return section(title, table, *more, Text(f"Who: {visible(found.by)}.", style="dim"))


def _group(groups: Sequence[EvictedGroup], number: int | None, room: int) -> Text:
    if number is None:
        return Text("all others", "dim")
    group = groups[number]
    return Text(shortened(f"{count(group.requests)} {visible(group.name)}", room))
