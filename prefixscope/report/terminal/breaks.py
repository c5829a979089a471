"""Faults in the terminal: the most expensive first, each with both sides of one example and a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from prefixscope.report.numbers import count, percent, plural, share, tokens
from prefixscope.report.terminal.head import input_lines
from prefixscope.report.terminal.layout import Look, bullets, plain_table, section
from prefixscope.report.text import shortened, visible
from prefixscope.report.words_breaks import (
    CLASS_WORDS,
    NO_WHAT_IF,
    NOTES,
    REMEDIES,
    fault_name,
    part_in_words,
    reset_in_words,
    what_if_in_words,
)
from prefixscope.results.breaks import BreaksReport, Fault, FaultExample, Isolation, WhatIf

__all__ = ["both_sides", "breaks_essence", "explain_report", "fault_lines", "lint_report"]

_FIRST = 3
_MOST = 20


def explain_report(report: BreaksReport, assumed: Sequence[str], look: Look) -> RenderableType:
    """The report of `explain`: the three most expensive faults, then what was read, the rest and the what-ifs."""
    parts: list[RenderableType] = [Text(line, style="dim") for line in assumed]
    parts += fault_lines(report.faults[:_FIRST], look, report.what_ifs)
    if not report.faults:
        parts.append(Text("No faults: every prompt kept all it could be expected to share."))
    parts += ["", input_lines(report.input, (), None, look)]
    if len(report.faults) > _FIRST:
        rest = report.faults[_FIRST:_MOST]
        parts.append(section("further faults", *fault_lines(rest, look, (), start=_FIRST + 1)))
        if len(report.faults) > _MOST:
            parts.append(Text(f"  and {count(len(report.faults) - _MOST)} more; --json has them all", style="dim"))
    parts += _totals(report)
    parts += _what_ifs(report)
    parts += _isolation(report)
    parts.append(_classes(report))
    return Group(
        *parts, "", Text("What the causes mean: docs/breaks.md; options: prefixscope explain --help", style="dim")
    )


def lint_report(report: BreaksReport, failing: Sequence[Fault], look: Look) -> RenderableType:
    """The report of `lint`: what makes it fail, then in one line what else was found."""
    parts: list[RenderableType] = list(fault_lines(failing, look))
    checked = f"{plural(report.requests, 'request')} checked"
    others = [fault for fault in report.faults if fault not in failing]
    said = "no fault that fails" if not failing else plural(len(failing), "fault that fails", "faults that fail")
    parts.append(Text(f"{checked}: {said}" + (f"; {plural(len(others), 'other fault')}" if others else "") + "."))
    if report.not_compared:
        parts.append(Text(f"{plural(report.not_compared, 'request')} could not be compared (memory or time)."))
    parts += [Text(NOTES[note]) for note in report.notes]
    return Group(*parts)


def breaks_essence(report: BreaksReport | None, look: Look) -> RenderableType | None:
    """What `analyze` shows: the three most expensive faults; None where there are none."""
    if report is None or not report.faults:
        return None
    lines = fault_lines(report.faults[:_FIRST], look, report.what_ifs)
    more = "prefixscope explain tells the rest, and what removing a fault gives"
    hint = [Text(more, style="dim")] if "--what-if" in look.options else []
    return section("what to change first (tokens lost at the first difference of each prompt)", *lines, *hint)


def fault_lines(
    faults: Sequence[Fault], look: Look, what_ifs: Sequence[WhatIf] = (), start: int = 1
) -> list[RenderableType]:
    """Numbered faults: name and cost, then place, both sides and who is affected, then what helps."""
    single: dict[str, WhatIf] = {}
    for found in what_ifs:
        if len(found.causes) == 1:
            single.setdefault(found.causes[0], found)
    lines: list[RenderableType] = []
    for number, fault in enumerate(faults, start):
        grid = Table.grid(padding=(0, 1), pad_edge=False, expand=False)
        grid.add_column(width=len(str(number)) + 1, no_wrap=True)
        grid.add_column(overflow="fold", width=max(look.width - 40, 34))
        grid.add_column(justify="right", no_wrap=True)
        cost = f"{tokens(fault.lost_tokens)} tokens, {share(fault.share_of_prompt)} of prompt"
        grid.add_row(f"{number}.", Text(fault_name(fault), style="bold"), cost)
        lines.append(grid)
        details = list(_details(fault, look))
        if fault.cause in single:
            details.append(Text(what_if_in_words(single[fault.cause])))
        lines.append(Padding(Group(*details), (0, 0, 0, 3)))
    return lines


def _details(fault: Fault, look: Look) -> Iterator[RenderableType]:
    where = [] if fault.part is None else [part_in_words(fault.part if fault.example is None else fault.example.part)]
    if fault.example is not None:
        where.append(f"token {count(fault.example.first_different_token)}")
    where.append(plural(fault.requests, "request"))
    if fault.example is not None:
        where.append(f"e.g. {_named(fault.example.request_id, fault.example.row)} against "
                     f"{_named(fault.example.compared_with_id, fault.example.compared_with)}")  # fmt: skip
    yield Text(" · ".join(part for part in where if part), style="dim")
    if fault.example is not None and fault.example.new is not None:
        yield from both_sides(fault.example, look.width - 4)
    yield Text(REMEDIES.get(fault.cause, ""), style="italic")


def _named(request_id: str | None, row: int) -> str:
    return visible(request_id) if request_id else f"row {row}"


def both_sides(example: FaultExample, width: int) -> Iterator[Text]:
    """The old side over the new one, control characters visible, so that the first difference stands in one column."""
    left = visible(example.text_before or "")
    room = max(width - 8, 24)
    left = left[-(room // 2) :]
    behind = room - len(left)
    yield Text.assemble(("old  ", "dim"), left, ("|", "dim"), (shortened(visible(example.old or ""), behind), "red"))
    blank = "·" if left else ""
    shown = blank * len(left)
    yield Text.assemble(
        ("new  ", "dim"), (shown, "dim"), ("|", "dim"), (shortened(visible(example.new or ""), behind), "green")
    )


def _totals(report: BreaksReport) -> Iterator[RenderableType]:
    sentences = []
    if report.faults:
        sentences.append(
            f"All faults together: {tokens(report.lost_tokens)} of {tokens(report.prompt_tokens)} prompt tokens "
            f"({percent(report.lost_tokens, report.prompt_tokens)}). Losses of different faults overlap: behind the "
            "first difference of a prompt there may be others, so removing one fault alone can gain less, and "
            "removing all of them more."
        )
        sentences.append(
            f"Almost hits, which no prefix cache can use: {tokens(report.almost_tokens)} tokens of equal text stand "
            "behind first differences. Position-independent caching could at most add these; they are in no other "
            "number."
        )
    if report.inferred_sessions:
        sentences.append(
            f"{plural(report.inferred_sessions, 'request')} without a logged session were taken to continue the "
            "request whose messages theirs begin with."
        )
    if report.not_compared:
        sentences.append(
            f"{plural(report.not_compared, 'request')} could not be compared: what they had to be compared with was no "
            "longer held in memory, or comparing had taken its share of the time."
        )
    if report.below_unit:
        sentences.append(f"{plural(report.below_unit, 'request')} share less than one unit of a match.")
    sentences += map(reset_in_words, report.resets)
    sentences += [NOTES[note] for note in report.notes]
    if sentences:
        yield section("to keep in mind", bullets(sentences))


def _what_ifs(report: BreaksReport) -> Iterator[RenderableType]:
    if report.what_ifs:
        sentences = [what_if_in_words(found) for found in report.what_ifs]
        yield section("what if (the log computed again; infinite cache, the engine's rule)", bullets(sentences))
    if report.without_what_if:
        sentences = [f"{cause}: {NO_WHAT_IF[cause]}" for cause in report.without_what_if]
        yield section("why there is no what-if", bullets(sentences))


def _isolation(report: BreaksReport) -> Iterator[RenderableType]:
    if not report.isolation:
        return
    table = plain_table(("", "left"), ("requests", "right"), ("again", "right"), ("of their prompt", "right"))
    for by in dict.fromkeys(one.by for one in report.isolation):
        for one in [one for one in report.isolation if one.by == by][:6]:
            table.add_row(*_isolation_row(one))
    yield section("price of isolation (tokens computed again only because namespaces differ)", table)


def _isolation_row(one: Isolation) -> tuple[str, str, str, str]:
    name = "(none)" if one.name is None else visible(one.name)
    label = name if name.startswith(one.by) else f"{one.by} {name}"
    return (
        shortened(label, 44), count(one.requests), tokens(one.recomputed_tokens),
        percent(one.recomputed_tokens, one.prompt_tokens),
    )  # fmt: skip


def _classes(report: BreaksReport) -> RenderableType:
    table = plain_table(("requests", "right"), ("share", "right"), ("", "left"), ("", "text"))
    for cause, number in report.causes.items():
        words = CLASS_WORDS.get(cause, "")
        table.add_row(count(number), percent(number, report.requests), cause, words)
    return section(f"all {plural(report.requests, 'counted request')} by what was found", table)
