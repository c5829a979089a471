"""Whole replays against honest, lying, slow, failing and breaking endpoints."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefixscope.errors import EndpointError, OptionError
from prefixscope.replay.connection import ClientLimits
from prefixscope.replay.item import ReplayItem, tokens_of
from prefixscope.replay.mock import FailingEndpoint, HalfStreamEndpoint, LyingEndpoint, MockEndpoint, SlowEndpoint
from prefixscope.replay.options import ReplayOptions, plan_of
from prefixscope.replay.phases import Load
from prefixscope.replay.run import replay, replay_async
from tests.replay.workload import QUICK, URL, chats, families, item_of, phase_of, run

EVERYTHING = ("cold", "serial", "warm", "load", "switch", "answers")


class TestHonest:
    @pytest.mark.parametrize("blocks", [None, 64])
    def test_every_phase_one_after_another_is_exact(self, blocks: int | None) -> None:
        phases = ("cold", "serial", "warm", "switch", "answers")
        report = run(families(80), MockEndpoint(16, blocks), phases=phases, max_output_tokens=5)
        assert [phase.phase for phase in report.phases] == list(phases)
        for phase in report.phases:
            seen = phase.comparison
            assert seen.exact == seen.requests > 0 and phase.diagnosis == "agrees", phase
            assert phase.counter_cached_tokens is not None and not phase.errors
        assert phase_of(report, "serial").cache == ("infinite" if blocks is None else "64 blocks")
        assert report.gate == () and report.isolation.proven
        assert report.outputs is not None and report.outputs.equal == 80
        assert phase_of(report, "switch").comparison.measured_cached_tokens > 0
        assert phase_of(report, "answers").comparison.measured_cached_tokens > 0

    @pytest.mark.parametrize("load", [Load("concurrency", 8), Load("rate", 400), Load("log_timing", 5)])
    def test_under_load_an_endless_cache_is_exact_in_the_order_of_sending(self, load: Load) -> None:
        endpoint = MockEndpoint(16, seconds_per_token=2e-5)
        report = run(families(100), endpoint, phases=("load",), loads=(load,), max_output_tokens=3)
        phase = phase_of(report, load.name)
        assert phase.comparison.exact == 100 and phase.order == "sent" and report.gate == ()
        share = phase.comparison.measured_cached_tokens / phase.comparison.prompt_tokens
        assert 0.3 < share < 0.8
        assert phase.requests_per_s is not None and phase.requests_per_s > 0
        assert phase.lateness.count == (0 if load.kind == "concurrency" else 100)

    def test_rate_and_log_timing_are_kept(self) -> None:
        items = families(20)  # 10 ms apart
        for load, least in ((Load("rate", 50), 19 / 50), (Load("log_timing", 0.5), 0.38)):
            phase = phase_of(run(items, MockEndpoint(16), phases=("load",), loads=(load,)), load.name)
            assert least <= phase.duration_s < least + 1

    def test_messages_are_sent_as_logged_and_the_prompts_are_compared(self) -> None:
        endpoint = MockEndpoint(16)
        items = chats(12, tools=True)
        report = run(items, endpoint, send_as="body", phases=("serial", "load"))
        assert phase_of(report, "serial").comparison.exact == 12
        assert report.prompts.equal == 12 and report.prompts.unknown == 0
        sent = [body for body in endpoint.bodies if "messages" in body]
        assert [body["messages"] for body in sent[:12]] == [item.body["messages"] for item in items]
        assert all(body["tool_choice"] == "none" and body["model"] == "mock" for body in sent)

    def test_a_prompt_rendered_differently_is_told_from_a_wrong_prediction(self) -> None:
        items = chats(6)
        ids = list(range(100, 400))
        items[3] = dataclasses.replace(items[3], tokens=tokens_of(ids))
        report = run(items, MockEndpoint(16), send_as="body")
        prompts = report.prompts
        assert (prompts.different, prompts.equal, prompts.first_row, prompts.first_position) == (1, 5, 3, 0)
        assert (prompts.ours, prompts.theirs) == (100, ord("s"))
        assert phase_of(report, "serial").diagnosis == "prompts_differ"
        assert report.requests[3].verdict == "wrong" and "rendered another prompt" in report.requests[3].why

    def test_what_would_spoil_the_reading_is_left_out(self) -> None:
        endpoint = MockEndpoint(16)
        body = {"messages": [{"role": "user", "content": "x" * 80}], "n": 4, "prompt_logprobs": 1, "stream": False}
        body |= {"max_completion_tokens": 900, "seed": 1, "chat_template_kwargs": {"a": 1}, "temperature": 1.3}
        item = dataclasses.replace(chats(1)[0], body=body)
        run([item], endpoint, send_as="body")
        sent = endpoint.bodies[-1]
        assert not {"n", "prompt_logprobs", "max_completion_tokens", "seed"} & set(sent)
        assert (sent["max_tokens"], sent["temperature"], sent["stream"]) == (1, 0, True)
        assert sent["chat_template_kwargs"] == {"a": 1}

    def test_salts_of_the_log_stay_apart_inside_the_salt_of_the_run(self) -> None:
        ids = list(range(64))
        plain = item_of(0, ids)
        salted = dataclasses.replace(
            item_of(1, ids), body={"cache_salt": "s"}, identity=dataclasses.replace(plain.identity, salt="hash of s")
        )
        report = run([plain, salted, dataclasses.replace(salted, row=2)], MockEndpoint(16, resets=False))
        assert [row.measured_cached_tokens for row in report.requests] == [0, 0, 48]
        assert phase_of(report, "serial").comparison.exact == 3

    def test_adapters_see_nothing_of_each_other(self) -> None:
        endpoint = MockEndpoint(16, models=("mock", "la", "lb"))
        items = [item_of(row, list(range(100 * row, 100 * row + 60))) for row in range(3)]
        report = run(items, endpoint, phases=("switch",), switch_models=("la", "lb"))
        by_row: dict[int, list[int | None]] = {}
        for row in report.requests:
            by_row.setdefault(row.row, []).append(row.measured_cached_tokens)
        assert len(by_row) == 3
        for readings in by_row.values():
            assert readings[:5] == [0] * 5 and all(tokens for tokens in readings[5:]) and len(readings) == 10

    def test_generated_tokens_are_found_again(self) -> None:
        report = run(families(20), MockEndpoint(16), phases=("answers",), answer_tokens=40)
        second = report.requests[1::2]
        assert phase_of(report, "answers").comparison.exact == 16
        for row, item in zip(second, families(20), strict=False):
            stored = item.prompt_tokens + 39
            assert row.measured_cached_tokens == stored // 16 * 16 > (item.prompt_tokens // 16) * 16

    def test_a_sample_of_nothing_and_unknown_models_are_refused(self) -> None:
        with pytest.raises(OptionError, match="the sample is empty"):
            run([], MockEndpoint(16))
        with pytest.raises(EndpointError, match="does not serve 'gpt'"):
            run([item_of(0, [1], model="gpt")], MockEndpoint(16))


class TestReadings:
    def test_without_details_the_counters_measure_what_is_sent_alone(self) -> None:
        report = run(families(30), MockEndpoint(16, details=False), phases=("serial", "load"))
        assert report.isolation.proven
        assert phase_of(report, "serial").comparison.exact == 30
        load = phase_of(report, "concurrency 8")
        assert load.comparison.unknown == 30 and load.diagnosis == "unknown"
        assert load.counter_cached_tokens == phase_of(report, "serial").comparison.measured_cached_tokens

    def test_without_details_and_counters_the_flag_to_set_is_named(self) -> None:
        class Silent(MockEndpoint):
            def _metrics(self) -> Any:
                yield 'vllm:cache_config_info{block_size="16"} 1'

        report = run(families(5), Silent(16, details=False))
        assert report.requests[0].verdict == "unknown" and report.isolation.method == "none"
        assert any("--enable-prompt-tokens-details" in warning for warning in report.warnings)

    def test_traffic_of_others_is_seen_in_the_counters(self) -> None:
        class Shared(MockEndpoint):
            async def handle_async_request(self, request: Any) -> Any:
                self.prompt_tokens += 5
                return await super().handle_async_request(request)

        report = run(families(5), Shared(16))
        assert any("something else uses it" in warning for warning in report.warnings)


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


class TestRunFile:
    def test_a_finished_run_is_not_sent_again(self, tmp_path: Path) -> None:
        path = str(tmp_path / "run.jsonl")
        first = run(families(20), MockEndpoint(16), phases=EVERYTHING, run_file=path, max_output_tokens=3)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        endpoint = MockEndpoint(16)
        again = run(families(20), endpoint, phases=EVERYTHING, run_file=path, resume=True, max_output_tokens=3)
        assert len(endpoint.bodies) < 10  # controls only
        assert again.phases == first.phases and again.requests == first.requests
        assert again.outputs == first.outputs

    def test_no_prompt_and_no_key_is_in_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        items = [item_of(row, list(range(7000, 7100))) for row in range(3)]
        run(items, MockEndpoint(16), run_file=str(path), api_key="sk-secret")
        text = path.read_text()
        assert "7001" not in text and "secret" not in text
        assert all(json.loads(line) for line in text.splitlines())

    def test_other_settings_or_another_sample_are_refused(self, tmp_path: Path) -> None:
        path = str(tmp_path / "run.jsonl")
        run(families(5), MockEndpoint(16), run_file=path)
        with pytest.raises(OptionError, match="exists; --resume"):
            run(families(5), MockEndpoint(16), run_file=path)
        with pytest.raises(OptionError, match="that run had sample"):
            run(families(6), MockEndpoint(16), run_file=path, resume=True)
        with pytest.raises(OptionError, match="max_output_tokens = 1, this one has 2"):
            run(families(5), MockEndpoint(16), run_file=path, resume=True, max_output_tokens=2)

    def test_a_run_killed_at_any_byte_goes_on(self, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        items = families(12)
        whole = run(items, MockEndpoint(16), phases=("cold", "serial", "warm"), run_file=str(path), max_output_tokens=2)
        data = path.read_bytes()
        chance = random.Random(5)
        for cut in sorted(chance.randrange(data.index(b"\n") + 1, len(data)) for _ in range(12)):
            path.write_bytes(data[:cut])
            report = run(
                items, MockEndpoint(16), phases=("cold", "serial", "warm"), run_file=str(path), resume=True,
                max_output_tokens=2,
            )  # fmt: skip
            assert [phase.comparison for phase in report.phases] == [phase.comparison for phase in whole.phases]
            assert report.gate == ()

    def test_cancelling_gives_a_report_and_resuming_the_rest(self, tmp_path: Path) -> None:
        path = str(tmp_path / "run.jsonl")
        items = families(60)
        options = ReplayOptions(URL, phases=("cold", "serial"), run_file=path, limits=QUICK)

        async def cancelled() -> Any:
            task = asyncio.create_task(replay_async(items, options, transport=MockEndpoint(16, seconds_per_call=0.005)))
            await asyncio.sleep(0.25)
            task.cancel()
            return await task

        report = asyncio.run(cancelled())
        assert report.interrupted and report.phases[0].phase == "cold" and not report.phases[0].finished
        seen = report.phases[0].comparison
        assert 5 < seen.exact == seen.requests < 60
        endpoint = MockEndpoint(16)
        rest = replay(items, dataclasses.replace(options, resume=True), transport=endpoint)
        assert not rest.interrupted and rest.gate == ()
        assert [phase.comparison.exact for phase in rest.phases] == [60, 60]
        assert len(endpoint.bodies) == (60 - seen.requests) + 60 + 5 + 1

    def test_ctrl_c_writes_what_was_measured(self, tmp_path: Path) -> None:
        path = tmp_path / "run.jsonl"
        script = f"""
            from prefixscope.replay.mock import MockEndpoint
            from prefixscope.replay.options import ReplayOptions
            from prefixscope.replay.run import replay
            from tests.replay.workload import families
            options = ReplayOptions("http://h/v1", phases=("serial",), run_file={str(path)!r})
            endpoint = MockEndpoint(16, seconds_per_call=0.02)
            report = replay(families(2000), options, transport=endpoint, progress=lambda *_: print("going", flush=True))
            print(report.interrupted, report.phases[0].comparison.exact)
        """
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(10):
            assert process.stdout.readline() == "going\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        interrupted, exact = out.splitlines()[-1].split()
        assert process.returncode == 0 and interrupted == "True" and err == ""
        calls = [line for line in path.read_text().splitlines() if line.startswith('{"call"')]
        assert int(exact) == len(calls) >= 8


class TestPlan:
    def test_it_names_what_is_sent_without_sending(self) -> None:
        items = families(10)
        tokens = sum(item.prompt_tokens for item in items)
        plan = plan_of(items, ReplayOptions(URL, phases=EVERYTHING, max_output_tokens=4))
        assert [phase.phase for phase in plan.phases] == [
            "cold",
            "serial",
            "warm",
            "concurrency 8",
            "switch",
            "answers",
        ]
        assert plan.phases[0].calls == 10 and plan.phases[0].prompt_tokens == tokens
        assert plan.calls == 4 * 10 + 6 * 3 + 2 * 8
        assert plan.prompt_tokens > 4 * tokens and plan.endpoint == "http://engine.test:8000"

    def test_it_is_an_upper_bound_of_what_is_sent(self) -> None:
        items = families(10)
        endpoint = MockEndpoint(16)
        report = run(items, endpoint, phases=EVERYTHING, max_output_tokens=4)
        assert len(report.requests) == report.plan.calls
        assert sum(row.prompt_tokens for row in report.requests) <= report.plan.prompt_tokens
        assert sum(row.output_tokens or 0 for row in report.requests) <= report.plan.output_tokens

    @pytest.mark.parametrize(
        "options",
        [{"phases": ()}, {"phases": ("hot",)}, {"phases": ("warm",)}, {"max_output_tokens": 0}, {"answer_tokens": 0}],
    )
    def test_options_without_sense_are_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(OptionError):
            ReplayOptions(URL, **options)

    def test_the_key_is_not_in_the_options_text(self) -> None:
        assert "sk-secret" not in repr(ReplayOptions(URL, api_key="sk-secret"))

    def test_log_timing_needs_times(self) -> None:
        items = [dataclasses.replace(item, time_ns=None) for item in families(3)]
        with pytest.raises(OptionError, match="without a time"):
            run(items, MockEndpoint(16), phases=("load",), loads=(Load("log_timing", 2),))


def test_items_keep_their_tokens() -> None:
    item: ReplayItem = item_of(3, [1, 2, 3])
    assert item.prompt_tokens == 3
