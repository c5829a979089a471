"""What `replay` found out: plain frozen data for reports. None is unknown, which is never zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from prefixscope.results import rate
from prefixscope.results.worth import Worth

__all__ = [
    "SCHEMA",
    "Comparison",
    "ControlReading",
    "EndpointFacts",
    "IsolationReport",
    "OutputReport",
    "PhaseReport",
    "Plan",
    "PlannedPhase",
    "PromptReport",
    "Quantiles",
    "ReplayReport",
    "RequestRow",
    "SampleReport",
    "Stratum",
    "Verdict",
]

SCHEMA = "prefixscope.replay/1"

Verdict = Literal["exact", "within_unit", "wrong", "unknown"]
Diagnosis = Literal["agrees", "prediction_wrong", "metric_suspect", "prompts_differ", "unknown"]
IsolationMethod = Literal["reset", "salt", "extra_key", "first_block", "none"]


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Percentiles of a set of durations in seconds, by nearest rank; `count` values, None where there are none."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None

    @classmethod
    def of(cls, values: list[float]) -> Quantiles:
        """The smallest values that at least 50, 95 and 99 % of `values` do not exceed.

        >>> Quantiles.of([3.0, 1.0, 2.0])
        Quantiles(count=3, p50=2.0, p95=3.0, p99=3.0)
        """
        if not values:
            return cls(0, None, None, None)
        ordered = sorted(values)
        picked = (ordered[max(0, -(-len(ordered) * percent // 100) - 1)] for percent in (50, 95, 99))
        return cls(len(ordered), *picked)


@dataclass(frozen=True, slots=True)
class PlannedPhase:
    """What a phase will send at most: calls, prompt tokens, output tokens."""

    phase: str
    calls: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run would send, told before anything is sent."""

    endpoint: str
    phases: tuple[PlannedPhase, ...]
    calls: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class EndpointFacts:
    """What the endpoint tells of itself. None: it does not say. `usable_blocks` leaves out vLLM's null block.

    `engine` is the name of a profile of this tool. `weights` pairs a served name with the weights behind it, where that
    is told: names of the same weights share a cache. `missing` are sentences: what could not be read, and the flag that
    would show it.
    """

    url: str
    engine: str | None
    version: str | None
    models: tuple[str, ...]
    weights: tuple[tuple[str, str], ...]
    block_size: int | None
    usable_blocks: int | None
    prefix_caching: bool | None
    accepts_ids: bool
    can_tokenize: bool
    sources: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ControlReading:
    """One control prompt: what it had to read from the cache, and what the endpoint said it read."""

    what: str
    prompt_tokens: int
    must_be: Literal["zero", "more_than_zero"]
    measured: int | None

    @property
    def passed(self) -> bool | None:
        """None where the endpoint gave no number."""
        if self.measured is None:
            return None
        return (self.measured == 0) == (self.must_be == "zero")


@dataclass(frozen=True, slots=True)
class IsolationReport:
    """How cold starts were made. `proven`: all controls read what they had to."""

    method: IsolationMethod
    changes_prompt: bool
    proven: bool
    controls: tuple[ControlReading, ...]
    tried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predicted against measured cached tokens of some requests; sums and errors over those with both numbers.

    `bias_tokens` is the mean of predicted - measured, `mean_absolute_error` and `largest_error` in tokens.
    """

    requests: int
    exact: int
    within_unit: int
    wrong: int
    unknown: int
    prompt_tokens: int
    predicted_cached_tokens: int
    measured_cached_tokens: int
    sum_absolute_difference: int
    mean_absolute_error: float | None
    largest_error: int | None
    bias_tokens: float | None

    def __post_init__(self) -> None:
        assert self.exact + self.within_unit + self.wrong + self.unknown == self.requests

    @property
    def exact_share(self) -> float | None:
        """Requests that were exact, of all requests (unknown ones count as not exact)."""
        return rate(self.exact, self.requests)

    @property
    def difference_share(self) -> float | None:
        """Sum of |predicted - measured| over the prompt tokens of the requests with both numbers."""
        return rate(self.sum_absolute_difference, self.prompt_tokens)


@dataclass(frozen=True, slots=True)
class RequestRow:
    """One request of one phase: numbers, verdict, and why."""

    phase: str
    row: int
    model: str
    prompt_tokens: int
    measured_prompt_tokens: int | None
    predicted_cached_tokens: int | None
    measured_cached_tokens: int | None
    output_tokens: int | None
    verdict: Verdict
    why: str
    time_to_first_token_s: float | None
    duration_s: float
    attempts: int
    error: str | None


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """One phase: comparison, times, errors. Throughput is what this client got here, not what the engine can do.

    `cache` is `infinite` or the blocks the prediction was limited to. `order` says whose order the prediction follows.
    `client_overhead` is this tool's own time per request, `lateness` how late requests were sent against their plan,
    `loop_lag_s` the longest the client's event loop was held up.
    """

    phase: str
    comparison: Comparison
    diagnosis: Diagnosis
    reasons: tuple[str, ...]
    cache: str
    order: str
    time_to_first_token: Quantiles
    between_tokens: Quantiles
    client_overhead: Quantiles
    lateness: Quantiles
    loop_lag_s: float
    duration_s: float
    requests_per_s: float | None
    prompt_tokens_per_s: float | None
    output_tokens_per_s: float | None
    errors: tuple[tuple[str, int], ...]
    retries: int
    counter_prompt_tokens: int | None
    counter_cached_tokens: int | None
    finished: bool


@dataclass(frozen=True, slots=True)
class PromptReport:
    """Whether the endpoint rendered the prompts this tool rendered. `unknown`: it does not tell its ids.

    The first request that differs is told with the position of its first differing token and both ids there.
    """

    requests: int
    equal: int
    different: int
    unknown: int
    first_row: int | None
    first_position: int | None
    ours: int | None
    theirs: int | None


@dataclass(frozen=True, slots=True)
class OutputReport:
    """Answers with cache against answers without, at temperature 0.

    `ties`: the first different token was as likely in both runs within the tolerance (rounding, not a broken cache).
    """

    requests: int
    equal: int
    ties: int
    different: int
    unknown: int
    largest_logprob_difference: float | None
    tolerance: float
    first_row: int | None
    first_position: int | None


@dataclass(frozen=True, slots=True)
class Stratum:
    """One class of the sample: a model and a range of prompt lengths; log against sample."""

    model: str
    shortest_tokens: int
    longest_tokens: int
    families: int
    requests: int
    sampled_families: int
    sampled_requests: int


@dataclass(frozen=True, slots=True)
class SampleReport:
    """How the sample was taken. `cut_families`: too large to go in whole, so their first rows (in time) were taken."""

    requests: int
    prompt_tokens: int
    families: int
    cut_families: int
    log_requests: int
    log_prompt_tokens: int
    reusable_tokens: int
    log_reusable_tokens: int
    strata: tuple[Stratum, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """Everything one run found out. `gate` are the sentences of failed `--validate` thresholds (empty: passed)."""

    plan: Plan
    endpoint: EndpointFacts
    engine: str
    engine_version: str
    match_unit: int
    assumed: tuple[str, ...]
    isolation: IsolationReport
    phases: tuple[PhaseReport, ...]
    requests: tuple[RequestRow, ...]
    prompts: PromptReport
    outputs: OutputReport | None
    latency: Any
    latency_why: str
    worth: Worth
    warnings: tuple[str, ...]
    gate: tuple[str, ...]
    interrupted: bool
    run_file: str | None
