"""Predicted against measured: a verdict per request, sums per phase, and whose fault a difference is.

A difference alone says "the prediction is wrong". It becomes "the metric is suspect" when the measured numbers can't be
true for any cache: more than the prompt without its last token, no multiple of the endpoint's own block size, in
contradiction to its own counters, or the same rule for every prompt whatever it shares.
"""

from __future__ import annotations

from collections.abc import Sequence

from prefixscope.engines.profile import EngineProfile
from prefixscope.replay.runfile import CallRecord, PhaseRecord, PromptCheck
from prefixscope.results.replay import Comparison, Diagnosis, PhaseReport, PromptReport, RequestRow, Verdict

__all__ = ["check_prompt", "comparison_of", "diagnosis_of", "gate_of", "prompt_report_of", "row_of"]

SERIAL_EXACT = 1.0
CONCURRENT_EXACT = 0.99
CONCURRENT_DIFFERENCE = 0.003
DISAGGREGATED_ROWS = 3


def check_prompt(ours: Sequence[int], theirs: Sequence[int]) -> PromptCheck:
    """Equal, or the first position where the two differ and what stands there (None: one ended).

    >>> check_prompt([1, 2, 3], [1, 2])
    PromptCheck(equal=False, position=2, ours=3, theirs=None)
    """
    for at, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a != b:
            return PromptCheck(False, at, a, b)
    if len(ours) == len(theirs):
        return PromptCheck(True)
    at = min(len(ours), len(theirs))
    return PromptCheck(False, at, ours[at] if at < len(ours) else None, theirs[at] if at < len(theirs) else None)


def row_of(call: CallRecord, predicted: int | None, unit: int, why_unknown: str = "not predicted") -> RequestRow:
    """One request's verdict. One that failed, or whose numbers are not both known, is unknown."""
    outcome = call.outcome
    measured = outcome.reading.cached_tokens
    verdict, why = _verdict(call, predicted, measured, unit, why_unknown)
    first = outcome.first_token_s
    return RequestRow(
        phase=call.phase,
        row=call.row,
        model=call.model,
        prompt_tokens=call.prompt_tokens,
        measured_prompt_tokens=outcome.reading.prompt_tokens,
        predicted_cached_tokens=predicted,
        measured_cached_tokens=measured,
        output_tokens=outcome.reading.output_tokens,
        verdict=verdict,
        why=why,
        time_to_first_token_s=None if first is None else first - outcome.sent_s,
        duration_s=outcome.finished_s - outcome.sent_s,
        attempts=outcome.attempts,
        error=outcome.error,
    )


def _verdict(
    call: CallRecord, predicted: int | None, measured: int | None, unit: int, why_unknown: str
) -> tuple[Verdict, str]:
    if call.outcome.state != "done":
        return "unknown", f"the call failed: {call.outcome.error}"
    if measured is None:
        return "unknown", "the endpoint does not tell cached tokens"
    if predicted is None:
        return "unknown", why_unknown
    if call.prompt_check is not None and not call.prompt_check.equal:
        return "wrong", f"the endpoint rendered another prompt: token {call.prompt_check.position} differs"
    if predicted == measured:
        return "exact", ""
    if abs(predicted - measured) <= unit:
        return "within_unit", f"differs by {predicted - measured:+d} tokens, one unit is {unit}"
    return "wrong", f"differs by {predicted - measured:+d} tokens"


def comparison_of(rows: Sequence[RequestRow]) -> Comparison:
    """Counts of verdicts; sums and errors over the rows that finished and have both numbers."""
    both = [
        (row.prompt_tokens, row.predicted_cached_tokens, row.measured_cached_tokens)
        for row in rows
        if row.verdict != "unknown"
    ]
    differences = [(predicted or 0) - (measured or 0) for _, predicted, measured in both]
    count = {verdict: sum(row.verdict == verdict for row in rows) for verdict in ("exact", "within_unit", "wrong")}
    return Comparison(
        requests=len(rows),
        exact=count["exact"],
        within_unit=count["within_unit"],
        wrong=count["wrong"],
        unknown=len(rows) - len(both),
        prompt_tokens=sum(prompt for prompt, _, _ in both),
        predicted_cached_tokens=sum(predicted or 0 for _, predicted, _ in both),
        measured_cached_tokens=sum(measured or 0 for _, _, measured in both),
        sum_absolute_difference=sum(map(abs, differences)),
        mean_absolute_error=sum(map(abs, differences)) / len(both) if both else None,
        largest_error=max(map(abs, differences)) if both else None,
        bias_tokens=sum(differences) / len(both) if both else None,
    )


