"""The report of `replay`: what was sent, was the prediction true, and what the reuse is worth on this endpoint."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from prefixscope.report.numbers import count, duration, of, percent, plural, tokens
from prefixscope.report.terminal.layout import Look, bullets, labelled, plain_table, section
from prefixscope.report.terminal.worth import saved_seconds
from prefixscope.report.text import visible
from prefixscope.results.replay import (
    Comparison,
    IsolationReport,
    OutputReport,
    PhaseReport,
    Plan,
    PromptReport,
    ReplayReport,
    SampleReport,
)

__all__ = ["dry_run_report", "replay_report"]

_ISOLATION = {
    "reset": "by resetting the engine's prefix cache",
    "salt": "by a fresh cache_salt for every phase",
    "extra_key": "by a fresh extra_key for every phase",
    "first_block": "by a unique first block, which changes the prompts",
    "none": "not possible: phases are not independent of what the cache held before",
}
_DIAGNOSIS = {
    "agrees": "the prediction holds",
    "prediction_wrong": "the prediction is wrong",
    "metric_suspect": "the engine's own numbers contradict each other",
    "prompts_differ": "the endpoint renders other prompts",
    "unknown": "nothing was measured",
}


def dry_run_report(sample: SampleReport, plan: Plan, look: Look) -> RenderableType:
    """What would be sent; nothing was."""
    table = plain_table(("phase", "left"), ("calls", "right"), ("prompt tokens", "right"), ("output at most", "right"))
    for phase in plan.phases:
        table.add_row(phase.phase, count(phase.calls), tokens(phase.prompt_tokens), tokens(phase.output_tokens))
    table.add_row("in all", count(plan.calls), tokens(plan.prompt_tokens), tokens(plan.output_tokens))
    return Group(
        labelled([("Sample", Text(_sampled(sample))), ("To", Text(visible(plan.endpoint)))]),
        section("what would be sent (a few control prompts per phase come on top)", table),
        "",
        Text("Dry run: nothing was sent."),
    )


def replay_report(sample: SampleReport, report: ReplayReport, look: Look) -> RenderableType:
    """The page, in the order a reader needs it."""
    parts: list[RenderableType] = [
        labelled(
            [
                ("Engine", Text(_engine(report))),
                ("Sample", Text(_sampled(sample))),
                ("Cold", Text(_isolated(report.isolation))),
                ("Prompts", Text(_prompts(report.prompts))),
            ]
        ),
        section("predicted against measured cached tokens", _phases(report.phases)),
        *_reasons(report.phases),
        section("times seen by this client (no promise for another load)", _times(report.phases)),
    ]
    if report.outputs is not None:
        parts.append(section("answers with the cache against answers without", Text(_outputs(report.outputs))))
    parts.append(section("what reuse is worth here", bullets(_worth(report))))
    notes = [*report.assumed, *report.endpoint.missing, *report.warnings]
    if notes:
        parts.append(section("to keep in mind", bullets([visible(note) for note in notes])))
    if report.gate:
        parts.append(section("not good enough for --validate", bullets([visible(line) for line in report.gate])))
    if report.interrupted:
        parts += ["", Text("Interrupted: this is what was measured until then.", style="bold")]
    return Group(*parts)


def _engine(report: ReplayReport) -> str:
    facts = report.endpoint
    said = [f"{report.engine} {report.engine_version}".strip(), f"unit {report.match_unit}"]
    if facts.usable_blocks is not None:
        said.append(f"{count(facts.usable_blocks)} usable blocks")
    if facts.prefix_caching is not None:
        said.append("prefix caching on" if facts.prefix_caching else "prefix caching OFF")
    source = f" (read from {', '.join(facts.sources)})" if facts.sources else " (not told by the endpoint)"
    return visible(f"{', '.join(said)} at {facts.url}{source}")


def _sampled(sample: SampleReport) -> str:
    families = plural(sample.families, "prefix family", "prefix families")
    return (
        f"{count(sample.requests)} of {count(sample.log_requests)} requests in {families}, "
        f"{tokens(sample.prompt_tokens)} of {tokens(sample.log_prompt_tokens)} prompt tokens; reusable "
        f"{percent(sample.reusable_tokens, sample.prompt_tokens)} of the sample, "
        f"{percent(sample.log_reusable_tokens, sample.log_prompt_tokens)} of the log"
    )


def _isolated(isolation: IsolationReport) -> str:
    cold = next((reading for reading in isolation.controls if reading.must_be == "zero"), None)
    if isolation.proven and cold is not None:
        proof = (
            f"; a control prompt of {count(cold.prompt_tokens)} tokens read {count(cold.measured or 0)} cached tokens"
        )
    else:
        proof = "; not proven: " + "; ".join(isolation.tried) if isolation.tried else "; not proven"
    return visible(_ISOLATION[isolation.method] + proof)


def _prompts(prompts: PromptReport) -> str:
    if not prompts.requests:
        return "sent as token ids only: nothing was rendered by the endpoint"
    text = f"{of(prompts.equal, prompts.requests, 'prompts')} rendered alike by the endpoint"
    if prompts.unknown:
        text += f"; {count(prompts.unknown)} unknown (it does not tell its ids)"
    if prompts.different:
        text += (
            f"; row {prompts.first_row} differs first, at token {prompts.first_position}: "
            f"ours {prompts.ours}, theirs {prompts.theirs}"
        )
    return text


def _phases(phases: tuple[PhaseReport, ...]) -> RenderableType:
    table = plain_table(
        ("phase", "left"), ("exact", "right"), ("predicted", "right"), ("measured", "right"), ("|difference|", "right"),
        ("verdict", "text"),
    )  # fmt: skip
    for phase in phases:
        found = phase.comparison
        table.add_row(
            visible(phase.phase) + ("" if phase.finished else " (unfinished)"),
            f"{count(found.exact)} of {count(found.requests)}",
            percent(found.predicted_cached_tokens, found.prompt_tokens),
            percent(found.measured_cached_tokens, found.prompt_tokens),
            _difference(found),
            _DIAGNOSIS[phase.diagnosis],
        )
    return table


def _difference(found: Comparison) -> str:
    return percent(found.sum_absolute_difference, found.prompt_tokens) if found.prompt_tokens else "unknown"


def _reasons(phases: tuple[PhaseReport, ...]) -> Iterator[RenderableType]:
    lines = []
    for phase in phases:
        errors = ", ".join(f"{count(number)} x {error}" for error, number in phase.errors)
        lines += [f"{phase.phase}: {reason}" for reason in (*phase.reasons, *([errors] if errors else []))]
    if lines:
        yield section("why not exact", bullets([visible(line) for line in lines]))


def _times(phases: tuple[PhaseReport, ...]) -> RenderableType:
    table = plain_table(
        ("phase", "left"), ("TTFT p50", "right"), ("p95", "right"), ("p99", "right"), ("between p50", "right"),
        ("requests/s", "right"), ("client p50", "right"),
    )  # fmt: skip
    for phase in phases:
        first = phase.time_to_first_token
        table.add_row(
            visible(phase.phase),
            *(_seconds(value) for value in (first.p50, first.p95, first.p99, phase.between_tokens.p50)),
            "unknown" if phase.requests_per_s is None else f"{phase.requests_per_s:.1f}",
            _seconds(phase.client_overhead.p50),
        )
    return table


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else duration(value)


def _outputs(outputs: OutputReport) -> str:
    text = f"{of(outputs.equal, outputs.requests, 'answers')} equal at temperature 0"
    if outputs.ties:
        text += f"; {count(outputs.ties)} differ first where two tokens were as likely (within {outputs.tolerance:g})"
    if outputs.different:
        text += (
            f"; {count(outputs.different)} DIFFER: row {outputs.first_row} at token {outputs.first_position}; "
            "a broken cache looks like this"
        )
    if outputs.unknown:
        text += f"; {count(outputs.unknown)} unknown"
    return text


def _worth(report: ReplayReport) -> list[str]:
    lines = []
    fit = report.latency
    if fit is None:
        lines.append(f"no fit of the time to the first token: {report.latency_why}")
    else:
        reach = f"{count(fit.fewest_uncached)} to {count(fit.most_uncached)} uncached tokens"
        lines.append(
            f"time to first token = {fit.a * 1e3:.1f} ms + {fit.b * 1e6:.2f} us per uncached token"
            f" + {fit.c * 1e9:.2f} ns per uncached token x prompt token (R2 {fit.r2:.3f}, {count(fit.points)} points "
            f"of {reach}, {count(fit.outliers)} left out)"
        )
    lines.append(saved_seconds(report.worth))
    return [visible(line) for line in lines]
