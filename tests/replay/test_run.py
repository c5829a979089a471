"""Whole replays against an honest endpoint: every phase, what is sent, and what can be read of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx
import pytest

from prefixscope.errors import EndpointError, OptionError
from prefixscope.replay.item import tokens_of
from prefixscope.replay.mock import MockEndpoint
from prefixscope.replay.phases import Load
from tests.replay.workload import chats, families, item_of, phase_of, run


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
    def test_under_load_an_endless_cache_is_exact_in_the_order_of_admission(self, load: Load) -> None:
        endpoint = MockEndpoint(16, seconds_per_token=2e-5)
        report = run(families(100), endpoint, phases=("load",), loads=(load,), max_output_tokens=3)
        phase = phase_of(report, load.name)
        assert phase.comparison.exact == 100 and phase.order == "admission" and report.gate == ()
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
        salted = dataclasses.replace(item_of(1, ids), body={"cache_salt": "s"})
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

    def test_two_names_of_the_same_weights_share(self) -> None:
        class Aliased(MockEndpoint):
            def _read(self, path: str) -> httpx.Response:
                if path != "/v1/models":
                    return super()._read(path)
                return httpx.Response(200, json={"data": [{"id": name, "root": "/one"} for name in self.models]})

            async def _admitted(self, namespace: object, prompt: list[int]) -> Any:
                return await super()._admitted("one", prompt)

        ids = list(range(64))
        report = run([item_of(0, ids), item_of(1, ids, model="alias")], Aliased(16, models=("mock", "alias")))
        assert [row.measured_cached_tokens for row in report.requests] == [0, 48]
        assert phase_of(report, "serial").comparison.exact == 2

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
        assert (
            f"grew by {load.counter_cached_tokens} cached tokens where {load.counter_cached_tokens} are"
            in load.reasons[1]
        )
        assert any("--enable-prompt-tokens-details" in warning for warning in report.warnings)
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