def diagnosis_of(
    rows: Sequence[RequestRow],
    phase: PhaseRecord,
    prompts: PromptReport,
    profile: EngineProfile,
    *,
    unit_was_read: bool,
    controls_failed: str | None = None,
) -> tuple[Diagnosis, tuple[str, ...]]:
    """Whose fault a difference is, with the reasons as sentences."""
    known = [row for row in rows if row.verdict != "unknown"]
    if not known:
        return "unknown", (*dict.fromkeys(row.why for row in rows), *_in_total(rows, phase))
    other = [row for row in known if row.measured_prompt_tokens not in (None, row.prompt_tokens)]
    if other or prompts.different:
        return "prompts_differ", (_prompts_differ(other, prompts),)
    suspicions = _suspicions(known, phase, profile, unit_was_read)
    if controls_failed is not None:
        suspicions.insert(0, controls_failed)
    if suspicions:
        return "metric_suspect", tuple(suspicions)
    if all(row.verdict == "exact" for row in known):
        return "agrees", ()
    return "prediction_wrong", tuple(dict.fromkeys(row.why for row in known if row.why))[:3]


def _in_total(rows: Sequence[RequestRow], phase: PhaseRecord) -> list[str]:
    """Where no single request has a reading, the counters may still tell the sum."""
    predicted = [row.predicted_cached_tokens for row in rows]
    if phase.counter_cached_tokens is None or None in predicted:
        return []
    total = sum(tokens or 0 for tokens in predicted)
    return [f"in total its counters grew by {phase.counter_cached_tokens} cached tokens where {total} are predicted"]


def _prompts_differ(other: Sequence[RequestRow], prompts: PromptReport) -> str:
    if prompts.different:
        return (
            f"{prompts.different} prompts were rendered differently; first: row {prompts.first_row}, token "
            f"{prompts.first_position}: {prompts.ours} here, {prompts.theirs} there"
        )
    row = other[0]
    return (
        f"{len(other)} prompts have another length at the endpoint; first: row {row.row}, {row.prompt_tokens} tokens "
        f"here, {row.measured_prompt_tokens} there"
    )


def _suspicions(
    rows: Sequence[RequestRow], phase: PhaseRecord, profile: EngineProfile, unit_was_read: bool
) -> list[str]:
    found = []
    numbers = [(row.prompt_tokens, row.measured_cached_tokens or 0) for row in rows]
    always = all(cached == prompt - 1 for prompt, cached in numbers)
    if always and len(rows) >= DISAGGREGATED_ROWS and profile.match_unit > 1:
        found.append(
            "every request read its whole prompt but one token: a decode instance of a disaggregated deployment "
            "reports that; measure at the prefill instance"
        )
    impossible = sum(not 0 <= cached < prompt for prompt, cached in numbers)
    if impossible and profile.recomputes_last_token:
        found.append(f"{impossible} requests read their whole prompt or more, and one token is always computed")
    unit = profile.match_unit
    odd = [cached for prompt, cached in numbers if cached % unit]
    if odd and unit_was_read and not profile.partial_reuse and not always:
        found.append(f"{len(odd)} readings are no multiple of the endpoint's own unit of {unit} (first: {odd[0]})")
    counted, told = phase.counter_cached_tokens, phase.measured_cached_with_controls
    ours_only = phase.counter_prompt_tokens == phase.expected_counter_prompt_tokens
    if ours_only and counted is not None and told is not None and counted != told:
        found.append(f"its own counters grew by {counted} cached tokens where its answers add up to {told}")
    return found


def prompt_report_of(checks: Sequence[tuple[int, PromptCheck | None]]) -> PromptReport:
    """Sums up (row, check) pairs; None where the endpoint told no ids."""
    different = [(row, check) for row, check in checks if check is not None and not check.equal]
    row, first = different[0] if different else (None, PromptCheck(True))
    unknown = sum(check is None for _, check in checks)
    return PromptReport(
        requests=len(checks),
        equal=len(checks) - unknown - len(different),
        different=len(different),
        unknown=unknown,
        first_row=row,
        first_position=first.position,
        ours=first.ours,
        theirs=first.theirs,
    )


def gate_of(phases: Sequence[PhaseReport], isolated: bool, interrupted: bool) -> tuple[str, ...]:
    """The thresholds of `--validate` that were not met, as sentences; no sentence: passed.

    Serial phases must be exact for every request. Concurrent ones: 99 % of the requests, and a sum of |difference| of
    at most 0.3 % of the prompt tokens.
    """
    failed = []
    if not isolated:
        failed.append("no cold start could be proven: nothing can be validated on this endpoint")
    if interrupted:
        failed.append("the run was interrupted")
    if not any(phase.comparison.requests for phase in phases):
        failed.append("no request was measured")
    for phase in phases:
        failed.extend(_phase_gate(phase))
    return tuple(failed)


def _phase_gate(phase: PhaseReport) -> list[str]:
    seen = phase.comparison
    if not seen.requests:
        return []
    least = SERIAL_EXACT if phase.order == "serial" else CONCURRENT_EXACT
    failed = []
    if seen.exact < least * seen.requests:
        failed.append(
            f"{phase.phase}: {seen.exact} of {seen.requests} requests exact ({seen.within_unit} within one unit, "
            f"{seen.wrong} wrong, {seen.unknown} unknown), {least:.0%} are due"
        )
    share = seen.difference_share
    if phase.order != "serial" and share is not None and share > CONCURRENT_DIFFERENCE:
        failed.append(f"{phase.phase}: sum of |difference| is {share:.2%} of the prompt tokens, 0.3 % are allowed")
    return failed
