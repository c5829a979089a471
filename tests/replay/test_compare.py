"""Verdicts, answers, and what an endpoint says of itself: small inputs with known results."""

from __future__ import annotations

import math
from typing import Any

import pytest

from prefixscope.engines.profile import EngineOptions
from prefixscope.errors import EndpointError, OptionError
from prefixscope.replay.compare import check_prompt, comparison_of, gate_of, row_of
from prefixscope.replay.connection import Outcome
from prefixscope.replay.detect import profile_of
from prefixscope.replay.endpoint import Answers, facts_of, facts_of_metrics
from prefixscope.replay.measurement import Reading, ReadingBuilder
from prefixscope.replay.outputs import compare_answers, output_report_of
from prefixscope.replay.runfile import CallRecord, PromptCheck
from prefixscope.results.replay import Comparison, PhaseReport, Quantiles


def call(measured: int | None, prompt: int = 100, **fields: Any) -> CallRecord:
    outcome = Outcome(
        "done", None, 1, 1.0, 1.1, 1.5, 2.0, (), 0.0, Reading(prompt_tokens=prompt, cached_tokens=measured)
    )
    return CallRecord("serial", 0, "m", prompt, None, outcome, **fields)


class TestVerdict:
    @pytest.mark.parametrize(
        ("predicted", "measured", "verdict"),
        [(32, 32, "exact"), (32, 48, "within_unit"), (48, 32, "within_unit"), (32, 64, "wrong"), (0, None, "unknown")],
    )
    def test_by_difference(self, predicted: int, measured: int | None, verdict: str) -> None:
        row = row_of(call(measured), predicted, 16)
        assert row.verdict == verdict and bool(row.why) == (verdict != "exact")
        assert row.time_to_first_token_s == 0.5 and row.duration_s == 1.0

    def test_another_prompt_is_wrong_whatever_the_numbers(self) -> None:
        row = row_of(call(32, prompt_check=PromptCheck(False, 4, 1, 2)), 32, 16)
        assert row.verdict == "wrong" and "token 4" in row.why

    def test_sums_leave_out_what_is_unknown(self) -> None:
        pairs = [(32, 32), (32, 48), (64, 0), (16, None), (None, 16)]
        seen = comparison_of([row_of(call(measured), predicted, 16) for predicted, measured in pairs])
        assert (seen.exact, seen.within_unit, seen.wrong, seen.unknown) == (1, 1, 1, 2)
        assert (seen.prompt_tokens, seen.sum_absolute_difference, seen.largest_error) == (300, 80, 64)
        assert seen.mean_absolute_error == 80 / 3 and seen.bias_tokens == 48 / 3
        assert seen.exact_share == 1 / 5 and seen.difference_share == 80 / 300
        assert comparison_of([]).mean_absolute_error is None and comparison_of([]).exact_share is None

    def test_the_first_different_token(self) -> None:
        assert check_prompt([1, 2], [1, 2]) == PromptCheck(True)
        assert check_prompt([1, 2], [1, 9]) == PromptCheck(False, 1, 2, 9)
        assert check_prompt([], [7]) == PromptCheck(False, 0, None, 7)


def phase(order: str, exact: int, requests: int, difference: int = 0) -> PhaseReport:
    nothing = Quantiles.of([])
    seen = Comparison(requests, exact, 0, requests - exact, 0, 10_000, 0, 0, difference, None, None, None)
    return PhaseReport(
        "p", seen, "agrees", (), "infinite", order, nothing, nothing, nothing, nothing, 0.0, 1.0,
        None, None, None, (), 0, None, None, True,
    )  # fmt: skip


class TestGate:
    @pytest.mark.parametrize(
        ("order", "exact", "difference", "passes"),
        [
            ("serial", 1000, 0, True),
            ("serial", 999, 16, False),
            ("admission", 990, 30, True),
            ("admission", 989, 30, False),
            ("admission", 990, 31, False),
        ],
    )
    def test_thresholds(self, order: str, exact: int, difference: int, passes: bool) -> None:
        assert (gate_of([phase(order, exact, 1000, difference)], True, False) == ()) == passes

    def test_nothing_measured_not_isolated_or_interrupted_is_not_passed(self) -> None:
        good = [phase("serial", 5, 5)]
        assert gate_of(good, True, False) == ()
        assert gate_of([], True, False) and gate_of(good, False, False) and gate_of(good, True, True)


