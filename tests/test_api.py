"""The whole way from a log to a report: equal from an index, equal in any file order, honest about what is missing."""

from __future__ import annotations

import dataclasses
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest

from prefixscope import api
from prefixscope.errors import InputError, ModelError, OptionError
from tests.index import oracle
from tests.index.logs import random_log

SAMPLES = Path(__file__).resolve().parents[1] / "sample_logs"


def silent(*_: object) -> None:
    return None


def log_rows(seed: int, rows: int = 60) -> list[dict[str, Any]]:
    return [
        {
            "request_id": f"r{row}",
            "timestamp": 1_700_000_000 + row,
            "model": f"m{request.namespace}",
            "session_id": f"s{row % 5}",
            "prompt_token_ids": list(request.prompt),
            "output_token_ids": list(request.output),
        }
        for row, request in enumerate(random_log(seed, rows=rows))
    ]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def analyze(*logs: str, **options: Any) -> api.Analysis:
    engine = api.EngineChoice(**options.pop("engine", {}))
    more = {name: options.pop(name) for name in ("measured", "hide_text") if name in options}
    return api.analyze(api.AnalyzeOptions(api.LogOptions(logs, **options), engine, **more), silent)


def index(path: Path, *logs: str, **options: Any) -> str:
    buffer = io.BytesIO()
    api.write_index(api.LogOptions(logs, **options), api.EngineChoice(), buffer, silent)
    path.write_bytes(buffer.getvalue())
    return str(path)


def without_text(report: Any) -> Any:
    prefixes = tuple(dataclasses.replace(prefix, preview=None) for prefix in report.prefixes)
    breaks = report.breaks
    if breaks is not None:
        bare = {"text_before": None, "old": None, "new": None, "agreed_tokens": None}
        faults = tuple(
            dataclasses.replace(fault, example=fault.example and dataclasses.replace(fault.example, **bare))
            for fault in breaks.faults
        )
        breaks = dataclasses.replace(breaks, faults=faults, notes=())
    return dataclasses.replace(report, prefixes=prefixes, breaks=breaks)


@pytest.mark.parametrize("seed", range(12))
def test_every_number_is_that_of_the_brute_force_oracle(seed: int, tmp_path: Path) -> None:
    analysis = analyze(write(tmp_path / "log.jsonl", log_rows(seed)), engine={"names": ("vllm",), "block_size": 4})
    log = random_log(seed, rows=60)
    expected = oracle.lineage(log)
    assert analysis.rows["shared_tokens"] == [shared for shared, _, _ in expected]
    assert analysis.rows["shared_prompt_tokens"] == [shared for _, shared, _ in expected]
    assert analysis.rows["parent_row"] == [None if parent < 0 else parent for _, _, parent in expected]
    assert analysis.rows["cached_tokens"] == oracle.cached_blocks(log, 4)
    pools = {pool.pool: pool.totals.cached_tokens for pool in analysis.reports[0].pools}
    assert sum(pools.values()) == sum(oracle.cached_blocks(log, 4))
    assert set(pools) <= {"m0", "m1"}


@pytest.mark.parametrize("seed", range(8))
def test_lines_in_any_order_and_any_number_of_files_give_one_report(seed: int, tmp_path: Path) -> None:
    rows = log_rows(seed)
    direct = analyze(write(tmp_path / "log.jsonl", rows))
    random.Random(seed).shuffle(rows)
    parts = [write(tmp_path / f"part{part}.jsonl", rows[part::3]) for part in range(3)]
    shuffled = analyze(*parts)
    for name in ("totals", "pools", "groups", "prefixes", "sessions", "measured"):
        assert getattr(shuffled.reports[0], name) == getattr(direct.reports[0], name), name
    assert shuffled.rows == direct.rows


