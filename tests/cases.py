"""The small situations with known answers in ../shared/cases, as logs and options for the api."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from prefixscope import api
from tests.shared import SHARED

CASES = SHARED / "cases"
BYTES_MODEL = CASES / "bytes_model"


def case(number: int) -> dict[str, Any]:
    """One case by its number."""
    (path,) = CASES.glob(f"{number:02d}-*.json")
    return json.loads(path.read_text(encoding="utf-8"))


def logged(request: dict[str, Any]) -> dict[str, Any]:
    """A case's request with the contract's names, and a range of ids written out."""
    row = dict(request)
    if "prompt_token_ids_range" in row:
        row["prompt_token_ids"] = list(range(*row.pop("prompt_token_ids_range")))
    for old, new in {"session": "session_id", "start": "timestamp", "end": "finished_at", "id": "request_id"}.items():
        if old in row:
            row[new] = row.pop(old)
    return row


def write_log(path: Path, requests: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(logged(request)) + "\n" for request in requests), encoding="utf-8")
    return path


def write_models(folder: Path, setup: dict[str, Any]) -> Path | None:
    """A models file that serves every name with the byte tokenizer and the case's template or adapters."""
    path = folder / "models.toml"
    if "chat_template" in setup:
        (folder / "template.jinja").write_text(setup["chat_template"], encoding="utf-8")
        path.write_text(f'[models."*"]\npath = "{BYTES_MODEL}"\nchat_template = "{folder / "template.jinja"}"\n')
        return path
    if "adapters" in setup:
        entries = [
            f'[models."{name}"]\nbase = "{base}"\nadapter = {{ name = "{name}" }}\n'
            for name, base in setup["adapters"].items()
        ]
        path.write_text("\n".join(entries))
        return path
    return None


def run(
    folder: Path, found: dict[str, Any], *, engine: str = "vllm", render: str = "plain", **engine_options: Any
) -> api.Analysis:
    """Analyzes a case's requests."""
    setup = found["setup"]
    models = write_models(folder, setup)
    if "block_size" in setup and isinstance(setup["block_size"], int):
        engine_options.setdefault("block_size", setup["block_size"])
    options = api.AnalyzeOptions(
        api.LogOptions(
            (str(write_log(folder / "log.jsonl", found["requests"])),),
            models_file=None if models is None else str(models),
            render=render if "chat_template" in setup else None,
        ),
        api.EngineChoice((engine,), **engine_options),
    )
    return api.analyze(options, lambda *_: None)
