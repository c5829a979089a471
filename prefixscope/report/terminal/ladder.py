"""The ladder: from the ideal down to what is expected, one restriction at a time; every loss has its rung."""

from __future__ import annotations

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from prefixscope.report.numbers import percent, plural, tokens
from prefixscope.report.terminal.layout import Look, plain_table, section, user_text
from prefixscope.report.text import visible
from prefixscope.report.words import RUNG_OPTIONS, RUNG_WORDS
from prefixscope.results import RUNGS, AnalyzeReport, PoolReport

__all__ = ["ladder", "pools_table"]


def ladder(report: AnalyzeReport, look: Look) -> RenderableType:
    """The ladder over all pools; a rung that was not simulated says so, and is never a zero."""
    losses, whole = report.totals.losses, report.totals.prompt_tokens
    table = plain_table(
        ("", "left"), ("tokens", "right"), ("of prompt", "right"), *([("", "text")] if look.is_wide else [])
    )
    reasons = _reasons(report.pools) if look.is_wide else {}

    def add(name: str, number: int, why: str = "", style: str = "") -> None:
        table.add_row(Text(name, style), tokens(number), percent(number, whole), *_why(why, look))

    add(RUNG_WORDS["reusable"], report.totals.reusable_tokens, style="bold")
    for rung in RUNGS[1:]:
        lost = getattr(losses, rung)
        if lost is None:
            said = Text(f" - {RUNG_WORDS[rung]}: {_not_simulated(rung, report.pools, look)}", "dim")
            table.add_row(said, "", "", *_why("", look))
        else:
            add(f" - {_with_unit(rung, report.pools)}", lost, reasons.get(rung, ""))
    add("expected", report.totals.expected_cached_tokens, style="bold")
    _add_unexplained(table, report, look)
    return section("where the reuse goes", table)


def pools_table(report: AnalyzeReport) -> RenderableType:
    """One line per pool, where there are several; they share no memory and are never mixed."""
    table = plain_table(
        ("pool", "text"),
        ("block", "right"),
        ("prompt", "right"),
        ("ideal", "right"),
        ("engine", "right"),
        ("expected", "right"),
    )
    for pool in report.pools:
        totals = pool.totals
        table.add_row(
            user_text(pool.pool),
            f"{pool.engine.block_size:,}",
            tokens(totals.prompt_tokens),
            percent(totals.reusable_tokens, totals.prompt_tokens),
            percent(totals.cached_tokens, totals.prompt_tokens),
            percent(totals.expected_cached_tokens, totals.prompt_tokens),
        )
    return section("pools share no memory (shares are of each pool's own prompt tokens)", table)


def _add_unexplained(table: Table, report: AnalyzeReport, look: Look) -> None:
    """Expected minus measured; its share only where every request was measured, else the denominator is another."""
    measured, unexplained = report.measured, report.unexplained_tokens
    if measured is None or unexplained is None:
        return
    everything = measured.requests == report.totals.requests
    share = percent(unexplained, report.totals.prompt_tokens) if everything else "see below"
    rows = "" if everything else f", {plural(measured.requests, 'request')}"
    table.add_row(f" - unexplained (expected - measured{rows})", tokens(unexplained), share, *_why("", look))


def _why(text: str, look: Look) -> list[RenderableType]:
    return [Text(text, style="dim")] if look.is_wide else []


def _not_simulated(rung: str, pools: tuple[PoolReport, ...], look: Look) -> str:
    """That a rung was not simulated: why, or the option that would, in builds that have it."""
    why = _reasons(pools).get(rung, "")
    if why.startswith("not simulated:"):
        return why
    option = RUNG_OPTIONS.get(rung)
    return f"not simulated ({option})" if option in look.options else "not simulated"


def _with_unit(rung: str, pools: tuple[PoolReport, ...]) -> str:
    units = {pool.engine.match_unit for pool in pools}
    words = RUNG_WORDS[rung]
    if rung == "capacity":
        return _with_size(words, pools)
    return f"{words} (unit {units.pop():,})" if rung == "block_rounding" and len(units) == 1 else words


def _with_size(words: str, pools: tuple[PoolReport, ...]) -> str:
    """The size that was simulated, as the user wrote it; in blocks too where all pools have as many."""
    sizes = [pool.capacity.asked[0] for pool in pools if pool.capacity is not None and pool.capacity.asked]
    if not sizes:
        return words
    blocks = {size.blocks for size in sizes}
    written = visible(sizes[0].text)
    same = f" = {blocks.pop():,} blocks" if len(blocks) == 1 and not written.endswith(("block", "blocks")) else ""
    return f"capacity ({written}{same})"


def _reasons(pools: tuple[PoolReport, ...]) -> dict[str, str]:
    """Why each rung loses, as the profile says; only where all pools say the same."""
    said: dict[str, set[str]] = {}
    for pool in pools:
        for rung in pool.ladder:
            said.setdefault(rung.rung, set()).add(rung.why)
    return {rung: visible(whys.pop()) for rung, whys in said.items() if len(whys) == 1}
