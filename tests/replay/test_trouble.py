"""Whole replays against endpoints that lie, fail, break off, are slow, or die."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from prefixscope.errors import EndpointError
from prefixscope.replay.connection import ClientLimits
from prefixscope.replay.mock import FailingEndpoint, HalfStreamEndpoint, LyingEndpoint, MockEndpoint, SlowEndpoint
from tests.replay.workload import QUICK, families, item_of, phase_of, run


def plus_unit(cached: int, prompt: int) -> int:
    return cached + 16 if prompt % 7 == 0 and cached else cached


class TestLies:
    @pytest.mark.parametrize(
        ("lie", "counters_lie", "word"),
        [
            (lambda cached, prompt: prompt - 1 if prompt > 64 else cached, False, "disaggregated"),
            (lambda cached, prompt: prompt if prompt > 100 else cached, False, "whole prompt or more"),
            (lambda cached, prompt: cached - 3 if cached > 60 else cached, False, "no multiple"),
            (plus_unit, False, "its own counters grew"),
        ],
    )
    def test_a_lie_is_called_a_suspect_metric(
        self, lie: Callable[[int, int], int], counters_lie: bool, word: str
    ) -> None:
        items = [item for item in families(80) if item.prompt_tokens > 64]
        report = run(items, LyingEndpoint(lie, counters_lie=counters_lie))
        phase = phase_of(report, "serial")
        assert phase.diagnosis == "metric_suspect", phase
        assert any(word in reason for reason in phase.reasons), phase.reasons
        assert report.gate and phase.comparison.exact < phase.comparison.requests

    def test_a_consistent_liar_is_caught_by_the_control_of_the_phase(self) -> None:
        calls = 0

        def lie_later(cached: int, prompt: int) -> int:
            nonlocal calls
            calls += 1
            return cached if calls <= 10 else min(cached + 16, (prompt - 1) // 16 * 16)

        report = run(families(20), LyingEndpoint(lie_later, counters_lie=True))
        phase = phase_of(report, "serial")
        assert phase.diagnosis == "metric_suspect" and "never sent before read 16" in phase.reasons[0]

    def test_a_real_difference_is_called_a_wrong_prediction(self) -> None:
        class OtherRule(MockEndpoint):
            """Keeps every second prompt only, and says so truthfully."""

            async def _admitted(self, namespace: object, prompt: list[int]) -> Any:
                self.salt = getattr(self, "salt", 0) + (len(prompt) % 2)
                return await super()._admitted((namespace, self.salt), prompt)

        report = run(families(60, seed=3), OtherRule(16), isolation="none")
        phase = phase_of(report, "serial")
        assert phase.diagnosis == "prediction_wrong" and report.gate


class TestTrouble:
    @pytest.mark.parametrize("seed", [1, 2])
    def test_one_call_in_five_failing_costs_answers_but_no_truth(self, seed: int) -> None:
        endpoint = FailingEndpoint(0.2, seed=seed)
        controls_pass = 0
        for _ in range(10):  # the proof of isolation is a few calls; a 500 among them ends the run with a sentence
            try:
                report = run(families(120), endpoint, phases=("serial", "load"))
                break
            except EndpointError as error:
                assert "control prompt failed" in str(error)
                controls_pass += 1
        for phase in report.phases:
            seen = phase.comparison
            assert seen.wrong == seen.within_unit == 0 and seen.exact >= 60, phase
            assert seen.unknown >= 1 and phase.retries > 5
            assert sum(count for _, count in phase.errors) <= seen.unknown
        failed = [row for row in report.requests if row.error is not None]
        assert failed and all("HTTP 500" in (row.error or "") for row in failed)

    def test_half_streams_are_unknown_and_what_follows_is_exact(self) -> None:
        report = run(families(60), HalfStreamEndpoint(every=9), max_output_tokens=2)
        seen = phase_of(report, "serial").comparison
        assert seen.wrong == 0 and seen.unknown >= 6 and seen.exact == 60 - seen.unknown
        assert any("before the answer was complete" in (row.error or "") for row in report.requests)

    def test_slow_answers_time_out_as_unknown(self) -> None:
        class SometimesSlow(MockEndpoint):
            async def _events(self, body: Any, running: Any, prompt: int, chat: bool) -> Any:
                self.seconds_per_call = 1.0 if prompt == 77 else 0.0
                async for event in super()._events(body, running, prompt, chat):
                    yield event

        items = [item_of(0, list(range(77))), item_of(1, list(range(50))), item_of(2, list(range(50)))]
        limits = ClientLimits(first_token_s=0.1, backoff_s=0.001)
        report = run(items, SometimesSlow(16), limits=limits, isolation="salt")
        verdicts = [(row.verdict, row.predicted_cached_tokens) for row in report.requests]
        assert verdicts == [("unknown", None), ("unknown", None), ("exact", 48)]
        assert report.requests[0].error == "TimeoutError: timed out"

    def test_times_of_a_slow_endpoint_are_measured(self) -> None:
        phase = phase_of(run(families(5), SlowEndpoint(0.05)), "serial")
        assert phase.time_to_first_token.p50 is not None and 0.05 <= phase.time_to_first_token.p50 < 0.5
        assert phase.client_overhead.p95 is not None and phase.client_overhead.p95 < 0.05

    def test_an_endpoint_that_dies_leaves_a_report_of_what_was_measured(self) -> None:
        class Dying(MockEndpoint):
            async def handle_async_request(self, request: Any) -> Any:
                if len(self.bodies) > 20:
                    import httpx

                    raise httpx.ConnectError("refused")
                return await super().handle_async_request(request)

        limits = dataclasses.replace(QUICK, attempts=2)
        report = run(families(60), Dying(16), limits=limits)
        assert report.interrupted and "can't be reached" in report.warnings[0]
        assert 10 < phase_of(report, "serial").comparison.exact < 60
        assert "the run was interrupted" in report.gate
