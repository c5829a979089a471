"""The failures people meet first get one sentence that says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prefixscope import api
from prefixscope.engines import EngineOptions, resolve
from prefixscope.errors import FormatError, InputError, OptionError
from prefixscope.models.prompt import PromptMaker
from prefixscope.models.table import ModelEntry
from prefixscope.models.table_file import read_models_file
from prefixscope.models.template import Unrenderable
from prefixscope.records import LoggedRequest, Source
from tests.cases import BYTES_MODEL, write_models
from tests.models.prompts import maker
from tests.shared import needs_shared


def chats(path: Path, count: int) -> str:
    rows = [{"messages": [{"role": "user", "content": f"question {n}"}], "tag": "a"} for n in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def analyze(log: str, models: Path, **options: str) -> api.Analysis:
    asked = api.LogOptions((log,), models_file=str(models), render="plain", **options)  # type: ignore[arg-type]
    return api.analyze(api.AnalyzeOptions(asked), lambda *_: None)


@needs_shared
def test_a_template_that_refuses_everything_is_quoted(tmp_path: Path) -> None:
    models = write_models(tmp_path, {"chat_template": "{{ raise_exception('roles must alternate') }}"})
    assert models is not None
    with pytest.raises(InputError, match=r"3 times: roles must alternate .*chat_template"):
        analyze(chats(tmp_path / "log.jsonl", 3), models)


@needs_shared
def test_a_template_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = a * b %}{% endfor %}{% endfor %}x"
    (tmp_path / "endless.jinja").write_text(endless)
    entry = ModelEntry("m", "m", str(BYTES_MODEL), chat_template=str(tmp_path / "endless.jinja"))
    made = maker(entry, render_limit=0.05)
    tried = []
    started = PromptMaker._started

    def counted(self: PromptMaker, *rest: Any) -> Any:
        tried.append(1)
        return started(self, *rest)

    monkeypatch.setattr(PromptMaker, "_started", counted)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    outcomes = [made.make(LoggedRequest(Source("log", n), "chat", {**body, "n": n}, model="m")) for n in range(1, 7)]
    assert all(isinstance(outcome, Unrenderable) and outcome.reason == "refused" for outcome in outcomes)
    assert "given up" in str(outcomes[-1])
    assert len(tried) == 3


@needs_shared
def test_a_namespace_field_that_no_request_has_is_an_error(tmp_path: Path) -> None:
    models = write_models(tmp_path, {"chat_template": "{{ messages[0].content }}"})
    assert models is not None
    log = chats(tmp_path / "log.jsonl", 3)
    with pytest.raises(OptionError, match="--namespace-by tagg: no request has this field"):
        analyze(log, models, namespace_by="tagg")
    assert analyze(log, models, namespace_by="tag").reports[0].totals.requests == 3
    spaces = analyze(log, models, namespace_by="messages").reports[0].groups
    assert not any("question" in (group.name or "") for group in spaces)


def test_numbers_beyond_reason_are_told() -> None:
    with pytest.raises(OptionError, match="--block-size"):
        resolve("vllm", EngineOptions(block_size=10**23))
    with pytest.raises(OptionError, match="not a version"):
        resolve("vllm@" + "9" * 5000)


def test_a_models_file_nested_without_end_is_told(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text("x = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(FormatError):
        read_models_file(path)


def test_a_home_that_does_not_exist_is_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text('[models."m"]\npath = "~nosuchuser/x"\n')
    assert read_models_file(path)[0].name == "m"
