"""From the records of a run to its report: rows, phases, answers, latency, worth, gate."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prefixscope.engines.profile import EngineProfile
from prefixscope.replay.compare import comparison_of, diagnosis_of, gate_of, prompt_report_of, row_of
from prefixscope.replay.fit import LatencyModel, LatencyPoint, NoFitError, fit_latency, worth_of
from prefixscope.replay.isolation import first_block_tokens
from prefixscope.replay.measurement import CACHED_TOKENS_FLAG
from prefixscope.replay.meter import COUNTED
from prefixscope.replay.outputs import output_report_of
from prefixscope.replay.runfile import CallRecord, PhaseRecord, RunFile
from prefixscope.results.replay import (
    EndpointFacts,
    IsolationReport,
    OutputReport,
    PhaseReport,
    Plan,
    PromptReport,
    Quantiles,
    ReplayReport,
    RequestRow,
)

__all__ = ["Seen", "report_of"]

FITTED_PHASES = ("cold", "serial", "warm")


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything a run left behind."""

    plan: Plan
    endpoint: EndpointFacts
    profile: EngineProfile
    assumed: tuple[str, ...]
    isolation: IsolationReport
    run_file: RunFile
    prompts: PromptReport
    failed_controls: Mapping[str, str]
    warnings: tuple[str, ...]
    interrupted: bool
    tolerance: float


def report_of(seen: Seen) -> ReplayReport:
    """Rows and phases in the order they were run."""
    prompts = _prompts(seen)
    phases: list[PhaseReport] = []
    rows: list[RequestRow] = []
    for record in seen.run_file.phases.values():
        calls = seen.run_file.calls.get(record.phase, [])
        its_rows = _rows_of(calls, record, seen)
        rows += its_rows
        if calls:
            phases.append(_phase_report(calls, its_rows, record, prompts, seen))
    latency, why = _latency(rows, seen)
    judged = next((name for name in ("serial", *(p.phase for p in phases)) if any(r.phase == name for r in rows)), "")
    worth_rows = [
        (row.prompt_tokens, row.predicted_cached_tokens)
        for row in rows
        if row.phase == judged and row.predicted_cached_tokens is not None
    ]
    return ReplayReport(
        plan=seen.plan,
        endpoint=seen.endpoint,
        engine=seen.profile.name,
        engine_version=seen.profile.version,
        match_unit=seen.profile.match_unit,
        assumed=seen.assumed,
        isolation=seen.isolation,
        phases=tuple(phases),
        requests=tuple(rows),
        prompts=prompts,
        outputs=_outputs(seen),
        latency=latency,
        latency_why=why,
        worth=worth_of(worth_rows, latency, why),
        warnings=(*seen.warnings, *_warnings(seen, phases)),
        gate=gate_of(phases, seen.isolation.proven, seen.interrupted),
        interrupted=seen.interrupted,
        run_file=seen.run_file.path,
    )


def _rows_of(calls: Sequence[CallRecord], record: PhaseRecord, seen: Seen) -> list[RequestRow]:
    """Calls of an earlier, cut-off run of an independent phase come first and have no prediction of their own: zero."""
    earlier = len(calls) - len(record.predicted)
    predicted = [*([0] * earlier), *record.predicted]
    unit, why = seen.profile.match_unit, record.why_unknown
    return [row_of(call, number, unit, why) for call, number in zip(calls, predicted, strict=True)]


def _prompts(seen: Seen) -> PromptReport:
    """What /tokenize said; where it said nothing, what the answers told of prompts sent as messages or text."""
    if seen.prompts.equal or seen.prompts.different:
        return seen.prompts
    told = {call.row: call.prompt_check for calls in seen.run_file.calls.values() for call in calls}
    if any(check is not None for check in told.values()):
        return prompt_report_of(sorted(told.items(), key=lambda pair: pair[0]))
    return seen.prompts


