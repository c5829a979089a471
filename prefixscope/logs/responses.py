"""What the log says about the answer: text or message, token ids, usage, status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefixscope.logs.fields import parsed_object, status_of, text_of, token_ids
from prefixscope.records import Json

__all__ = ["Answer", "read_answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One logged answer. `choices` holds (text or message, output token ids or None) by choice index."""

    choices: tuple[tuple[Json, tuple[int, ...] | None], ...] = ()
    usage: Json = None
    status: int | None = None
    request_id: str | None = None
    unread: str | None = None


def read_answer(response: Json, *, may_be_json: bool) -> Answer:
    """Reads a response: text, an assistant message, or a whole OpenAI response object.

    `may_be_json`: a string is the raw body (of an envelope), not the generated text itself. A raw event stream is not
    put together again: `unread` says so.
    """
    if may_be_json and isinstance(response, str):
        if response.lstrip().startswith(("data:", "event:")):
            return Answer(unread="event_stream_response")
        parsed = parsed_object(response)
        if response and not isinstance(parsed, dict):
            return Answer(unread="unreadable_response")
        response = parsed
    if isinstance(response, str):
        return Answer(((response, None),))
    if not isinstance(response, dict):
        return Answer()
    body = response.get("body")
    if "choices" not in response and isinstance(body, dict):
        inner = read_answer(body, may_be_json=False)
        status = status_of(response.get("status_code"))
        return Answer(inner.choices, inner.usage, inner.status if status is None else status, inner.request_id)
    if "role" in response or "content" in response:
        return Answer(((response, None),), response.get("usage"))
    status = status_of(response.get("status_code", response.get("status")))
    usage = response.get("usage", response.get("usageMetadata", response.get("meta_info")))
    return Answer(_choices(response), usage, status, text_of(response.get("id")))


def _choices(response: Mapping[str, Json]) -> tuple[tuple[Json, tuple[int, ...] | None], ...]:
    logged = response.get("choices")
    if not isinstance(logged, list):
        text = response.get("text")
        return ((text, None),) if isinstance(text, str) else ()
    return tuple(_choice(choice) for choice in logged if isinstance(choice, dict))


def _choice(choice: Mapping[str, Json]) -> tuple[Json, tuple[int, ...] | None]:
    message = choice.get("message")
    if not isinstance(message, dict):
        text = choice.get("text")
        message = text if isinstance(text, str) else None
    return message, token_ids(choice.get("token_ids"))
