"""Served requests as log lines, in the three shapes that the samples show, and the files they go into."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from making.session import Served, iso_time

Row = dict[str, Any]


def compact(value: Any) -> str:
    """JSON without spaces, with letters outside ASCII as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def facts(served: Served) -> Row:
    """What a gateway knows about a request beside its body."""
    session = served.session
    row: Row = {
        "request_id": served.request_id,
        "timestamp": iso_time(served.arrival_ms),
        "first_token_at": iso_time(served.first_token_ms),
        "finished_at": iso_time(served.finished_ms),
        "session_id": session.session_id,
    }
    if session.tenant is not None:
        row["tenant"] = session.tenant
    row["status"] = 200
    return row


def body(served: Served) -> Row:
    """The request body as the client sent it."""
    content: Row = {"model": served.session.model, "messages": served.messages}
    if served.session.tools is not None:
        content["tools"] = served.session.tools
        content["tool_choice"] = "auto"
    content["temperature"] = 0.2
    content["max_tokens"] = 800
    return content


def usage(served: Served, with_details: bool) -> Row:
    """Token counts in the way vLLM reports them; the details are null where the server was not told to give them."""
    return {
        "prompt_tokens": served.prompt_tokens,
        "total_tokens": served.prompt_tokens + served.output_tokens,
        "completion_tokens": served.output_tokens,
        "prompt_tokens_details": {"cached_tokens": served.cached_tokens} if with_details else None,
    }


def completion(served: Served, with_details: bool) -> Row:
    """A whole response object of the chat completions interface."""
    return {
        "id": f"chatcmpl-{served.request_id}",
        "object": "chat.completion",
        "created": served.arrival_ms // 1000,
        "model": served.session.model,
        "choices": [
            {
                "index": 0,
                "message": served.answer,
                "finish_reason": "tool_calls" if served.answer.get("tool_calls") else "stop",
            }
        ],
        "usage": usage(served, with_details),
    }


def native_row(served: Served, with_usage: bool) -> Row:
    """Body and facts side by side: prefixscope's own form."""
    row = facts(served) | body(served) | {"response": served.answer}
    return row | {"usage": usage(served, with_details=True)} if with_usage else row


def envelope_row(served: Served) -> Row:
    """Body and response as objects inside a line of a gateway."""
    return facts(served) | {
        "path": "/v1/chat/completions",
        "request": body(served),
        "response": completion(served, with_details=True),
    }


def nested_row(served: Served) -> Row:
    """Body and response as JSON inside strings, from a server that does not report cached tokens."""
    return facts(served) | {
        "request_body": compact(body(served)),
        "response_body": compact(completion(served, with_details=False)),
    }


def refused_row(served: Served, earlier_ms: int) -> Row:
    """The same request some time before, turned away because the server was too busy."""
    row = facts(served) | {"timestamp": iso_time(served.arrival_ms - earlier_ms), "status": 429}
    row["request_id"] = served.request_id[::-1]
    del row["first_token_at"], row["finished_at"]
    error = {"message": "Too many requests are waiting.", "type": "rate_limit_error", "code": 429}
    return row | body(served) | {"response": {"error": error}}


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines; a name ending in .gz is compressed, without a time stamp or a name inside."""
    content = "".join(compact(row) + "\n" for row in rows).encode()
    if path.suffix == ".gz":
        buffer = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, compresslevel=9, mtime=0) as compressed:
            compressed.write(content)
        content = buffer.getvalue()
    path.write_bytes(content)
