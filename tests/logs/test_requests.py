"""Rows to records: prompts, exclusions, answers, the fields around the body."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prefixscope.errors import GateFailed
from prefixscope.logs import FORMATS
from prefixscope.records import Usage
from tests.logs.reading_of import read_bytes, read_rows, skips
from tests.shared import SHARED, needs_shared


def case(number: int) -> Any:
    return json.loads(next((SHARED / "cases").glob(f"{number}-*.json")).read_bytes())


@needs_shared
def test_parallel_samples_are_one_prompt(tmp_path: Path) -> None:
    """../shared/cases/31."""
    records, _ = read_rows(tmp_path, case(31)["requests"])
    assert [record.n for record in records] == [1, 4]
    lengths = [len(record.body["prompt_token_ids"]) for record in records]
    assert lengths == case(31)["expect"]["prompt_tokens_per_api_request"]
    assert {(record.kind, record.tier, record.prompts_in_call) for record in records} == {("tokens", 1, 1)}


@needs_shared
def test_retries_and_failures(tmp_path: Path) -> None:
    """../shared/cases/44."""
    expected = case(44)["expect"]
    records, ledger = read_rows(tmp_path, case(44)["requests"])
    assert [record.source.line - 1 for record in records] == expected["replayed"]
    assert skips(ledger) == [(skip["request"] + 1, skip["reason"]) for skip in expected["excluded"]]
    assert [record.status for record in records] == [200, 499, 200]
    assert len(read_rows(tmp_path, case(44)["requests"], strict=True)[0]) == 3


@needs_shared
def test_odd_messages(tmp_path: Path) -> None:
    """../shared/cases/49."""
    statuses = case(49)["expect"]["status"]
    records, ledger = read_rows(tmp_path, case(49)["requests"])
    assert [record.source.line for record in records] == [1 + i for i, s in enumerate(statuses) if s == "rendered"]
    assert skips(ledger) == [(1 + place, status) for place, status in enumerate(statuses) if status != "rendered"]


@needs_shared
def test_local_hash_ids(tmp_path: Path) -> None:
    """../shared/cases/46."""
    records, _ = read_rows(tmp_path, case(46)["requests"])
    assert [(record.kind, record.unit, record.tier) for record in records] == [("hashes", 512, 5)] * 3
    assert [record.body["hash_ids"] for record in records] == [row["hash_ids"] for row in case(46)["requests"]]
    assert [record.time_ns for record in records] == [0, 10**6, 2 * 10**6]


def test_the_body_holds_the_request_only_in_logged_order(tmp_path: Path) -> None:
    row = {
        "timestamp": "2026-11-18T09:00:00Z", "tools": [{"b": 1, "a": 2}], "request_id": "", "model": "m",
        "adapter": "lo",
        "session_id": "s", "messages": [{"role": "user", "content": "x"}], "status": 200, "user": "u", "replica": 3,
        "first_token_at": "2026-11-18T09:00:01Z", "duration_s": 2.5, "response": "yes", "output_token_ids": [1, 2],
        "output_tokens": 2, "usage": {"prompt_tokens": 4}, "cache_salt": "z", "temperature": 0,
    }  # fmt: skip
    (record,), ledger = read_rows(tmp_path, [row])
    assert list(record.body) == ["tools", "model", "messages", "user", "cache_salt", "temperature"]
    assert list(record.body["tools"][0]) == ["b", "a"]
    assert (record.request_id, record.adapter, record.session_id) == ("", "lo", "s")
    assert (record.tenant, record.replica) == ("u", "3")
    assert record.time_ns is not None and record.first_token_ns == record.time_ns + 10**9
    assert record.finished_ns == record.time_ns + 2_500_000_000
    assert (record.response, record.output_token_ids, record.usage) == ("yes", (1, 2), Usage(4, None, 2))
    assert (record.kind, record.tier, record.model, record.status) == ("chat", 3, "m", 200)
    assert not ledger.warnings


def test_prompts_of_the_completions_api(tmp_path: Path) -> None:
    rows = [{"prompt": p, "max_tokens": 1} for p in ("a", ["b", "c"], [1, 2], [[3], [4, 5]], ["", "d"], [[]], [])]
    records, ledger = read_rows(tmp_path, rows)
    prompts = [record.body.get("prompt", record.body.get("prompt_token_ids")) for record in records]
    found = [(r.source.line, r.kind, prompt, r.prompts_in_call) for r, prompt in zip(records, prompts, strict=True)]
    assert found == [
        (1, "text", "a", 1), (2, "text", "b", 2), (2, "text", "c", 2), (3, "tokens", [1, 2], 1),
        (4, "tokens", [3], 2), (4, "tokens", [4, 5], 2), (5, "text", "d", 2),
    ]  # fmt: skip
    assert all(list(record.body)[1] == "max_tokens" for record in records)
    assert skips(ledger) == [(5, "no_prompt"), (6, "no_prompt"), (7, "no_prompt")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": [1, 2.0]}, "invalid_token_ids"),
        ({"prompt_token_ids": [1, -1]}, "invalid_token_ids"),
        ({"prompt_token_ids": [1, 2**32]}, "invalid_token_ids"),
        ({"prompt_token_ids": [1, True]}, "invalid_token_ids"),
        ({"prompt_token_ids": "x"}, "invalid_prompt"),
        ({"prompt": 7}, "invalid_prompt"),
        ({"prompt": ["a", None]}, "invalid_prompt"),
        ({"messages": "hello"}, "invalid_messages"),
        ({"messages": ["hello"]}, "invalid_messages"),
        ({"model": "m"}, "no_prompt"),
        ({"prompt": None}, "no_prompt"),
        ({"prompt": "a", "status": "429"}, "failed_before_prefill"),
        ({"prompt": "a", "status": 500, "usage": {"prompt_tokens": 0}}, "failed_before_prefill"),
        ({"prompt": "a", "request_id": "HEALTH_CHECK_1"}, "health_check"),
        ({"prompt": "a", "path": "/health?x=1"}, "health_check"),
        ({"input": ["a"], "path": "/v1/embeddings"}, "not_a_generation_call"),
        ({"messages": [{"role": "user"}], "url": "http://h/v1/messages/count_tokens"}, "not_a_generation_call"),
        ({"prompt": "a", "endpoint": "/v1/rerank"}, "not_a_generation_call"),
        ({"input": "a", "model": "m"}, "unsupported_api"),
        ({"system": "s", "messages": [{"role": "user", "content": "a"}]}, "unsupported_api"),
        ({"messages": [{"role": "user", "content": "redacted-by-litellm"}]}, "redacted_prompt"),
    ],
)
def test_rows_left_out(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    records, ledger = read_rows(tmp_path, [{"prompt": "good"}, row])
    assert [record.body for record in records] == [{"prompt": "good"}]
    assert skips(ledger) == [(2, reason)]
    broken = ledger.skipped[0].broken
    assert broken == (reason.startswith("invalid") or reason == "unsupported_api")
    if broken:
        with pytest.raises(GateFailed, match=f":2: {reason}"):
            read_rows(tmp_path, [{"prompt": "good"}, row], strict=True)


CHOICES = {"id": "c", "choices": [{"message": {"role": "assistant", "content": "hi"}, "token_ids": [7, 8]}]}
USAGE = {"prompt_tokens": 6, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
MESSAGES = [{"role": "user", "content": "x"}]
BODY = {"model": "m", "messages": MESSAGES, "session_id": "inner", "metadata": {"session_id": "m"}}
ANSWER = {**CHOICES, "usage": USAGE}


@pytest.mark.parametrize(
    "row",
    [
        {"ts": 1794992400, "id": "r", "request": BODY, "response": ANSWER},
        {"ts": 1794992400, "id": "r", "body": json.dumps(BODY), "response": json.dumps(ANSWER)},
        {"ts": 1794992400, "id": "r", "request_body": json.dumps(json.dumps(BODY)), "response": ANSWER},
        {"ts": 1794992400, "id": "r", "request": BODY, "response": {"status_code": 200, "body": ANSWER}},
        {"ts": 1794992400, "id": "r", **BODY, "response": CHOICES, "usage": USAGE},
    ],
)
def test_envelopes_give_the_same_record(tmp_path: Path, row: dict[str, Any]) -> None:
    (record,), ledger = read_rows(tmp_path, [row])
    assert record.request_id == "r" and record.usage == Usage(6, 4, 2) and record.output_token_ids == (7, 8)
    assert record.response == {"role": "assistant", "content": "hi"}
    assert record.body["messages"] == BODY["messages"] and record.session_id == "inner"
    if "messages" not in row:
        assert record.body == BODY and list(record.body) == list(BODY)
    assert record.time_ns == 1794992400 * 10**9 and not ledger.warnings


def test_answers_of_several_prompts_and_samples(tmp_path: Path) -> None:
    row = {"prompt": ["a", "b"], "n": 2, "response": {"choices": [{"text": t} for t in "1234"]}, "usage": USAGE}
    records, ledger = read_rows(tmp_path, [row])
    assert [(record.response, record.n, record.usage) for record in records] == [("1", 2, None), ("3", 2, None)]
    assert "usage_covers_several_prompts" in {w["reason"] for w in ledger.warnings}


def test_an_unreadable_body_or_answer(tmp_path: Path) -> None:
    rows = [
        {"request": BODY, "response": "data: {}\n\n"},
        {"request_body": '{"model": "m", "messa', "status": 200},
        {"request_body": "-"},
        {"request_body": None, "status": 502},
    ]
    records, ledger = read_rows(tmp_path, rows)
    assert [record.response for record in records] == [None]
    assert skips(ledger) == [(2, "unreadable_request_body"), (3, "no_prompt"), (4, "failed_before_prefill")]
    assert "event_stream_response" in {w["reason"] for w in ledger.warnings}


def test_rows_of_one_family_may_be_mixed(tmp_path: Path) -> None:
    rows = [{"prompt": "a"}, {"request": BODY}, {"custom_id": "c", "url": "/v1/chat/completions", "body": BODY}]
    records, ledger = read_rows(tmp_path, rows)
    assert [record.kind for record in records] == ["text", "chat", "chat"] and not ledger.skipped
    assert [record.request_id for record in records] == [None, None, "c"]


def test_located_faults_are_bounded_and_limit_stops(tmp_path: Path) -> None:
    data = b'{"prompt": "a"}\n' + b"junk\n" * 50 + b'{"prompt": "b"}\n'
    _, ledger = read_bytes(tmp_path, data)
    assert [skip.line for skip in ledger.skipped] == [*range(2, 22), None]
    assert ledger.skipped_counts == {"invalid_json": 50} and sum(skip.count for skip in ledger.skipped) == 50
    records, ledger = read_bytes(tmp_path, data, limit=1)
    assert len(records) == ledger.requests_read == 1 and not ledger.skipped


def test_every_format_says_what_it_is() -> None:
    for name, format in FORMATS.items():
        assert format.name == name and len(name) >= 2
        assert format.description and format.how and format.signature
