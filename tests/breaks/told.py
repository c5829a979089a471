"""What the break finder says of a log, row by row, without any engine rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefixscope.api import EngineChoice, LogOptions
from prefixscope.api.reading import ingest_options
from prefixscope.ingest import Ingested, ingest
from prefixscope.logs import FORMATS, expand
from tests.cases import write_log, write_models

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The template of most text cases."""


@dataclass(frozen=True, slots=True)
class Told:
    """One row: its cause, the row compared with, the first differing token, the part, a detail, tokens lost."""

    cause: str
    candidate: int | None
    first: int | None
    part: str | None
    detail: str | None
    lost: int
    almost: int


def ingested(
    path: Path, *, models: Path | None = None, model: str | None = None, render: str | None = None
) -> Ingested:
    """A log read with its breaks."""
    log = LogOptions(
        (str(path),),
        models=() if model is None else (model,),
        models_file=None if models is None else str(models),
        render=render,
    )
    return ingest(expand(log.logs, FORMATS), ingest_options(log, EngineChoice(), breaks=True), lambda _: None)


def told(read: Ingested) -> list[Told]:
    """The break columns as rows."""
    columns = read.lineage.breaks
    assert columns is not None
    return [
        Told(
            columns.cause[row] or "",
            _known(columns.candidate_row[row]),
            _known(columns.first_different_token[row]),
            columns.part[row],
            columns.detail[row],
            int(columns.lost_tokens[row]),
            int(columns.almost_tokens[row]),
        )
        for row in range(len(read.lineage))
    ]


def _known(value: Any) -> int | None:
    return None if value < 0 else int(value)


def of_requests(
    folder: Path, requests: Sequence[dict[str, Any]], template: str | None = CHATML, render: str | None = "plain"
) -> list[Told]:
    """The rows of requests under the byte tokenizer and a template; None: requests of token ids."""
    models = None if template is None else write_models(folder, {"chat_template": template})
    path = write_log(folder / "log.jsonl", list(requests))
    return told(ingested(path, models=models, render=render if template is not None else None))
