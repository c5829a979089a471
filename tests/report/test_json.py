"""The JSON report: the contract's keys, strict, stable, null for what is not computed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest

from prefixscope.report.json import analyze_json, blocks_json, encode, plain
from prefixscope.results import BlocksReport, Warned
from tests.report import samples


def document(*reports: Any) -> Any:
    raw = encode(analyze_json(reports))
    assert json.loads(raw) == orjson.loads(raw), "two strict readers agree"
    return json.loads(raw)


def test_top_level_keys_in_order() -> None:
    assert list(document(samples.analyze_report())) == [
        "schema", "tool_version", "command", "input", "totals", "findings", "pools", "namespaces", "groups", "prefixes",
        "sessions", "breaks", "measured", "worth", "method",
    ]  # fmt: skip


def test_the_contract_keys_are_there() -> None:
    report = document(samples.analyze_report(measured=samples.MEASURED, unexplained_tokens=5))
    assert report["schema"] == "prefixscope.report/1"
    assert report["command"] == "analyze"
    assert {
        "files", "formats", "tier", "requests_read", "requests_analyzed", "skipped", "warnings", "time_is_relative",
        "ties",
    } <= set(report["input"])  # fmt: skip
    assert set(report["input"]["skipped"][0]) == {"file", "line", "reason", "count"}
    assert {
        "requests", "prompt_tokens", "output_tokens", "stored_unique_tokens", "reusable_tokens", "ideal_prefill_tokens",
        "cached_tokens", "prefill_tokens", "expected_cached_tokens", "expected_prefill_tokens", "token_hit_rate",
        "expected_token_hit_rate", "second_half_token_hit_rate", "block_hit_rate", "mean_request_hit_rate", "losses",
    } <= set(report["totals"])  # fmt: skip
    assert list(report["totals"]["losses"]) == [
        "last_token", "block_rounding", "engine_rule", "in_flight", "routing", "capacity"
    ]  # fmt: skip
    pool = report["pools"][0]
    assert {
        "pool", "models", "engine", "totals", "ladder", "block_sizes", "largest_block_size_with_reuse", "capacity"
    } <= set(pool)  # fmt: skip
    assert {
        "name", "version", "block_size", "match_unit", "speculative", "assumed", "source"
    } <= set(pool["engine"])  # fmt: skip
    assert {"rung", "cached_tokens", "token_hit_rate", "lost_tokens", "why"} == set(pool["ladder"][0])
    assert {
        "block_size", "cached_tokens", "prefill_tokens", "token_hit_rate", "block_hit_rate", "unique_blocks",
        "wasted_slot_tokens",
    } <= set(pool["block_sizes"][0])  # fmt: skip
    assert {"tokens", "requests", "saved_tokens", "preview"} <= set(report["prefixes"][0])
    assert {
        "requests", "prompt_tokens", "cached_tokens", "predicted_cached_tokens", "source", "verdict"
    } <= set(report["measured"])  # fmt: skip
    assert report["measured"]["unexplained_tokens"] == 5


def test_what_is_not_computed_is_null() -> None:
    report = document(samples.analyze_report())
    assert report["breaks"] is None
    assert report["measured"] is None
    assert report["pools"][0]["capacity"] is None
    assert report["totals"]["losses"]["capacity"] is None
    assert report["totals"]["output_tokens"] is None


def test_totals_equal_the_only_pool() -> None:
    report = document(samples.analyze_report())
    assert report["totals"] == report["pools"][0]["totals"]


def test_several_engines_lie_under_engines() -> None:
    report = document(samples.analyze_report(), samples.sglang_report())
    assert list(report) == ["schema", "tool_version", "command", "input", "engines"]
    assert [entry["pools"][0]["engine"]["name"] for entry in report["engines"]] == ["vllm", "sglang"]


def test_namespaces_and_other_groups() -> None:
    report = document(samples.analyze_report())
    assert [entry["name"] for entry in report["namespaces"]] == ["Qwen/Qwen3-8B"]
    assert {entry["by"] for entry in report["groups"]} == {"model"}


def test_warnings_carry_reason_facts_and_a_sentence() -> None:
    warned = Warned("duplicate_key", {"file": "a", "line": 2, "reason": "not this", "key": "id"})
    report = document(samples.analyze_report(input=samples.input_report(warnings=(warned,))))
    (entry,) = report["input"]["warnings"]
    assert {key: entry[key] for key in ("reason", "file", "line", "key")} == {
        "reason": "duplicate_key", "file": "a", "line": 2, "key": "id"
    }  # fmt: skip
    assert entry["sentence"].startswith("A JSON object has the same key twice (a:2")


def test_blocks_document() -> None:
    report = samples.analyze_report()
    made = json.loads(encode(blocks_json(BlocksReport(report.input, report.pools))))
    assert list(made) == ["schema", "tool_version", "command", "input", "findings", "pools"]
    assert made["command"] == "blocks"


def test_no_nan_no_infinity_no_surrogate() -> None:
    raw = encode({"a": float("nan"), "b": [float("inf"), -float("inf")], "\udcff": "\ud800", "c": np.float64("nan")})
    assert orjson.loads(raw) == {"a": None, "b": [None, None], "\\udcff": "\\ud800", "c": None}


def test_numpy_values_become_plain() -> None:
    value = plain({"i": np.int64(3), "f": np.float64(0.5), "a": np.array([1, 2]), "b": np.bool_(True), "s": {2, 1}})
    assert value == {"i": 3, "f": 0.5, "a": [1, 2], "b": True, "s": [1, 2]}
    assert type(value["i"]) is int
    assert type(value["b"]) is bool


def test_large_integers_stay_exact() -> None:
    assert b"1795000000000000001" in encode({"time_ns": 1_795_000_000_000_000_001})


def test_what_has_no_place_is_an_error() -> None:
    with pytest.raises(TypeError, match="has no place in a report"):
        plain({"x": object()})


def test_same_report_same_bytes() -> None:
    assert encode(analyze_json([samples.analyze_report()])) == encode(analyze_json([samples.analyze_report()]))
