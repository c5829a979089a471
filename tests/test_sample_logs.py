"""The sample logs: made again with the same bytes, and true to what their README says about them."""

from __future__ import annotations

import doctest
import gzip
import importlib
import json
import os
import subprocess
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SAMPLES = Path(__file__).resolve().parents[1] / "sample_logs"
LOGS = ["support-chat.jsonl", "agent-tools.jsonl.gz", "document-questions.jsonl.gz", "volatile-header.jsonl"]
MODEL = [f"model/{name}" for name in ("tokenizer.json", "tokenizer_config.json", "config.json", "chat_template.jinja")]
MADE = [*LOGS, "hash-trace.jsonl", "models.toml", *MODEL]
BLOCK = 16


@dataclass(frozen=True)
class Line:
    """One served request, whatever shape its line has."""

    facts: dict[str, Any]
    body: dict[str, Any]
    answer: dict[str, Any]
    usage: dict[str, Any] | None


def content_of(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if path.suffix == ".gz" else raw


def objects_of(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content_of(SAMPLES / log).splitlines()]


def line_of(row: dict[str, Any]) -> Line:
    if "request_body" in row:
        row = row | {"request": json.loads(row["request_body"]), "response": json.loads(row["response_body"])}
    if "request" in row:
        response = row["response"]
        return Line(row, row["request"], response["choices"][0]["message"], response["usage"])
    return Line(row, row, row["response"], row.get("usage"))


@cache
def served_lines(log: str) -> list[Line]:
    return [line_of(row) for row in objects_of(log) if row["status"] == 200]


@cache
def tokenizer() -> Any:
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(SAMPLES / "model", trust_remote_code=False)


@cache
def prompts(log: str) -> list[np.ndarray]:
    """The token ids of every served request, by transformers' own rendering."""
    texts = [
        tokenizer().apply_chat_template(
            line.body["messages"], tools=line.body.get("tools"), add_generation_prompt=True, tokenize=False
        )
        for line in served_lines(log)
    ]
    encodings = tokenizer().backend_tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [np.array(encoding.ids, dtype=np.uint32) for encoding in encodings]


def common_tokens(first: np.ndarray, second: np.ndarray) -> int:
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length


def sessions_of(log: str) -> list[list[tuple[Line, np.ndarray]]]:
    sessions: dict[str, list[tuple[Line, np.ndarray]]] = defaultdict(list)
    for line, ids in zip(served_lines(log), prompts(log), strict=True):
        sessions[line.facts["session_id"]].append((line, ids))
    return list(sessions.values())


@pytest.fixture(scope="module")
def made_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    # another hash seed and one thread: neither may show in the files
    environment = os.environ | {"PYTHONHASHSEED": "7", "RAYON_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, SAMPLES / "make.py", "--out", folder], check=True, env=environment)
    return folder


def test_the_script_makes_exactly_the_committed_files(made_again: Path) -> None:
    made = sorted(path.relative_to(made_again).as_posix() for path in made_again.rglob("*") if path.is_file())
    assert made == sorted(MADE)


@pytest.mark.parametrize("name", MADE)
def test_a_file_is_made_again_byte_for_byte(made_again: Path, name: str) -> None:
    # the text of compressed logs is compared unpacked: Pythons with another zlib pack it differently
    assert content_of(made_again / name) == content_of(SAMPLES / name)
    if name.endswith(".gz"):
        assert (made_again / name).read_bytes()[3:8] == b"\0\0\0\0\0", "the header carries a name or a time"


def test_the_folder_is_small() -> None:
    files = [path for path in SAMPLES.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < 6_000_000


@pytest.mark.parametrize("module", ["session", "serving"])
def test_examples_in_the_docstrings(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.syspath_prepend(str(SAMPLES))
    result = doctest.testmod(importlib.import_module(f"making.{module}"))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("log", LOGS)
def test_lines_are_in_time_order_and_overlap(log: str) -> None:
    rows = objects_of(log)
    arrivals = [datetime.fromisoformat(row["timestamp"]) for row in rows]
    assert len(rows) >= 200
    assert arrivals == sorted(arrivals)
    assert (arrivals[-1] - arrivals[0]).total_seconds() > 3600
    assert len({arrival.date() for arrival in arrivals}) == 1
    spans = [
        (line.facts["timestamp"], line.facts["first_token_at"], line.facts["finished_at"]) for line in served_lines(log)
    ]
    assert all(arrival < first <= finished for arrival, first, finished in spans)
    assert sum(later[0] < earlier[2] for earlier, later in pairwise(spans)) >= 10


@pytest.mark.parametrize("log", LOGS)
def test_prompt_tokens_equal_the_rendered_length(log: str) -> None:
    counted = 0
    for line, ids in zip(served_lines(log), prompts(log), strict=True):
        if line.usage is not None:
            assert line.usage["prompt_tokens"] == len(ids)
            assert line.usage["total_tokens"] == len(ids) + line.usage["completion_tokens"]
            counted += 1
    assert counted >= 200


@pytest.mark.parametrize("log", LOGS)
def test_the_next_request_repeats_the_history_and_the_answer(log: str) -> None:
    first = 1 if log == "volatile-header.jsonl" else 0
    pairs = 0
    for session in sessions_of(log):
        for (line, _), (following, _) in pairwise(session):
            history = [*line.body["messages"], line.answer]
            assert following.body["messages"][first : len(history)] == history[first:]
            assert line.facts["finished_at"] < following.facts["timestamp"]
            pairs += 1
    assert pairs >= 30


def test_answers_come_back_as_the_same_tokens() -> None:
    """Only where reasoning was dropped does a prompt leave the sequence of the request before."""
    left = dict.fromkeys(LOGS[:3], 0)
    for log in left:
        for session in sessions_of(log):
            for (line, ids), (following, next_ids) in pairwise(session):
                output = line.usage["completion_tokens"] if line.usage else 0
                kept = common_tokens(ids, next_ids) == len(ids)
                dropped = "reasoning" in line.answer and following.body["messages"][-1]["role"] == "user"
                assert kept is not dropped
                if kept and output:
                    end = len(ids) + output
                    assert next_ids[end - 1] == tokenizer().convert_tokens_to_ids("<|im_end|>")
                left[log] += dropped
    assert left["agent-tools.jsonl.gz"] >= 5
    assert left["support-chat.jsonl"] == left["document-questions.jsonl.gz"] == 0


@pytest.mark.parametrize("log", ["support-chat.jsonl", "agent-tools.jsonl.gz", "volatile-header.jsonl"])
def test_cached_tokens_are_those_of_an_endless_cache(log: str) -> None:
    """Compared with the longest common prefix of all earlier sequences, token by token."""
    earlier: dict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)
    for line, ids in zip(served_lines(log), prompts(log), strict=True):
        now = line.facts["timestamp"]
        known = earlier[line.body["model"]]
        shared = max((common_tokens(ids, sequence) for since, sequence in known if since <= now), default=0)
        if line.usage is not None:
            expected = min(shared, len(ids) - 1) // BLOCK * BLOCK
            assert line.usage["prompt_tokens_details"] == {"cached_tokens": expected}
        known += [(now, ids), (line.facts["finished_at"], np.concatenate([ids, answer_ids(line)[:-1]]))]


def answer_ids(line: Line) -> np.ndarray:
    text = tokenizer().apply_chat_template([line.answer], tokenize=False)
    generated = text.removeprefix("<|im_start|>assistant\n").removesuffix("\n")
    ids = tokenizer().backend_tokenizer.encode(generated, add_special_tokens=False).ids
    assert line.usage is None or line.usage["completion_tokens"] == len(ids)
    return np.array(ids, dtype=np.uint32)


def test_prompts_with_a_volatile_header_share_almost_nothing() -> None:
    ordered = sorted(prompts("volatile-header.jsonl"), key=lambda ids: ids.tolist())
    # among sorted sequences the longest common prefix of any two is found between neighbours
    assert max(common_tokens(first, second) for first, second in pairwise(ordered)) < 30


def test_support_prompts_share_a_long_system_prompt_over_two_adapters() -> None:
    lines, ids = served_lines("support-chat.jsonl"), prompts("support-chat.jsonl")
    assert {line.body["model"] for line in lines} == {"harbour-8b-orders", "harbour-8b-billing"}
    assert len({line.facts["tenant"] for line in lines}) == 4
    assert min(common_tokens(ids[0], other) for other in ids) > 900
    assert sum(row["status"] == 429 for row in objects_of("support-chat.jsonl")) == 3


def test_the_agent_sends_tools_null_contents_and_reasoning() -> None:
    lines = served_lines("agent-tools.jsonl.gz")
    assert all(6 <= len(line.body["tools"]) <= 10 for line in lines)
    messages = [message for line in lines for message in line.body["messages"]]
    assert any(message["content"] is None and message["tool_calls"] for message in messages)
    assert any(message["role"] == "tool" for message in messages)
    assert any("reasoning" in message for message in messages)
    names = {tool["function"]["name"] for tool in lines[0].body["tools"]}
    called = {call["function"]["name"] for line in lines for call in line.answer.get("tool_calls", [])}
    assert called == names


def test_documents_are_long_and_asked_about_many_times() -> None:
    asked: dict[str, int] = defaultdict(int)
    for session in sessions_of("document-questions.jsonl.gz"):
        line, ids = session[0]
        assert len(ids) > 3000
        asked[line.body["messages"][1]["content"].split("\n\nQuestion: ")[0]] += 1
    assert len(asked) == 4
    assert min(asked.values()) >= 10


def test_tool_arguments_render_alike_as_text_and_as_objects() -> None:
    """Engines parse the arguments before they render, transformers does not: the template must not tell them apart."""
    line = max(served_lines("agent-tools.jsonl.gz"), key=lambda line: len(line.body["messages"]))
    parsed = json.loads(json.dumps(line.body["messages"]))
    for message in parsed:
        message["content"] = message["content"] or ""
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    texts = [
        tokenizer().apply_chat_template(messages, tools=line.body["tools"], tokenize=False)
        for messages in (line.body["messages"], parsed)
    ]
    assert texts[0] == texts[1]


def test_the_tokenizer_loads_fast_and_alike_in_both_libraries() -> None:
    from tokenizers import Tokenizer

    own = Tokenizer.from_file(str(SAMPLES / "model/tokenizer.json"))
    text = "<|im_start|>user\nHëllo e\u0301 12345 <tool_call>\n{}\n</tool_call>\r\n\n  🙂<think>x</think><|im_end|>\n"
    assert tokenizer().is_fast
    assert len(tokenizer()) == own.get_vocab_size() == 4096
    ids = own.encode(text, add_special_tokens=False).ids
    assert tokenizer().encode(text, add_special_tokens=False) == ids
    configuration = json.loads(content_of(SAMPLES / "model/config.json"))
    assert configuration["vocab_size"] == 4096
    assert own.id_to_token(configuration["eos_token_id"]) == "<|im_end|>" == tokenizer().eos_token
    assert own.id_to_token(configuration["pad_token_id"]) == "<|endoftext|>" == tokenizer().pad_token


def test_models_toml_resolves_every_name_in_the_logs() -> None:
    models = tomllib.loads(content_of(SAMPLES / "models.toml").decode())["models"]
    names = {line.body["model"] for log in LOGS for line in served_lines(log)}
    assert names == set(models)
    for name, entry in models.items():
        assert entry["base"] == "harbour-8b"
        assert (SAMPLES / entry["path"] / "tokenizer.json").is_file()
        assert entry.get("adapter", {"name": "harbour-8b"})["name"] == name


def test_hash_trace_is_prefix_chained() -> None:
    rows = objects_of("hash-trace.jsonl")
    assert len(rows) == 300
    assert [row["timestamp"] for row in rows] == sorted(row["timestamp"] for row in rows)
    parents: dict[int, int | None] = {}
    seen_before = 0
    for row in rows:
        assert len(row["hash_ids"]) == -(-row["input_length"] // 512)
        for parent, number in pairwise([None, *row["hash_ids"]]):
            seen_before += number in parents
            assert parents.setdefault(number, parent) == parent
    assert sorted(parents) == list(range(len(parents)))
    assert seen_before > 0
