"""Make everything in sample_logs/ anew: the model folder, models.toml, the four request logs and the hash trace.

    python sample_logs/make.py [--out FOLDER]

The script needs `tokenizers` and `jinja2`, both of which prefixscope installs. It uses no network and no model. The
same texts (sample_logs/texts) give the same files on every run and every machine.

The order of work is fixed by what depends on what: sessions are planned from the texts, the tokenizer is trained on
the planned sentences, and only then are the sessions served, because times depend on token counts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from making.agent import agent_sessions
from making.documents import document_sessions
from making.draw import Draw
from making.hash_trace import hash_trace_rows
from making.language import Language, write_model_folder
from making.rows import Row, envelope_row, native_row, nested_row, refused_row, write_rows
from making.serving import Engine
from making.session import TEXTS, Served, Session
from making.support import support_sessions

MODELS_TOML = """\
# How the names in the sample logs are resolved. Two adapters share one base model: their prompts have the same tokens,
# but the keys and values they compute differ, so neither can reuse a prefix of the other.

[models."harbour-8b"]
base = "harbour-8b"
path = "model"

[models."harbour-8b-orders"]
base = "harbour-8b"
path = "model"
adapter = { name = "harbour-8b-orders", version = "1" }

[models."harbour-8b-billing"]
base = "harbour-8b"
path = "model"
adapter = { name = "harbour-8b-billing", version = "1" }
"""


def planned_logs() -> dict[str, list[Session]]:
    """The sessions of each log, before anything has a time or a token count."""
    return {
        "support-chat": support_sessions("support", 95, with_header=False),
        "agent-tools": agent_sessions("depot", 30),
        "document-questions": document_sessions("reader", 180),
        "volatile-header": support_sessions("desk", 70, with_header=True),
    }


def sentences(logs: dict[str, list[Session]]) -> Iterator[str]:
    """What the tokenizer is trained on: a page of everyday words, then every text of the planned logs once."""
    yield (TEXTS / "reading.txt").read_text(encoding="utf-8")
    seen: set[str] = set()
    for session in (session for sessions in logs.values() for session in sessions):
        for text in texts_of(session):
            if text not in seen:
                seen.add(text)
                yield text


def texts_of(session: Session) -> Iterator[str]:
    """The texts of one session, each part by itself so that a long document counts once."""
    if session.tools is not None:
        yield json.dumps(session.tools, ensure_ascii=False)
    for step in session.steps:
        for message in (*step.added, step.answer):
            for text in (message.get("reasoning"), message.get("content")):
                yield from (text or "").split("\n\nQuestion: ")
            yield from (call["function"]["arguments"] for call in message.get("tool_calls", []))


def support_rows(name: str, served: list[Served], usage_share: float, refused: int) -> list[Row]:
    """Native rows; some clients did not ask for usage, and a few requests were turned away before they were served."""
    draw = Draw(f"{name}/rows")
    with_usage = {request.session.session_id: draw.chance(usage_share) for request in served}
    rows = [native_row(request, with_usage[request.session.session_id]) for request in served]
    rows += [refused_row(draw.one_of(served), draw.integer(900, 4000)) for _ in range(refused)]
    return sorted(rows, key=lambda row: str(row["timestamp"]))


def rows_of(log: str, served: list[Served]) -> list[Row]:
    """The lines of a log in the shape that this log shows."""
    if log == "support-chat":
        return support_rows(log, served, usage_share=0.6, refused=3)
    if log == "volatile-header":
        return support_rows(log, served, usage_share=1.0, refused=0)
    return [envelope_row(request) if log == "agent-tools" else nested_row(request) for request in served]


def make(folder: Path) -> None:
    """Write all files into the folder."""
    logs = planned_logs()
    template = (TEXTS / "chat_template.jinja").read_text(encoding="utf-8")
    write_model_folder(folder / "model", sentences(logs), template)
    (folder / "models.toml").write_bytes(MODELS_TOML.encode())
    language = Language(folder / "model")
    for log, sessions in logs.items():
        served = Engine(language, Draw(f"{log}/engine")).serve(sessions)
        suffix = ".jsonl.gz" if log in ("agent-tools", "document-questions") else ".jsonl"
        write_rows(folder / (log + suffix), rows_of(log, served))
    trace: list[dict[str, Any]] = hash_trace_rows("hash-trace", sessions=80, count=300)
    write_rows(folder / "hash-trace.jsonl", trace)


def main() -> None:
    """Read the command line and make the files."""
    parser = argparse.ArgumentParser(description="Make the sample logs and their small model folder anew.")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parent, help="where to write (default: here)"
    )
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    make(folder)


if __name__ == "__main__":
    main()
