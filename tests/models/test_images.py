"""Media separate requests unless they are the same media in the same order."""

from __future__ import annotations

import json
from pathlib import Path

from prefixscope import api
from tests.cases import write_models
from tests.shared import needs_shared


def ask(*urls: str, uuid: str | None = None) -> dict[str, object]:
    parts: list[dict[str, object]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    if uuid is not None:
        parts[0]["uuid"] = uuid
    return {
        "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": "What is on this picture?" * 9}]}]
    }


@needs_shared
def test_other_pictures_behind_equal_placeholders_are_not_shared(tmp_path: Path) -> None:
    template = "{% for m in messages %}{% for p in m.content %}{{ p.text or '<image>' }}{% endfor %}{% endfor %}"
    models = write_models(tmp_path, {"chat_template": template})
    rows = [
        ask("a.png"),
        ask("a.png"),
        ask("b.png"),
        ask("a.png", "b.png"),
        ask("x.png", uuid="1"),
        ask("y.png", uuid="1"),
    ]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = api.LogOptions((str(log),), models_file=str(models), render="plain")
    analysis = api.analyze(api.AnalyzeOptions(options), lambda *_: None)
    assert [cached > 0 for cached in analysis.rows["cached_tokens"]] == [False, True, False, False, False, True]
    assert "media_not_counted" in {warning.reason for warning in analysis.reports[0].input.warnings}