class TestAnswers:
    def test_equal_different_tie_and_unknown(self) -> None:
        cold = Reading(output_ids=(5, 6, 7), logprobs=(-1.0, -2.0, -3.0), runner_up=(-4.0, -2.01, -9.0))
        assert compare_answers(cold, cold).verdict == "equal"
        drift = Reading(output_ids=(5, 8, 7), logprobs=(-1.02, -2.0, -1.0), runner_up=(-4.0, -2.02, -3.0))
        check = compare_answers(cold, drift)
        assert (check.verdict, check.position) == ("tie", 1)
        assert check.logprob_difference == pytest.approx(0.02)
        clear = Reading(output_ids=(9, 6, 7), logprobs=(-0.1, -2.0, -3.0), runner_up=(-4.0, -2.01, -9.0))
        assert compare_answers(cold, clear).verdict == "different"
        assert compare_answers(cold, Reading(output_ids=(5, 6))).verdict == "different"
        assert compare_answers(Reading(), Reading()).verdict == "unknown"
        assert compare_answers(Reading(text="ab"), Reading(text="ac")).position == 1

    def test_a_broken_cache_is_reported_with_its_first_place(self) -> None:
        good, bad = Reading(output_ids=(1, 2)), Reading(output_ids=(1, 3))
        report = output_report_of([(4, good, good), (7, good, bad), (9, None, good)])
        assert (report.equal, report.different, report.unknown) == (1, 1, 1)
        assert (report.first_row, report.first_position) == (7, 1)


def read(*chunks: Any) -> Reading:
    builder = ReadingBuilder()
    for chunk in chunks:
        builder.add(chunk)
    return builder.reading()


