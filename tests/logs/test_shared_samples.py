"""The samples in ../shared/formats and the public traces."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from prefixscope.errors import FormatError, InputError
from prefixscope.logs import LogFile, ReadOptions, parse_batch, read_logs
from prefixscope.logs.detect import plan_for
from prefixscope.logs.lines import line_batches
from prefixscope.records import Usage
from tests.logs.reading_of import read, skips
from tests.shared import SHARED, needs_shared

pytestmark = needs_shared
FORMATS, TRACES = SHARED / "formats", SHARED / "traces"


def test_chat_bodies() -> None:
    records, ledger = read(FORMATS / "openai_chat_bodies.jsonl")
    logged = [json.loads(line) for line in (FORMATS / "openai_chat_bodies.jsonl").read_text().splitlines()]
    assert [record.body for record in records] == logged
    assert [json.dumps(record.body) for record in records] == [json.dumps(row) for row in logged]
    assert {record.kind for record in records} == {"chat"} and ledger.missing_times == 4


def test_envelope_plain_packed_and_nested_agree() -> None:
    plain, ledger = read(FORMATS / "openai_chat_envelope.jsonl")
    packed, _ = read(FORMATS / "openai_chat_envelope.jsonl.zst")
    nested, _ = read(FORMATS / "openai_chat_nested_string.jsonl")
    bodies, _ = read(FORMATS / "openai_chat_bodies.jsonl")
    for other in (packed, nested, bodies):
        assert [record.body for record in plain] == [record.body for record in other]
    assert [record.time_ns for record in plain] == [record.time_ns for record in nested]
    counts = [(1016, 0, 22), (1079, 1008, 27), (1125, 1072, 19), (1018, 1008, 21)]
    assert [record.usage for record in plain] == [Usage(*count) for count in counts]
    assert [record.session_id for record in plain] == ["s-77", "s-77", "s-77", "s-90"]
    assert [record.request_id for record in plain] == ["r0", "r1", "r2", "r3"]
    first = plain[0]
    assert first.time_ns is not None and first.first_token_ns == first.time_ns + 412_000_000
    assert ledger.formats == {str(FORMATS / "openai_chat_envelope.jsonl"): "envelope"}
    assert not ledger.warnings and not ledger.skipped and nested[0].status == 200
    assert [r.response for r in plain] == [r.response for r in nested] and isinstance(first.response, dict)


def test_salt_and_template_options_stay_in_the_body() -> None:
    records, _ = read(FORMATS / "openai_chat_lora_salt_kwargs.jsonl")
    assert [record.model for record in records] == ["billing-v3-lora", "Qwen/Qwen3-8B"]
    assert all("cache_salt" in record.body for record in records)
    assert "chat_template_kwargs" in records[0].body and "documents" in records[1].body
    assert records[0].tenant == "u-1"


def test_completions() -> None:
    records, _ = read(FORMATS / "openai_completions.jsonl")
    assert [(record.source.line, record.kind, record.prompts_in_call) for record in records] == [
        (1, "text", 1), (2, "text", 2), (2, "text", 2), (3, "tokens", 1), (4, "tokens", 2), (4, "tokens", 2),
    ]  # fmt: skip


def test_mooncake_bailian_weka_batch() -> None:
    records, ledger = read(FORMATS / "mooncake_hash.jsonl")
    assert [(r.time_ns, r.unit, r.body["input_length"], r.usage) for r in records] == [
        (0, 512, 1016, Usage(output_tokens=22)),
        (2_360_000_000, 512, 1079, Usage(output_tokens=27)),
    ]
    assert ledger.time_is_relative
    records, ledger = read(FORMATS / "bailian.jsonl")
    assert [(r.time_ns, r.unit) for r in records] == [(0, 16), (61_114_000_000, 16)] and ledger.time_is_relative
    records, _ = read(FORMATS / "weka_session.jsonl")
    assert [(r.model, r.body["hash_ids"]) for r in records][1] == ("m-small", [1, 90, 91])
    assert len(records) == 3 and len({r.hash_scope for r in records}) == 1 and records[0].hash_scope
    assert records[0].first_token_ns == 400_000_000 and records[0].finished_ns == 2_100_000_000
    records, ledger = read(FORMATS / "openai_batch_input.jsonl")
    assert [r.request_id for r in records] == ["req-0", "req-1", "req-2", "req-3"] and ledger.missing_times == 4
    assert set(ledger.formats.values()) == {"openai-batch"}


def test_aiperf_rows() -> None:
    records, ledger = read(FORMATS / "mooncake_aiperf_variants.jsonl")
    assert [record.kind for record in records] == ["text", "hashes", "chat", "chat"]
    assert records[0].usage == Usage(output_tokens=8)
    assert records[2].body.keys() == {"messages", "tools"} and records[3].body["model"] == "Qwen/Qwen3-8B"
    assert skips(ledger) == [(3, "delta_turn_unsupported")]


def test_malformed_mixed() -> None:
    records, ledger = read(FORMATS / "malformed_mixed.jsonl")
    assert [record.source.line for record in records] == [1, 6]
    assert skips(ledger) == [
        (3, "invalid_json"), (4, "invalid_json"), (5, "no_prompt"), (7, "failed_before_prefill"),
        (8, "redacted_prompt"),
    ]  # fmt: skip
    assert ledger.blank_lines == 1 and ledger.warnings[0]["reason"] == "byte_order_mark"
    assert ledger.files[0].times == {"iso": 2, "epoch_s": 1, "epoch_ms": 1, "epoch_ns": 1}


READ_WHOLE = {
    "openai_chat_bodies.jsonl", "openai_chat_envelope.jsonl", "openai_chat_envelope.jsonl.zst",
    "openai_chat_nested_string.jsonl", "openai_chat_lora_salt_kwargs.jsonl", "openai_chat_multimodal.jsonl",
    "openai_completions.jsonl", "openai_batch_input.jsonl", "mooncake_hash.jsonl", "bailian.jsonl",
    "weka_session.jsonl", "databricks_inference_table.jsonl", "helicone_export.jsonl", "nginx_escape_json.log",
}  # fmt: skip
READ_IN_PART = {"malformed_mixed.jsonl", "mooncake_aiperf_variants.jsonl"}
ALL_SKIPPED = {"anthropic_messages.jsonl", "openai_responses.jsonl", "gmi_like_string_ns.jsonl"}


@pytest.mark.parametrize("path", sorted(FORMATS.glob("*")) if FORMATS.is_dir() else [], ids=lambda path: path.name)
def test_no_sample_is_taken_for_what_it_is_not(path: Path) -> None:
    """A format that is not read is refused, or every row is counted; no row of it becomes a wrong record."""
    if path.name in READ_WHOLE | READ_IN_PART | ALL_SKIPPED:
        records, ledger = read(path)
        assert bool(records) == (path.name not in ALL_SKIPPED)
        assert bool(ledger.skipped) == (path.name not in READ_WHOLE)
    else:
        with pytest.raises((FormatError, InputError)):
            read(path)


def test_mooncake_trace() -> None:
    records, ledger = read(TRACES / "mooncake_synthetic.jsonl")
    assert len(records) == ledger.requests_read == 3993 and not ledger.skipped and not ledger.warnings
    assert sum(len(record.body["hash_ids"]) for record in records) == 121_877
    assert sum(record.body["input_length"] for record in records) == 61_194_628


def test_weka_trace() -> None:
    records, ledger = read(TRACES / "claude_code_sessions_small60.jsonl.gz")
    assert len(records) == 1350 and not ledger.skipped
    assert sum(len(record.body["hash_ids"]) for record in records) == 2_026_627
    assert len({record.hash_scope for record in records}) == 60 and {record.unit for record in records} == {64}


@pytest.mark.parametrize(("name", "count"), [("tau_airline_gpt4o_chat", 2454), ("mtbench101_chat", 4208)])
def test_chat_traces(name: str, count: int) -> None:
    path = TRACES / f"{name}.jsonl.gz"
    with gzip.open(path) as file:
        logged = [json.loads(line) for line in file]
    place = 0
    reading = read_logs([LogFile(str(path))])
    for record, row in zip(reading, logged, strict=True):
        assert record.body == row["request"] and list(record.body) == list(row["request"])
        assert (record.request_id, record.session_id) == (row["id"], row["session_id"])
        assert record.response == row["response"]["choices"][0]["message"]
        place += 1
    assert place == count and not reading.ledger.skipped and not reading.ledger.warnings


def test_batches_in_pieces_give_the_same_records() -> None:
    path = TRACES / "mooncake_synthetic.jsonl"
    data = path.read_bytes()
    plan = plan_for(str(path), data, whole=True)
    pieces = [data[start : start + 7001] for start in range(0, len(data), 7001)]
    found = [record for batch in line_batches(iter(pieces), size=50_000) for record in parse_batch(batch, plan).records]
    assert found == read(path)[0]
    assert Counter(record.source.file for record in found) == {str(path): 3993}
    limited = read_logs([LogFile(str(path))], ReadOptions(limit=17))
    assert list(limited) == found[:17]
