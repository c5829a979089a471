"""The native format: OpenAI bodies, one a line, bare or with the fields of a logged request beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prefixscope.logs.fields import METADATA
from prefixscope.logs.requests import PROMPT_FIELDS, arrival_times, openai_requests
from prefixscope.logs.rows import LogFormat, Row
from prefixscope.records import Json, LoggedRequest

__all__ = ["Native"]

_OTHER_FORMATS = frozenset({"system", "model_parameters", "modelParameters", "proxy_server_request"})
"""Fields of Anthropic bodies (the system prompt lies outside the messages), LiteLLM (the tools do) and Langfuse."""


class Native(LogFormat):
    """`messages`, `prompt` or `prompt_token_ids` at the top of each object."""

    name = "native"
    family = "openai"
    description = "OpenAI chat, completion or token-id bodies, one a line, with optional time, ids, usage, response"
    how = (
        "Write one JSON object a line from your gateway or proxy: the request body as sent, plus `timestamp` and, "
        "where known, `request_id`, `session_id`, `adapter`, `replica`, `first_token_at`, `finished_at`, `status`, "
        "`usage`, `response`, `output_token_ids`. With vLLM, `return_token_ids: true` in the request makes the server "
        "return the exact ids (unverified): log them as `prompt_token_ids` and `output_token_ids`."
    )
    signature = "`messages`, `prompt` or `prompt_token_ids` at the top level"
    has_token_ids = True
    has_cached_tokens = True
    has_session = True
    has_adapter = True

    def recognises(self, value: Mapping[str, Json]) -> bool:
        """Any prompt field at the top, and no sign of another provider's body."""
        return any(name in value for name in PROMPT_FIELDS) and _OTHER_FORMATS.isdisjoint(value)

    def times(self, value: Mapping[str, Json]) -> Iterator[tuple[str, Any]]:
        """`timestamp` or one of its common names."""
        return arrival_times(value)

    def read(self, row: Row) -> tuple[LoggedRequest, ...]:
        """One record, or one per prompt of a completion call with several."""
        body = {name: held for name, held in row.value.items() if name not in METADATA}
        return openai_requests(row, body, wrapped=False)