def _phase_report(
    calls: Sequence[CallRecord], rows: Sequence[RequestRow], record: PhaseRecord, prompts: PromptReport, seen: Seen
) -> PhaseReport:
    diagnosis, reasons = diagnosis_of(
        rows,
        record,
        prompts,
        seen.profile,
        unit_was_read=seen.endpoint.block_size is not None,
        controls_failed=seen.failed_controls.get(record.phase),
    )
    outcomes = [call.outcome for call in calls]
    done = [outcome for outcome in outcomes if outcome.state == "done"]
    span = max(o.finished_s for o in outcomes) - min(o.sent_s for o in outcomes)
    prompt_tokens = sum(call.prompt_tokens for call in calls if call.outcome.state == "done")
    output_tokens = sum(outcome.reading.output_tokens or 0 for outcome in done)
    return PhaseReport(
        phase=record.phase,
        comparison=comparison_of(rows),
        diagnosis=diagnosis,
        reasons=reasons,
        cache=record.cache,
        order=record.order,
        time_to_first_token=Quantiles.of(
            [r.time_to_first_token_s for r in rows if r.time_to_first_token_s is not None]
        ),
        between_tokens=Quantiles.of([gap for outcome in done for gap in _gaps(outcome.token_s)]),
        client_overhead=Quantiles.of([outcome.client_s for outcome in outcomes]),
        lateness=Quantiles.of([max(c.outcome.sent_s - c.due_s, 0.0) for c in calls if c.due_s is not None]),
        loop_lag_s=record.loop_lag_s,
        duration_s=span,
        requests_per_s=len(done) / span if span > 0 else None,
        prompt_tokens_per_s=prompt_tokens / span if span > 0 else None,
        output_tokens_per_s=output_tokens / span if span > 0 else None,
        errors=tuple(Counter(outcome.error for outcome in outcomes if outcome.error is not None).most_common()),
        retries=sum(outcome.attempts - 1 for outcome in outcomes),
        counter_prompt_tokens=record.counter_prompt_tokens,
        counter_cached_tokens=record.counter_cached_tokens,
        finished=record.finished,
    )


def _gaps(pieces: Sequence[tuple[float, int]]) -> list[float]:
    """Seconds per token between pieces of a stream; a piece that brought several tokens counts as so many gaps."""
    gaps = []
    for (before, _), (at, count) in itertools.pairwise(pieces):
        gaps += [(at - before) / count] * count
    return gaps


def _outputs(seen: Seen) -> OutputReport | None:
    """Cold answers against warm (or serial) ones; None where cold starts change the prompts, and so the answers."""
    calls = seen.run_file.calls
    if seen.isolation.changes_prompt:
        return None
    cached = calls.get("warm") or calls.get("serial")
    if "cold" not in calls or not cached:
        return None
    warm = {call.row: call.outcome for call in cached}
    pairs = []
    for call in calls["cold"]:
        other = warm.get(call.row)
        good = call.outcome.state == "done" and other is not None and other.state == "done"
        pairs.append((call.row, call.outcome.reading if good else None, other.reading if good and other else None))
    return output_report_of(pairs, seen.tolerance)


def _latency(rows: Sequence[RequestRow], seen: Seen) -> tuple[LatencyModel | None, str]:
    points = [
        LatencyPoint(row.prompt_tokens - row.measured_cached_tokens, row.prompt_tokens, row.time_to_first_token_s)
        for row in rows
        if row.phase in FITTED_PHASES
        and row.error is None
        and row.measured_cached_tokens is not None
        and row.time_to_first_token_s is not None
    ]
    facts, profile = seen.endpoint, seen.profile
    source = f"prefixscope replay on {facts.url}, {profile.name} {profile.version}, block size {profile.block_size}"
    try:
        return fit_latency(points, source), ""
    except NoFitError as error:
        return None, str(error)


def _warnings(seen: Seen, phases: Sequence[PhaseReport]) -> list[str]:
    found = list(seen.endpoint.missing)
    if seen.endpoint.prefix_caching is False:
        found.append("prefix caching is switched off at this endpoint: it will read 0 whatever is predicted")
    if seen.isolation.method == "none":
        found.append(f"no cold start: {'; '.join(seen.isolation.tried) or 'not wanted'}")
    if seen.isolation.changes_prompt:
        added = first_block_tokens(seen.profile.match_unit)
        found.append(
            f"cold starts are made by a unique first block: every prompt is {added} tokens longer than in the log, and "
            "answers of different cold starts are not compared"
        )
    found += _silent(seen)
    for phase in phases:
        if phase.order != "serial" and phase.cache != "infinite":
            found.append(
                f"{phase.phase}: several requests at a time in a cache smaller than what was sent: what is forgotten "
                "when depends on the engine's steps, which a client can't see, so this prediction is approximate"
            )
        sent = seen.run_file.phases[phase.phase].expected_counter_prompt_tokens
        if phase.counter_prompt_tokens is not None and sent is not None and phase.counter_prompt_tokens > sent:
            found.append(
                f"{phase.phase}: the endpoint counted {phase.counter_prompt_tokens} prompt tokens where {sent} were "
                "sent: something else uses it, and its cache"
            )
    return found


def _silent(seen: Seen) -> list[str]:
    """What to do where answers do not tell their cached tokens."""
    readings = [
        call.outcome.reading for calls in seen.run_file.calls.values() for call in calls if call.outcome.state == "done"
    ]
    silent = sum(reading.cached_tokens is None for reading in readings)
    counted = sum(reading.cached_source == COUNTED for reading in readings)
    if not silent and not counted:
        return []
    flag = CACHED_TOKENS_FLAG.get(seen.endpoint.engine or seen.profile.name)
    hint = f" (start it with {flag})" if flag else ""
    return [
        f"the endpoint does not tell cached tokens{hint}: {counted} requests sent alone were measured by its counters, "
        f"{silent} are unknown"
    ]
