"""The report of `events`: whether the engine's hashes are ours, what it held, what became of a log's blocks."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from prefixscope.report.numbers import count, instant, percent, plural, span, tokens
from prefixscope.report.terminal.head import input_lines
from prefixscope.report.terminal.layout import Look, bullets, labelled, plain_table, section
from prefixscope.report.text import visible
from prefixscope.results.hashes import EventsReport, HashChecks, HeldBlocks, LogBlocks

__all__ = ["events_report"]

_OUTCOMES = (
    ("equal", "equal to ours, behind the block before"),
    ("different", "different, and explained"),
    ("unexplained", "different, unexplained"),
    ("parent_unknown", "not checked: the block before was never seen"),
    ("no_tokens", "not checked: published without tokens"),
)
_WHEN_SENT = (
    ("held", "held"),
    ("gone", "held before, already thrown out"),
    ("later", "stored only afterwards"),
    ("missing", "never stored"),
    ("unknown", "unknown (no time)"),
)
_AT_END = (
    ("held", "held"),
    ("removed", "removed"),
    ("cleared", "cleared with the whole cache"),
    ("restart", "lost when the publisher began anew"),
    ("missing", "never stored"),
)


def events_report(report: EventsReport, look: Look) -> RenderableType:
    """The page, in the order a reader needs it."""
    parts: list[RenderableType] = [Text(_stated(report)), *_doubts(report), labelled([("Read", Text(_read(report)))])]
    parts += [*_lost(report), "", Text(f"  {_headline(report.hashes)}", style="bold"), _hashes(report.hashes)]
    parts.append(_held(report))
    if report.log is not None:
        parts.append(_log(report.log, look))
    return Group(*parts, "", Text("What was compared with what: docs/hashes.md", style="dim"))


def _stated(report: EventsReport) -> str:
    settings = report.settings
    version = settings["version"]
    said = [str(settings["algorithm"]) + ("" if version is None else f" of version {version}")]
    if str(settings["algorithm"]).startswith("vllm-"):
        seed = settings["seed"]
        said.append("PYTHONHASHSEED not set" if seed is None else f"PYTHONHASHSEED={seed}")
    return visible(f"stated: {', '.join(said)}; not read from your engine")


def _doubts(report: EventsReport) -> Iterator[RenderableType]:
    sentences = [sentence for sentence in report.assumed if "PYTHONHASHSEED" not in sentence]
    if sentences:
        yield bullets(Text(visible(sentence), style="dim") for sentence in sentences)


def _read(report: EventsReport) -> str:
    said = [f"{plural(report.batches, 'message')} from {visible(report.source)}"]
    said.append(span(report.first_time_ns, report.last_time_ns))
    if report.ranks:
        said.append(f"rank{'s' if len(report.ranks) > 1 else ''} {', '.join(map(str, report.ranks))}")
    sizes = [size for size in report.block_sizes if size]
    if sizes:
        said.append(f"blocks of {', '.join(map(count, sizes))} tokens")
    return "; ".join(said)


def _lost(report: EventsReport) -> Iterator[RenderableType]:
    """What makes the rest uncertain."""
    said = []
    for gap in report.lost[:3]:
        first, last = gap.first_missing, gap.last_missing
        numbers = f"message {count(first)}" if first == last else f"messages {count(first)} to {count(last)}"
        said.append(f"{numbers}{'' if gap.rank is None else f' of rank {gap.rank}'} never arrived")
    if len(report.lost) > 3:
        said.append(f"{plural(len(report.lost) - 3, 'further gap')}")
    if report.lost:
        said.append("what lost messages stored or removed is unknown; --replay-endpoint fetches them while they last")
    if report.removals_of_unknown:
        blocks = plural(report.removals_of_unknown, "removed block was", "removed blocks were")
        said.append(f"{blocks} never seen stored: the events begin late, or some were lost")
    if report.restarts:
        said.append(f"the publisher began anew {plural(report.restarts, 'time')}")
    if report.repeated_batches:
        said.append(f"{plural(report.repeated_batches, 'message')} came more than once and counted once")
    if report.unknown_events:
        said.append(f"not understood: events of type {', '.join(map(visible, report.unknown_events))}")
    if report.cut_line is not None:
        said.append(f"line {count(report.cut_line)}, the last one, is cut off and was left out")
    if said:
        yield bullets(Text(sentence, style="yellow") for sentence in said)


def _headline(checks: HashChecks) -> str:
    if not checks.checked:
        return "No block was stored, so no hash was derived."
    whole = f"{count(checks.equal)} of {count(checks.checked)} stored blocks"
    if checks.equal == checks.checked:
        return f"Every hash is the one we compute: {whole}."
    if checks.differences:
        names = ", ".join(dict.fromkeys(difference.ingredient for difference in checks.differences))
        return f"The engine does not hash as stated ({names}): {whole} fit, each behind the block before it."
    return f"{whole} have the hash we compute ({percent(checks.equal, checks.checked)})."


def _hashes(checks: HashChecks) -> RenderableType:
    table = plain_table(("hashes derived again", "left"), ("blocks", "right"), ("of stored", "right"))
    for name, words in _OUTCOMES:
        number = getattr(checks, name)
        if number or name == "equal":
            table.add_row(words, count(number), percent(number, checks.checked))
    said = [f"{difference.statement} ({plural(difference.blocks, 'block')})" for difference in checks.differences]
    if checks.uncomputable is not None:
        said.append(f"as stated no hash can be computed: {checks.uncomputable}")
    if checks.unexplained:
        said.append("unexplained: no other algorithm, key style, seed or path that was tried gives these hashes")
    return section("what the engine hashes", table, *([bullets(map(visible, said))] if said else []))


def _held(report: EventsReport) -> RenderableType:
    table = plain_table(("", "left"), ("blocks", "right"), ("where", "text"))
    table.add_row("stored", count(report.blocks_stored), "")
    table.add_row("removed", count(report.blocks_removed), "")
    if report.clears:
        table.add_row("cache emptied", plural(report.clears, "time"), "")
    for held in (report.held_at, report.held_at_end):
        if held is not None:
            table.add_row(_when(held), count(held.blocks), _places(held))
    notes = []
    if report.held_at is not None and report.held_at.times_unknown:
        notes.append(Text(f"{plural(report.held_at.times_unknown, 'block')} without a time are in no count at a time."))
    return section("what was held", table, *notes)


def _when(held: HeldBlocks) -> str:
    return "held at the end" if held.time_ns is None else f"held at {instant(held.time_ns)}"


def _places(held: HeldBlocks) -> str:
    if len(held.by) <= 1 and not any(place.rank for place in held.by):
        return ", ".join(visible(place.medium or "") for place in held.by)
    said = []
    for place in held.by[:6]:
        names = [visible(place.medium)] if place.medium else []
        names += [] if place.rank is None else [f"rank {place.rank}"]
        names += [] if place.group is None else [f"group {place.group}"]
        said.append(f"{' '.join(names)}: {count(place.blocks)}")
    return ", ".join(said) + (" ..." if len(held.by) > 6 else "")


def _log(log: LogBlocks, look: Look) -> RenderableType:
    table = plain_table(("", "left"), ("blocks", "right"), ("of their blocks", "right"))
    for title, words, counts in (
        ("when each request was sent", _WHEN_SENT, log.when_sent),
        ("after the last event", _AT_END, log.at_end),
    ):
        table.add_row(Text(title, style="bold"), "", "")
        for name, said in words:
            if counts[name] or name == "held":
                table.add_row(f"  {said}", count(counts[name]), percent(counts[name], log.blocks))
    title = f"the blocks of the log ({plural(log.requests, 'request')}, {plural(log.blocks, 'block')})"
    head = input_lines(log.input, (), None, look)
    return section(title, head, table, *(Text(sentence) for sentence in _sentences(log)))


def _sentences(log: LogBlocks) -> Iterator[str]:
    if log.timed_requests:
        yield (
            f"In front of the {plural(log.timed_requests, 'request')} with a time the engine held "
            f"{tokens(log.held_prefix_tokens)} of {tokens(log.timed_prompt_tokens)} prompt tokens "
            f"({percent(log.held_prefix_tokens, log.timed_prompt_tokens)}), the block of each last token apart."
        )
    if log.compared_requests:
        yield (
            f"Where the log counts cached tokens it says {tokens(log.compared_cached_tokens)}, the events say "
            f"{tokens(log.compared_held_tokens)} were held; the two agree in {count(log.agreeing_requests)} of "
            f"{plural(log.compared_requests, 'request')}."
        )
    if log.requests and log.blocks == log.when_sent["missing"] and log.blocks:
        yield (
            "Not one block of the log was ever stored: another engine, other settings (see above), or the log and the "
            "events are not of the same time."
        )
