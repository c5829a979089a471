"""The headline: how much of the prefill is repeated, what the engine can reuse of it, what it was seen to reuse."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from prefixscope.report.numbers import of, percent, plural, share, tokens
from prefixscope.report.terminal.bars import Bar
from prefixscope.report.terminal.layout import Look, plain_table, section
from prefixscope.report.words import engine_name
from prefixscope.results import AnalyzeReport, Measured, Totals

__all__ = ["headline", "rates"]


def headline(report: AnalyzeReport, look: Look) -> Group:
    """Two or three sentences with their numbers, and the bars of what is left to compute."""
    totals = report.totals
    if not totals.prompt_tokens:
        return Group("", Text("  No prompt tokens were analyzed, so nothing can be said about reuse.", style="bold"))
    first = Text()
    least = "At least " if _is_lower_bound(report) else ""
    share_done = percent(totals.reusable_tokens, totals.prompt_tokens)
    first.append(f"{least}{share_done} of your prefill is work already done", "bold")
    first.append(f"   {of(totals.reusable_tokens, totals.prompt_tokens, 'prompt tokens')}", "dim")
    lines: list[RenderableType] = [
        "",
        Padding(first, (0, 0, 0, 2)),
        Padding(Text(_engine_sentence(report)), (0, 0, 0, 2)),
    ]
    if report.measured is not None:
        lines.append(Padding(Text(_measured_sentence(report.measured)), (0, 0, 0, 2)))
    return Group(*lines, "", Padding(_bars(report, look), (0, 0, 0, 2)))


def _is_lower_bound(report: AnalyzeReport) -> bool:
    """Answers known by length only may be sent back in later turns: that reuse can't be seen. (Where nothing is known
    of answers, the line `Input` says so.)"""
    unseen = report.input.outputs.get("length", 0)
    return unseen > 0 and any(pool.engine.name != "trace" for pool in report.pools)


def rates(totals: Totals) -> RenderableType:
    """The engine's reuse by every denominator in use, so that no rate stands alone."""
    prompt = totals.prompt_tokens
    table = plain_table(("", "left"), ("", "right"), ("", "text"))
    table.show_header = False
    table.add_row("of prompt tokens", share(totals.token_hit_rate), of(totals.cached_tokens, prompt, "prompt tokens"))
    table.add_row("  second half alone", share(totals.second_half_token_hit_rate), "the first half warms the cache")
    table.add_row(
        "of blocks",
        share(totals.block_hit_rate),
        f"{of(totals.hit_blocks, totals.blocks, 'blocks')}; partial ones count",
    )
    table.add_row("mean over requests", share(totals.mean_request_hit_rate), "of each request's hit blocks / blocks")
    table.add_row(
        "first seen", percent(totals.first_seen_tokens, prompt), of(totals.first_seen_tokens, prompt, "prompt tokens")
    )
    if totals.reusable_prompt_only_tokens != totals.reusable_tokens:
        only = totals.reusable_prompt_only_tokens
        table.add_row("ideal, prompts only", percent(only, prompt), "reuse of generated answers not counted")
    return section("what the engine can reuse, by denominator", table)


def _is_simulated(totals: Totals) -> bool:
    """Whether something below the engine's rule is worth a sentence: overlap only where it takes anything."""
    losses = totals.losses
    return bool(losses.in_flight) or losses.routing is not None or losses.capacity is not None


def _engine_sentence(report: AnalyzeReport) -> str:
    totals = report.totals
    found = f"{percent(totals.cached_tokens, totals.prompt_tokens)} ({tokens(totals.cached_tokens)})"
    sentence = f"{_subject(report)} can reuse {found} if nothing is forgotten and requests run one after another"
    if _is_simulated(totals):
        expected = totals.expected_cached_tokens
        sentence += f"; with what was simulated it keeps {percent(expected, totals.prompt_tokens)} ({tokens(expected)})"
    return sentence + "."


def _subject(report: AnalyzeReport) -> str:
    engines = [pool.engine for pool in report.pools]
    units = {engine.match_unit for engine in engines}
    if {engine.name for engine in engines} == {"trace"}:
        return "A cache of the log's own blocks"
    names = {engine_name(engine) for engine in engines}
    who = names.pop() if len(names) == 1 else "Your engines"
    return f"{who}, in units of {plural(units.pop(), 'token')}," if len(units) == 1 else who


def _measured_sentence(measured: Measured) -> str:
    return (
        f"Measured: {percent(measured.cached_tokens, measured.prompt_tokens)} "
        f"({of(measured.cached_tokens, measured.prompt_tokens, 'prompt tokens')} in "
        f"{plural(measured.requests, 'request')} with a measurement)."
    )


def _bars(report: AnalyzeReport, look: Look) -> Table:
    totals = report.totals
    width = max(min(look.width - 40, 60), 10)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("to compute", justify="right", no_wrap=True)
    table.add_column("", width=width, no_wrap=True)
    table.add_column("of prompt", justify="right", no_wrap=True)
    rows = [("from scratch", totals.prompt_tokens, "white")]
    if _is_simulated(totals):
        rows.append(("expected", totals.expected_prefill_tokens, "cyan"))
    rows.append(("this engine", totals.prefill_tokens, "cyan"))
    rows.append(("ideal", totals.ideal_prefill_tokens, "green"))
    for name, left, style in rows:
        bar = Bar(left / totals.prompt_tokens, width, style)
        table.add_row(name, tokens(left), bar, percent(left, totals.prompt_tokens))
    return table
