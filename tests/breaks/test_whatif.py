"""A what-if is the log computed again: it equals the analysis of a log that was really changed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from prefixscope import api
from prefixscope.breaks.whatif import CHANGES, rewrite_for
from prefixscope.errors import InputError, OptionError
from prefixscope.records import LoggedRequest, Source
from tests.breaks.further import all_further
from tests.breaks.further_mixed import all_mixed
from tests.breaks.situations import all_situations
from tests.breaks.told import ingested, of_requests
from tests.cases import write_log, write_models
from tests.shared import needs_shared

SAMPLES = Path(__file__).resolve().parents[2] / "sample_logs"


def nothing(*_: object) -> None:
    """Progress that nobody watches."""


def totals_of(log: Path, **options: Any) -> tuple[int, int]:
    found = api.analyze(
        api.AnalyzeOptions(api.LogOptions((str(log),), models_file=str(SAMPLES / "models.toml"))), nothing
    )
    totals = found.reports[0].totals
    return totals.prompt_tokens, totals.cached_tokens


def rewritten(folder: Path, change: Any) -> Path:
    """The sample log with every system prompt changed by hand."""
    target = folder / "changed.jsonl"
    with (SAMPLES / "volatile-header.jsonl").open(encoding="utf-8") as lines, target.open("w", encoding="utf-8") as out:
        for line in lines:
            row = json.loads(line)
            row["messages"][0]["content"] = change(row["messages"][0]["content"])
            out.write(json.dumps(row) + "\n")
    return target


@pytest.fixture(scope="module")
def explained() -> api.Explanation:
    log = api.LogOptions((str(SAMPLES / "volatile-header.jsonl"),), models_file=str(SAMPLES / "models.toml"))
    return api.explain(api.ExplainOptions(log), nothing)


def test_the_volatile_header_is_the_first_fault(explained: api.Explanation) -> None:
    first = explained.report.faults[0]
    assert (first.cause, first.part, first.requests) == ("timestamp", "system", 245)
    assert first.share_of_prompt is not None and first.share_of_prompt > 0.9
    assert first.example is not None and first.example.text_before is not None
    assert first.example.text_before.endswith("2026-03-17T08:0")


def test_its_what_if_equals_the_log_without_the_header_line(explained: api.Explanation, tmp_path: Path) -> None:
    found = next(one for one in explained.report.what_ifs if one.causes == ("timestamp",))
    assert (found.prompt_tokens, found.cached_tokens) == totals_of(SAMPLES / "volatile-header.jsonl")
    without = rewritten(tmp_path, lambda text: text.partition("\n")[2])
    assert (found.prompt_tokens_after, found.cached_tokens_after) == totals_of(without)
    assert found.cached_tokens_after > 0.95 * found.prompt_tokens_after
    assert found.changed_requests == 247


def test_moving_the_header_to_the_end_gives_nearly_as_much(explained: api.Explanation, tmp_path: Path) -> None:
    """The remedy that is named: the line behind the stable text, as a log in which it was really moved shows."""
    found = next(one for one in explained.report.what_ifs if one.causes == ("timestamp",))
    moved = rewritten(tmp_path, lambda text: text.partition("\n")[2] + "\n" + text.partition("\n")[0])
    prompt, cached = totals_of(moved)
    assert 0.8 * found.cached_tokens_after < cached < found.cached_tokens_after
    assert prompt > found.prompt_tokens_after


def test_together_they_gain_more(explained: api.Explanation) -> None:
    together = next(one for one in explained.report.what_ifs if len(one.causes) > 1)
    assert together.gained_tokens >= max(one.gained_tokens for one in explained.report.what_ifs)


REMOVABLE = [one for one in all_situations() if one[0] in CHANGES]
REMOVABLE += [
    (cause, template, requests)
    for _, cause, _, template, requests in (*all_further(), *all_mixed())
    if cause in CHANGES
]


@needs_shared
@pytest.mark.parametrize("number", range(len(REMOVABLE)), ids=lambda n: f"{n}-{REMOVABLE[n][0]}")
def test_a_rewritten_log_no_longer_has_the_cause(number: int, tmp_path: Path) -> None:
    cause, template, requests = REMOVABLE[number]
    models = None if template is None else write_models(tmp_path, {"chat_template": template})
    path = write_log(tmp_path / "log.jsonl", requests)
    read = ingested(path, models=models, render=None if template is None else "plain")
    assert read.breaks is not None
    spots = [example.spot for example in read.breaks.examples.values() if example.spot is not None]
    rewrite = rewrite_for((cause,), spots)
    changed = []
    for request in requests:
        kind = "chat" if "messages" in request else "text" if "prompt" in request else "tokens"
        logged = rewrite(LoggedRequest(Source("", 0), kind, request, response=request.get("response")))  # type: ignore[arg-type]
        body = dict(logged.body)
        if cause == "template_date":
            body.pop("timestamp", None)
        if cause == "adapter":
            body.pop("adapter", None)
        changed.append(body if logged.response is None else {**body, "response": logged.response})
    ids = [body.get("prompt_token_ids", (None,))[0] for body in changed]
    if cause == "special_tokens" and ids[0] != ids[1]:
        pytest.skip("a missing first token can't be told from another prompt by one request alone")
    if cause == "documents_reordered" and _unlabelled(requests):
        pytest.skip("passages without labels are not sorted")
    if cause == "retokenization" and "response" not in requests[0]:
        pytest.skip("no text of the answer is logged")
    if cause == "reasoning_dropped" and "response" in requests[0]:
        pytest.skip("what was generated stays as it was")
    assert of_requests(tmp_path, changed, template)[-1].cause != cause


def _unlabelled(requests: list[dict[str, Any]]) -> bool:
    texts = [str(message.get("content")) for message in requests[0]["messages"]]
    return any(re.search("(?:[-*]|Source:) (?:Rye is baked|The quiet lounge)", text) for text in texts)


def test_causes_without_a_rule_and_unknown_words_are_refused() -> None:
    log = api.LogOptions((str(SAMPLES / "volatile-header.jsonl"),), models_file=str(SAMPLES / "models.toml"))
    with pytest.raises(OptionError, match="no rule removes it"):
        api.explain(api.ExplainOptions(log, what_if=("system_variant",)), nothing)
    with pytest.raises(OptionError, match="no such cause"):
        api.explain(api.ExplainOptions(log, what_if=("clock",)), nothing)


def test_an_index_explains_but_can_not_be_rewritten(tmp_path: Path) -> None:
    log = api.LogOptions((str(SAMPLES / "volatile-header.jsonl"),), models_file=str(SAMPLES / "models.toml"))
    index = tmp_path / "index.parquet"
    with index.open("wb") as file:
        api.write_index(log, api.EngineChoice(), file, nothing)
    found = api.explain(api.ExplainOptions(api.LogOptions((str(index),))), nothing)
    first = found.report.faults[0]
    assert (first.cause, first.part, first.requests) == ("timestamp", "system", 245)
    assert first.example is not None and first.example.new is None
    assert found.report.what_ifs == () and found.report.notes == ("what_if_needs_log",)
    fresh = api.explain(api.ExplainOptions(log, what_if=()), nothing)
    assert fresh.report.causes == found.report.causes
    assert [fault.lost_tokens for fault in fresh.report.faults] == [fault.lost_tokens for fault in found.report.faults]
    with pytest.raises(InputError, match="--what-if needs the log"):
        api.explain(api.ExplainOptions(api.LogOptions((str(index),)), what_if=("timestamp",)), nothing)