@pytest.mark.parametrize(
    "options", [{}, {"warmup": "50%"}, {"since": "2023-11-14T22:13:40Z"}, {"until": "2023-11-14T22:13:40Z"}]
)
def test_an_index_gives_the_numbers_of_its_log(options: dict[str, Any], tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", log_rows(3))
    stored = index(tmp_path / "log.parquet", log)
    direct, again = analyze(log, **options), analyze(stored, **options)
    assert without_text(again.reports[0]) == without_text(direct.reports[0])
    assert again.rows == direct.rows


def test_an_index_of_text_logs_gives_the_numbers_of_its_log(tmp_path: Path) -> None:
    models = {"models_file": str(SAMPLES / "models.toml")}
    log = str(SAMPLES / "support-chat.jsonl")
    direct, again = analyze(log, **models), analyze(index(tmp_path / "x.parquet", log, **models))
    assert without_text(again.reports[0]) == without_text(direct.reports[0])
    assert direct.reports[0].prefixes[0].preview is not None
    assert again.reports[0].prefixes[0].preview is None


def test_an_index_holds_no_text_and_no_salt(tmp_path: Path) -> None:
    rows = [{**row, "cache_salt": "hushhush"} for row in log_rows(1)]
    stored = index(tmp_path / "x.parquet", write(tmp_path / "log.jsonl", rows))
    assert b"hushhush" not in Path(stored).read_bytes()
    assert analyze(stored).reports[0].groups[0].requests > 0


def test_cold_start_forgets_what_came_before_and_warm_start_does_not(tmp_path: Path) -> None:
    rows = [{"timestamp": second, "prompt_token_ids": list(range(64))} for second in (1_700_000_000, 1_700_000_060)]
    log = write(tmp_path / "log.jsonl", rows)
    since = "2023-11-14T22:14:00Z"
    assert analyze(log, since=since).rows["cached_tokens"] == [48]
    assert analyze(log, since=since, cold_start=True).rows["cached_tokens"] == [0]
    with pytest.raises(OptionError, match="no request lies"):
        analyze(log, since="2024-01-01T00:00:00Z")


def test_totals_of_counted_rows_only(tmp_path: Path) -> None:
    rows = [{"timestamp": 1_700_000_000 + n, "prompt_token_ids": list(range(64))} for n in range(10)]
    report = analyze(write(tmp_path / "log.jsonl", rows), warmup="50%").reports[0]
    assert (report.totals.requests, report.totals.prompt_tokens, report.totals.cached_tokens) == (5, 320, 240)
    assert report.totals.stored_unique_tokens == 0


def test_a_model_that_is_not_known_is_named_with_its_requests(tmp_path: Path) -> None:
    rows = [{"model": "gpt-x", "messages": [{"role": "user", "content": "hi"}]}] * 3
    with pytest.raises(ModelError, match=r"3 requests need the tokenizer of model 'gpt-x'.*--model gpt-x="):
        analyze(write(tmp_path / "log.jsonl", rows))


def test_lengths_alone_say_nothing_of_reuse(tmp_path: Path) -> None:
    rows = [{"timestamp": n, "input_length": 100, "output_length": 5} for n in range(3)]
    with pytest.raises(InputError):
        analyze(write(tmp_path / "log.jsonl", rows))


def test_indexes_are_not_mixed_with_logs(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", log_rows(1))
    stored = index(tmp_path / "x.parquet", log)
    with pytest.raises(InputError, match="can't be combined"):
        analyze(stored, log)
    with pytest.raises(OptionError, match="act while a log is read"):
        analyze(stored, render="plain")


def test_measured_counters_are_compared_with_all_rows(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [{"prompt_token_ids": list(range(64))}] * 3)
    before, after = tmp_path / "before.prom", tmp_path / "after.prom"
    before.write_text("# HELP x\nvllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 16\n")
    after.write_text("vllm:prefix_cache_queries_total 292\nvllm:prefix_cache_hits_total 112\n")
    measured = analyze(log, measured=(str(before), str(after))).reports[0].measured
    assert measured is not None
    assert (measured.prompt_tokens, measured.cached_tokens, measured.predicted_cached_tokens) == (192, 96, 96)
    assert measured.verdict == "agrees"
    with pytest.raises(InputError, match="went backwards"):
        analyze(log, measured=(str(after), str(before)))


def test_unknown_measurements_are_not_zero(tmp_path: Path) -> None:
    rows = [
        {"prompt_token_ids": list(range(64)), "usage": {"prompt_tokens": 64, "prompt_tokens_details": None}},
        {
            "prompt_token_ids": list(range(64)),
            "usage": {"prompt_tokens": 64, "prompt_tokens_details": {"cached_tokens": 48}},
        },
        {
            "prompt_token_ids": list(range(64)),
            "n": 3,
            "usage": {"prompt_tokens": 64, "prompt_tokens_details": {"cached_tokens": 48}},
        },
    ]
    analysis = analyze(write(tmp_path / "log.jsonl", rows))
    measured = analysis.reports[0].measured
    assert measured is not None
    assert (measured.requests, measured.unknown_requests) == (1, 2)
    assert (measured.cached_tokens, measured.predicted_cached_tokens) == (48, 48)
    assert analysis.rows["measured_cached_tokens"][0] is None


def test_two_engines_give_two_reports(tmp_path: Path) -> None:
    log = write(tmp_path / "log.jsonl", [{"prompt_token_ids": list(range(100))}] * 2)
    reports = analyze(log, engine={"names": ("vllm", "sglang")}).reports
    assert [report.totals.cached_tokens for report in reports] == [96, 99]
