"""Content parts of any shape are rendered or counted, never a crash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prefixscope import api
from tests.cases import write_models
from tests.shared import needs_shared

GOOD = {"messages": [{"role": "user", "content": "fine"}]}
TEMPLATES = {
    "texts": "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}",
    "parts": "{% for message in messages %}{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}\n{% endfor %}",
}


@needs_shared
@pytest.mark.parametrize("render", ["plain", "transformers", "vllm", "sglang"])
@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("kind", [["text"], {"a": 1}, None, 5, True, ""])
def test_a_part_whose_type_is_no_text(kind: Any, template: str, render: str, tmp_path: Path) -> None:
    models = write_models(tmp_path, {"chat_template": TEMPLATES[template]})
    odd = {"messages": [{"role": "user", "content": [{"type": kind, "text": "x"}]}]}
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in (GOOD, odd, GOOD)))
    options = api.LogOptions((str(log),), models_file=str(models), render=render)
    report = api.analyze(api.AnalyzeOptions(options), lambda *_: None).reports[0]
    left_out = sum(skip.count for skip in report.input.skipped)
    assert report.totals.requests + left_out == 3
    assert report.totals.requests >= 2