class TestReading:
    @pytest.mark.parametrize(
        ("chunk", "cached", "source"),
        [
            (
                {"usage": {"prompt_tokens_details": {"cached_tokens": 0}}},
                0,
                "usage.prompt_tokens_details.cached_tokens",
            ),
            ({"usage": {"prompt_tokens_details": None}}, None, None),
            ({"usage": {"prompt_tokens_details": {"cached_tokens": None}}}, None, None),
            ({"usage": {"prompt_tokens": 5}}, None, None),
            ({"usage": None}, None, None),
            (
                {"usage": {"prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 3}},
                64,
                "usage.prompt_cache_hit_tokens",
            ),
            ({"meta_info": {"cached_tokens": 9}}, 9, "meta_info.cached_tokens"),
            ({"choices": [{"text": "", "meta_info": {"cached_tokens": 8}}]}, 8, "meta_info.cached_tokens"),
            ({"choices": [], "timings": {"cache_n": 57, "prompt_n": 7}}, 57, "timings.cache_n"),
            ("nonsense", None, None),
            ({"choices": "nonsense", "usage": {"prompt_tokens_details": {"cached_tokens": True}}}, None, None),
        ],
    )
    def test_cached_tokens_in_every_dialect(self, chunk: Any, cached: int | None, source: str | None) -> None:
        reading = read(chunk)
        assert (reading.cached_tokens, reading.cached_source) == (cached, source)

    def test_usage_counts_before_the_others(self) -> None:
        usage = {"usage": {"prompt_tokens_details": {"cached_tokens": 1}}}
        assert read({"timings": {"cache_n": 2}}, usage).cached_tokens == 1

    def test_chat_chunks_of_vllm(self) -> None:
        entry = {"logprob": -1.0, "top_logprobs": [{"logprob": -1.0}, {"logprob": -2.5}]}
        builder = ReadingBuilder()
        role = {"choices": [{"delta": {"role": "assistant", "content": ""}}], "prompt_token_ids": [1, 2]}
        token = {"choices": [{"delta": {"content": "x"}, "logprobs": {"content": [entry]}, "token_ids": [7]}]}
        last = {"choices": [{"delta": {"content": ""}, "token_ids": [8], "finish_reason": "length"}]}
        assert [builder.add(chunk) for chunk in (role, token, last)] == [0, 1, 1]
        reading = builder.reading()
        assert (reading.prompt_ids, reading.output_ids, reading.output_tokens) == ((1, 2), (7, 8), 2)
        assert (reading.logprobs, reading.runner_up, reading.finish_reason) == ((-1.0,), (-2.5,), "length")

    def test_completion_logprobs_and_tool_calls(self) -> None:
        logprobs = {"token_logprobs": [-0.5, None], "top_logprobs": [{"a": -0.5, "b": -3.0}, None]}
        reading = read({"choices": [{"text": "ab", "logprobs": logprobs}]})
        assert reading.logprobs[0] == -0.5 and math.isnan(reading.logprobs[1])
        assert reading.runner_up[0] == -3.0 and math.isnan(reading.runner_up[1])
        assert ReadingBuilder().add({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}) == 1


MODELS = {"data": [{"id": "m", "owned_by": "vllm"}]}


class TestEndpoint:
    def test_blocks_of_all_data_ranks_without_their_null_blocks(self) -> None:
        line = (
            'vllm:cache_config_info{block_size="16",engine="%d",num_gpu_blocks="101",enable_prefix_caching="False"} 1\n'
        )
        facts = facts_of_metrics(line % 0 + line % 1)
        assert (facts.blocks, facts.block_size, facts.prefix_caching, facts.data_ranks) == (200, 16, False, 2)

    @pytest.mark.parametrize(
        ("metrics", "engine"),
        [
            ("sglang:num_running_reqs 0\n", "sglang"),
            ("# HELP x\nllamacpp:prompt_tokens_total 3\n", "llama-cpp"),
            ("trtllm_request_success_total 3\n", "tensorrt-llm"),
            ("http_requests_total 3\n", None),
        ],
    )
    def test_engine_by_its_metrics(self, metrics: str, engine: str | None) -> None:
        assert facts_of_metrics(metrics).engine == engine

    def test_llama_cpp_by_its_props_and_sglang_by_its_server_info(self) -> None:
        models = {"data": [{"id": "m"}]}
        props = {"default_generation_settings": {}, "build_info": "b11434"}
        llama = facts_of("u", Answers(models, None, props=props))
        assert (llama.engine, llama.block_size, llama.version) == ("llama-cpp", 1, "b11434")
        assert any("--metrics" in sentence for sentence in llama.missing)
        info = {"version": "0.5.23", "page_size": 64, "disable_radix_cache": True}
        sglang = facts_of("u", Answers(models, None, server_info=info))
        assert (sglang.engine, sglang.block_size, sglang.prefix_caching) == ("sglang", 64, False)

    def test_no_models_is_no_endpoint(self) -> None:
        with pytest.raises(EndpointError, match="names no model"):
            facts_of("u", Answers({"data": []}, None))

    def test_the_profile_follows_the_endpoint_and_says_what_is_assumed(self) -> None:
        metrics = 'vllm:cache_config_info{block_size="64",num_gpu_blocks="11"} 1'
        facts = facts_of("u", Answers(MODELS, metrics, version={"version": "0.32.0"}))
        profile, assumed = profile_of(facts, None, EngineOptions())
        assert (profile.name, profile.version, profile.match_unit, assumed) == ("vllm", "0.32.0", 64, ())
        assert profile_of(facts, None, EngineOptions(block_size=16))[0].match_unit == 16
        unread = facts_of("u", Answers(MODELS, None))
        assert "block size 16 (not read from the endpoint)" in profile_of(unread, None, EngineOptions())[1]

    def test_an_unknown_engine_must_be_named(self) -> None:
        facts = facts_of("u", Answers({"data": [{"id": "m"}]}, None))
        with pytest.raises(OptionError, match="--engine NAME@VERSION"):
            profile_of(facts, None, EngineOptions())
        assert profile_of(facts, "sglang", EngineOptions())[0].name == "sglang"

    def test_a_version_nobody_knows_falls_back_with_a_sentence(self) -> None:
        facts = facts_of("u", Answers(MODELS, None, version={"version": "0.1.0"}))
        profile, assumed = profile_of(facts, None, EngineOptions())
        assert profile.name == "vllm" and any("no rules are known for vllm@0.1.0" in sentence for sentence in assumed)
