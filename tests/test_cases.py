"""Small situations seen in the field, with known token counts and cached tokens."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from prefixscope import api
from prefixscope.errors import GateFailed
from tests.cases import case, run, write_log, write_models
from tests.shared import SHARED, needs_shared

pytestmark = needs_shared


def cached(analysis: api.Analysis) -> list[int]:
    return analysis.rows["cached_tokens"]


@pytest.mark.parametrize("number", [2, 7, 9, 12, 18, 19, 22, 23, 25, 26, 27, 29, 34, 56, 58])
def test_token_counts_shared_and_cached_tokens(number: int, tmp_path: Path) -> None:
    found = case(number)
    analysis = run(tmp_path, found)
    expected = found["expect"]
    assert analysis.rows["prompt_tokens"] == expected["prompt_tokens"]
    assert cached(analysis) == expected["cached_tokens"]
    if "shared_prefix_tokens" in expected:
        assert analysis.rows["shared_tokens"] == expected["shared_prefix_tokens"]


def test_01_shared_prefix_shorter_than_the_block(tmp_path: Path) -> None:
    found = case(1)
    for size, expected in found["expect"]["cached_tokens_by_block_size"].items():
        assert cached(run(tmp_path, {**found, "setup": {}}, block_size=int(size))) == expected
    pool = run(tmp_path, {**found, "setup": {}}).reports[0].pools[0]
    assert pool.largest_block_size_with_reuse == found["expect"]["largest_block_with_any_hit"]


def test_03_sglang_matches_to_the_token_or_the_page(tmp_path: Path) -> None:
    found = case(3)
    assert cached(run(tmp_path, found, engine="sglang", block_size=1)) == found["expect"]["cached_tokens"]
    assert cached(run(tmp_path, found, engine="sglang", block_size=16)) == found["expect"]["cached_tokens_page_16"]


@pytest.mark.parametrize("render", ["transformers", "vllm", "sglang"])
def test_22_null_content_disappears_under_every_server_rendering(render: str, tmp_path: Path) -> None:
    found = case(22)
    analysis = run(tmp_path, found, render=render)
    expected = found["expect"]["after_null_is_dropped_or_made_empty"]
    assert analysis.rows["prompt_tokens"] == expected["prompt_tokens"]
    assert cached(analysis) == expected["cached_tokens"]


def test_22_a_template_that_would_print_none_is_warned_of(tmp_path: Path) -> None:
    reasons = {warning.reason for warning in run(tmp_path, case(22)).reports[0].input.warnings}
    assert any("null" in reason for reason in reasons), reasons


def test_25_without_salts_everything_is_shared(tmp_path: Path) -> None:
    found = case(25)
    plain = [{key: value for key, value in row.items() if key != "cache_salt"} for row in found["requests"]]
    analysis = run(tmp_path, {**found, "requests": plain})
    assert cached(analysis) == found["expect"]["cached_tokens_if_salt_ignored"]


def test_27_two_models_are_two_pools(tmp_path: Path) -> None:
    report = run(tmp_path, case(27)).reports[0]
    by_model = {
        pool.pool: {"prompt": pool.totals.prompt_tokens, "cached": pool.totals.cached_tokens} for pool in report.pools
    }
    assert by_model == case(27)["expect"]["by_model"]


def test_31_usage_of_parallel_samples_is_counted_once(tmp_path: Path) -> None:
    found = case(31)
    analysis = run(tmp_path, found)
    assert analysis.rows["prompt_tokens"] == found["expect"]["prompt_tokens_per_api_request"]
    assert cached(analysis) == found["expect"]["cached_tokens_per_api_request"]


def test_32_usage_dialects_reach_the_measurement(tmp_path: Path) -> None:
    found = case(32)
    requests = [
        {"prompt_token_ids": list(range(row * 1000, row * 1000 + 5)), "usage": request["usage"]}
        for row, request in enumerate(found["requests"])
    ]
    report = run(tmp_path, {"setup": {}, "requests": requests}).reports[0]
    assert report.measured is not None
    assert report.measured.prompt_tokens == sum(row["prompt_tokens"] for row in found["expect"]["measured"])
    assert report.measured.cached_tokens == sum(row["cached_tokens"] for row in found["expect"]["measured"])
    assert report.measured.verdict == "prompts_differ"


def read_lines(tmp_path: Path, data: bytes, *, strict: bool = False, models: Path | None = None) -> api.Analysis:
    path = tmp_path / "log.jsonl"
    path.write_bytes(data)
    log = api.LogOptions(
        (str(path),), strict=strict, models_file=None if models is None else str(models), render="plain"
    )
    return api.analyze(api.AnalyzeOptions(log), lambda *_: None)


def test_40_broken_lines_are_counted_and_located(tmp_path: Path) -> None:
    found = case(40)
    data = "\n".join(found["lines"]).encode()
    analysis = read_lines(tmp_path, data)
    expected = found["expect"]
    assert analysis.rows["request_id"] == expected["read_ids"]
    skipped = analysis.reports[0].input.skipped
    assert [{"line": skip.line, "reason": skip.reason} for skip in skipped] == expected["skipped"]
    warnings = [
        {"reason": warning.reason, **{key: value for key, value in warning.facts.items() if key != "file"}}
        for warning in analysis.reports[0].input.warnings
        if warning.facts.get("line")
    ]
    for warning in expected["warnings"]:
        assert any(warning.items() <= found_warning.items() for found_warning in warnings), warning
    with pytest.raises(GateFailed, match=r"log\.jsonl:3: invalid_json"):
        read_lines(tmp_path, data, strict=True)


def test_41_bytes_that_are_no_text_are_never_guessed(tmp_path: Path) -> None:
    found = case(41)
    data = b"\n".join(base64.b64decode(line) for line in found["lines_base64"])
    models = write_models(tmp_path, {"chat_template": "{{ messages }}"})
    analysis = read_lines(tmp_path, data, models=models)
    assert analysis.rows["request_id"] == found["expect"]["read_ids"]
    skipped = analysis.reports[0].input.skipped
    assert [{"line": skip.line, "reason": skip.reason} for skip in skipped] == found["expect"]["skipped"]
    assert any(warning.reason == "lone_surrogate" for warning in analysis.reports[0].input.warnings)


def test_44_rejected_calls_warm_nothing_and_aborted_ones_do(tmp_path: Path) -> None:
    found = case(44)
    analysis = run(tmp_path, found)
    assert cached(analysis) == found["expect"]["cached_tokens_replayed"]
    reasons = {(skip.line, skip.reason) for skip in analysis.reports[0].input.skipped}
    assert reasons == {(row["request"] + 1, row["reason"]) for row in found["expect"]["excluded"]}


def test_46_hash_ids_of_block_contents_are_chained(tmp_path: Path) -> None:
    found = case(46)
    log = api.LogOptions((str(write_log(tmp_path / "trace.jsonl", found["requests"])),))
    analysis = api.analyze(api.AnalyzeOptions(log), lambda *_: None)
    assert cached(analysis) == found["expect"]["cached_tokens_upper_bound"]
    assert analysis.reports[0].totals.hit_blocks == sum(found["expect"]["hit_blocks"])
    assert analysis.reports[0].pools[0].engine.name == "trace"


@pytest.mark.parametrize("render", ["plain", "vllm", "transformers"])
def test_49_odd_messages_are_rendered_or_counted(render: str, tmp_path: Path) -> None:
    found = case(49)
    models = write_models(tmp_path, found["setup"])
    path = write_log(tmp_path / "log.jsonl", [{"request_id": str(n), **row} for n, row in enumerate(found["requests"])])
    log = api.LogOptions((str(path),), models_file=str(models), render=render)
    analysis = api.analyze(api.AnalyzeOptions(log), lambda *_: None)
    empty = {skip.line for skip in analysis.reports[0].input.skipped if skip.reason == "no_prompt"}
    assert empty == {number for number, status in enumerate(found["expect"]["status"], 1) if status == "no_prompt"}
    if render in ("plain", "vllm"):
        rendered = [str(n) for n, status in enumerate(found["expect"]["status"]) if status == "rendered"]
        assert analysis.rows["request_id"] == rendered


def test_51_answers_are_cached_too(tmp_path: Path) -> None:
    found = case(51)
    analysis = run(tmp_path, found)
    assert cached(analysis) == found["expect"]["cached_tokens_vllm"]
    assert cached(run(tmp_path, found, engine="sglang", block_size=1)) == found["expect"]["cached_tokens_sglang_page_1"]
    prompts_only = [
        min(shared, p - 1) // 16 * 16
        for shared, p in zip(analysis.rows["shared_prompt_tokens"], analysis.rows["prompt_tokens"], strict=True)
    ]
    assert prompts_only == found["expect"]["cached_tokens_prompts_only"]


def mooncake(**choice: Any) -> api.AnalyzeReport:
    log = api.LogOptions((str(SHARED / "traces" / "mooncake_synthetic.jsonl"),))
    return api.analyze(api.AnalyzeOptions(log, api.EngineChoice(**choice)), lambda *_: None).reports[0]


def test_54_golden_numbers_of_a_public_trace() -> None:
    expected = case(54)["expect"]["synthetic"]
    trace = mooncake().totals
    assert (trace.hit_blocks, trace.blocks) == (expected["hit_blocks"], expected["all_blocks"])
    assert trace.block_hit_rate == pytest.approx(expected["block_hit_rate"], abs=5e-8)
    assert (trace.cached_tokens, trace.prompt_tokens) == (39_852_661, expected["prompt_tokens"])
    assert trace.mean_request_hit_rate == pytest.approx(0.4232, abs=5e-5)
    assert trace.second_half_token_hit_rate == pytest.approx(0.8627, abs=5e-5)
    vllm = mooncake(names=("vllm",), block_size=512).totals
    assert vllm.cached_tokens == expected["cached_tokens_vllm_rule"]
    assert vllm.token_hit_rate == pytest.approx(expected["token_hit_rate_vllm_rule"], abs=5e-7)
    assert (vllm.hit_blocks, vllm.mean_request_hit_rate) == (77_740, pytest.approx(0.4142, abs=5e-5))


def test_worked_example_from_messages(tmp_path: Path) -> None:
    """The contract's example from text: a byte a token, so the texts are cut to 1,024 shared and 128 own tokens."""
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    models = write_models(tmp_path, {"chat_template": template})
    shared = "".join(chr(97 + place % 26) for place in range(1024))
    for own, expected in (("{:03d}" + "x" * 125, (11520, 2304, 9216, 9216)), ("y" * 128, (11520, 1152, 10368, 10224))):
        rows = [
            {"messages": [{"role": "system", "content": shared}, {"role": "user", "content": own.format(n)}]}
            for n in range(10)
        ]
        if own.startswith("{"):
            for n, row in enumerate(rows):
                row["messages"][1]["content"] = chr(65 + n) * 128
        path = write_log(tmp_path / "log.jsonl", rows)
        log = api.LogOptions((str(path),), models_file=str(models), render="plain")
        totals = api.analyze(api.AnalyzeOptions(log), lambda *_: None).reports[0].totals
        found = (totals.prompt_tokens, totals.ideal_prefill_tokens, totals.reusable_tokens, totals.cached_tokens)
        assert found == expected


def test_dates_do_not_depend_on_the_day_of_analysis(tmp_path: Path) -> None:
    found = case(9)
    without = [{key: value for key, value in row.items() if key != "timestamp"} for row in found["requests"]]
    analysis = run(tmp_path, {**found, "requests": without})
    assert cached(analysis) == [0, 272, 272]
    reasons = [warning.reason for warning in analysis.reports[0].input.warnings]
    assert "template_prints_fixed_date" in reasons


def test_json_of_case_files_is_valid() -> None:
    for path in sorted((SHARED / "cases").glob("*.json")):
        assert "expect" in json.loads(path.read_text(encoding="utf-8"))
