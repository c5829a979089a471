"""The first lines of a report: what was assumed and not read, what was read, what kind of input it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from prefixscope.report.numbers import count, plural, span
from prefixscope.report.terminal.layout import Look, bullets, labelled, plain_table, section, user_text
from prefixscope.report.text import visible
from prefixscope.report.words import TIERS, engine_name, skip_in_words, skips_in_words
from prefixscope.results import EngineUsed, InputReport, PoolReport

__all__ = ["assumed_line", "head", "input_lines"]

_OUTPUTS = {"ids": "as token ids", "text": "as text (approximate)", "length": "by length only", "unknown": "not logged"}


def assumed_line(engine: EngineUsed) -> str:
    """Which rules were applied, and whether anything of that was read from a running engine.

    >>> assumed_line(EngineUsed("vllm", "0.33", 16, 16, "none", (), "defaults"))
    'assumed: vLLM 0.33, block 16; not read from your engine'
    """
    if engine.name == "trace":
        return f"assumed: hashes as logged, block = one id = {engine.block_size:,} tokens; no engine's rules"
    parts = [engine_name(engine), f"block {engine.block_size:,}"]
    if engine.match_unit != engine.block_size:
        parts.append(f"match unit {engine.match_unit:,}")
    if engine.speculative != "none":
        parts.append(f"speculative decoding: {engine.speculative}")
    if "://" in engine.source:
        return f"read from {visible(engine.source)}: {', '.join(parts)}"
    return f"assumed: {', '.join(parts)}; not read from your engine"


def head(
    report_input: InputReport,
    pools_by_engine: Sequence[Sequence[PoolReport]],
    namespaces: int | None,
    look: Look,
    counted: int | None = None,
) -> Group:
    """Everything above the headline; the pools are those of each engine that was asked for.

    `counted` requests enter the sums; where that is not all of them, a line says so.
    """
    pools = [pool for pools in pools_by_engine for pool in pools]
    first = pools_by_engine[0] if pools_by_engine else ()
    lines = [*_assumptions(pools), input_lines(report_input, first, namespaces, look)]
    if counted is not None and counted != report_input.requests_analyzed:
        others = report_input.requests_analyzed - counted
        said = f"{plural(counted, 'request')}; the other {count(others)} only warm the cache, or lie outside the window"
        lines.append(labelled([("Counted", Text(said))]))
    return Group(*lines)


def input_lines(
    report_input: InputReport, pools: Sequence[PoolReport], namespaces: int | None, look: Look
) -> RenderableType:
    """What was read and what kind of input it was; with `--skips` also every place where input was left out."""
    lines = labelled([("Read", _read(report_input, look)), ("Input", _input(report_input, pools, namespaces))])
    return Group(lines, _skip_list(report_input)) if look.skips else lines


def _skip_list(report_input: InputReport) -> RenderableType:
    """Every located skip."""
    if not report_input.skipped:
        return section("left out", Text("nothing"))
    table = plain_table(("where", "text"), ("requests", "right"), ("why", "text"))
    for skip in report_input.skipped:
        where = f"{skip.file} (further places)" if skip.line is None else f"{skip.file}:{skip.line}"
        table.add_row(user_text(where), count(skip.count), skip_in_words(skip.reason))
    return section("left out", table)


def _assumptions(pools: Sequence[PoolReport]) -> Iterable[RenderableType]:
    """One line per different set-up, pools named where they differ; then what the profile itself has to say."""
    by_line: dict[str, list[PoolReport]] = {}
    for pool in pools:
        by_line.setdefault(assumed_line(pool.engine), []).append(pool)
    if not by_line:
        yield Text("assumed: nothing, as no request was analyzed")
    for line, members in by_line.items():
        several = len(by_line) > 1 and len({pool.pool for pool in pools}) > 1
        names = f" ({', '.join(visible(pool.pool) for pool in members)})" if several else ""
        yield Text(line + names)
    sentences = list(dict.fromkeys(sentence for pool in pools for sentence in pool.engine.assumed))
    if sentences:
        yield bullets(Text(visible(sentence), style="dim") for sentence in sentences)


def _read(report_input: InputReport, look: Look) -> Text:
    text = plural(report_input.requests_analyzed, "request")
    if report_input.skipped:
        rows = report_input.requests_analyzed + sum(skip.count for skip in report_input.skipped)
        text += f" of {plural(rows, 'row')}"
        lists = "; --skips lists them" if "--skips" in look.options and not look.skips else ""
        text += f" (left out: {skips_in_words(report_input.skipped)}{lists})"
    files = report_input.files
    shown = ", ".join(visible(file) for file in files[:2]) + (
        f" and {len(files) - 2:,} more files" if files[2:] else ""
    )
    return Text(f"{text} from {shown}" if files else text)


def _input(report_input: InputReport, pools: Sequence[PoolReport], namespaces: int | None) -> Text:
    parts = []
    if report_input.tier is not None:
        tier = TIERS.get(report_input.tier, "unknown evidence")
        parts.append(f"{tier} (evidence grade {report_input.tier} of 6)")
    if report_input.formats:
        parts.append(f"format {', '.join(visible(name) for name in dict.fromkeys(report_input.formats))}")
    first, last = report_input.first_time_ns, report_input.last_time_ns
    parts.append(span(first, last, relative=report_input.time_is_relative))
    models = {model for pool in pools for model in pool.models}
    if pools:
        named = plural(len(models), "model") if models else "no model named"
        where = f"{named} in {plural(len(pools), 'pool')}" if models or len(pools) > 1 else named
        parts.append(where + (f", {plural(namespaces, 'namespace')}" if namespaces and namespaces > 1 else ""))
    known = {kind: number for kind, number in report_input.outputs.items() if number}
    if known:
        whole = sum(known.values())
        said = [
            f"{_OUTPUTS.get(kind, visible(kind))}" + ("" if number == whole else f" {count(number)} of {count(whole)}")
            for kind, number in known.items()
        ]
        parts.append("answers " + ", ".join(said))
    if report_input.ties:
        parts.append(f"{plural(report_input.ties, 'request')} at the same time as the one before")
    return Text("; ".join(parts))
