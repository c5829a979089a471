"""From a request body and the fields around it to LoggedRequests: which prompts, and which rows are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prefixscope.logs import fields
from prefixscope.logs.fields import COUNT_END, are_token_ids, first_present, named_field, text_of, token_ids
from prefixscope.logs.responses import Answer, read_answer
from prefixscope.logs.rows import Row
from prefixscope.logs.times import field_unit
from prefixscope.logs.usage import read_usage
from prefixscope.records import Json, LoggedRequest, RequestKind, Usage

__all__ = ["arrival_times", "openai_requests"]

PROMPT_FIELDS = ("messages", "prompt", "prompt_token_ids")
OTHER_PROMPT_FIELDS = ("input", "contents", "text", "input_ids")  # Responses, Gemini, SGLang's own API
_REDACTED = "redacted-by-litellm"
_HEALTH_PATHS = ("/health", "/ping", "/healthz", "/livez", "/readyz")
_OTHER_APIS = ("/responses", "/messages", ":generatecontent", "/api/chat", "/api/generate")


@dataclass(frozen=True, slots=True)
class _Variant:
    """One prompt of a call: its kind, and the body that holds it."""

    kind: RequestKind
    body: Mapping[str, Json]
    tier: int


def arrival_times(value: Mapping[str, Json]) -> Iterator[tuple[str, Any]]:
    """The arrival time of a row with the field's name, if it has one."""
    found = named_field(value, fields.TIME)
    if found is not None:
        yield found


def openai_requests(row: Row, body: Mapping[str, Json], *, wrapped: bool) -> tuple[LoggedRequest, ...]:
    """The requests of one call whose body is that of an OpenAI completion or chat completion.

    `wrapped`: the body is one field of the row (an envelope); otherwise the row's own fields stand beside it.
    """
    outside = row.value
    answer = read_answer(first_present(outside, ("response", "response_body", "res")), may_be_json=wrapped)
    reason = _excluded_by_address(outside, body)
    if reason is not None:
        return row.skip(reason)
    call = _call(row, outside, body, answer)
    if _failed(call, first_present(outside, ("usage",)) or answer.usage):
        return row.skip("failed_before_prefill", status=call["status"])
    try:
        variants = list(_variants(body))
    except _BadPromptError as bad:
        return row.skip(bad.reason)
    if answer.unread is not None:
        row.warn(answer.unread)
    return _records(row, call, variants, answer)


class _BadPromptError(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def _excluded_by_address(outside: Mapping[str, Json], body: Mapping[str, Json]) -> str | None:
    request_id = outside.get("request_id", outside.get("id", body.get("rid")))
    if isinstance(request_id, str) and request_id.startswith("HEALTH_CHECK"):
        return "health_check"
    address = first_present(outside, fields.PATH)
    if isinstance(address, str):
        path = address.split("?", 1)[0].rstrip("/").lower()
        if path.endswith(_HEALTH_PATHS):
            return "health_check"
        if path.endswith(_OTHER_APIS):
            return "unsupported_api"
        if path.rsplit("/", 1)[-1] in _NO_GENERATION:
            return "not_a_generation_call"
    if not any(name in body for name in PROMPT_FIELDS) and any(name in body for name in OTHER_PROMPT_FIELDS):
        return "unsupported_api"
    if "system" in body and "messages" in body:  # Anthropic: the system prompt lies outside the messages
        return "unsupported_api"
    return None


_NO_GENERATION = frozenset({
    "embeddings", "embed", "rerank", "score", "pooling", "classify", "count_tokens", "tokenize", "detokenize", "models",
    "metrics", "transcriptions", "translations", "moderations", "speech", "version",
})  # fmt: skip


_Call = dict[str, Any]
"""Fields of LoggedRequest that are the same for every prompt of a call."""


def _call(row: Row, outside: Mapping[str, Json], body: Mapping[str, Json], answer: Answer) -> _Call:
    """Everything but the prompt."""
    time_ns = _time(row, outside, fields.TIME)
    first_token = _time(row, outside, fields.FIRST_TOKEN)
    finished = _time(row, outside, fields.FINISHED)
    metadata = body.get("metadata")
    inner = metadata if isinstance(metadata, dict) else {}
    samples = body.get("n")
    logged_id = first_present(outside, fields.REQUEST_ID)
    status = fields.status_of(first_present(outside, fields.STATUS))
    logged_ids = first_present(outside, fields.OUTPUT_IDS)
    output_ids = token_ids(logged_ids)
    if logged_ids is not None and output_ids is None:
        row.warn("invalid_output_token_ids")
    return {
        "source": row.source,
        "request_id": answer.request_id if logged_id is None else text_of(logged_id),
        "time_ns": time_ns,
        "first_token_ns": _after(time_ns, outside, fields.FIRST_TOKEN_AFTER) if first_token is None else first_token,
        "finished_ns": _after(time_ns, outside, fields.FINISHED_AFTER) if finished is None else finished,
        "model": text_of(first_present(body, ("model",)) or outside.get("model")),
        "adapter": fields.adapter_of(first_present(outside, fields.ADAPTER)),
        "output_token_ids": output_ids,
        "usage": _usage(row, outside, answer),
        "session_id": _session(outside, body, inner),
        "tenant": text_of(first_present(outside, fields.TENANT)) or text_of(body.get("user")),
        "replica": text_of(first_present(outside, fields.REPLICA)),
        "status": answer.status if status is None else status,
        "n": samples if isinstance(samples, int) and not isinstance(samples, bool) and 0 < samples < COUNT_END else 1,
    }


def _session(outside: Mapping[str, Json], body: Mapping[str, Json], metadata: Mapping[str, Json]) -> str | None:
    for place in (outside, body, metadata):
        session = text_of(first_present(place, fields.SESSION))
        if session:
            return session
    return None


def _time(row: Row, outside: Mapping[str, Json], names: tuple[str, ...]) -> int | None:
    found = named_field(outside, names)
    if found is None:
        return None
    time_ns = row.clock.read(found[1], row.raw, field_unit(found[0]))
    if time_ns is None:
        row.warn("unreadable_time", field=found[0])
    return time_ns


def _after(start: int | None, outside: Mapping[str, Json], names: tuple[tuple[str, int], ...]) -> int | None:
    """A time logged as a span after the arrival."""
    if start is None:
        return None
    for name, unit in names:
        span = outside.get(name)
        if isinstance(span, int | float) and not isinstance(span, bool) and 0 <= span < 10**12:
            finished = start + round(span * unit)
            return finished if finished < 2**63 else None
    return None


def _usage(row: Row, outside: Mapping[str, Json], answer: Answer) -> Usage | None:
    usage, reason = read_usage(first_present(outside, ("usage",)) or answer.usage)
    if reason is not None:
        row.warn(reason)
    output = first_present(outside, fields.OUTPUT_TOKENS)
    if isinstance(output, int) and not isinstance(output, bool) and 0 <= output < COUNT_END:
        if usage is None:
            return Usage(output_tokens=output)
        if usage.output_tokens is None:
            return replace(usage, output_tokens=output)
    elif output is not None:
        row.warn("invalid_output_tokens")
    return usage


def _failed(call: _Call, logged_usage: Json) -> bool:
    """Whether the engine never saw the prompt: an error status and no sign of work done."""
    if call["status"] is None or call["status"] < 400:
        return False
    worked = isinstance(logged_usage, dict) and any(
        isinstance(count, int) and not isinstance(count, bool) and count > 0 for count in logged_usage.values()
    )
    produced = call["usage"] is not None and bool(call["usage"].output_tokens)
    return not (worked or produced or call["output_token_ids"] or call["first_token_ns"] is not None)


def _variants(body: Mapping[str, Json]) -> Iterator[_Variant]:
    """Every prompt of a call. Token ids come before messages: they are what the engine saw."""
    if body.get("prompt_token_ids"):
        yield from _from_list("prompt_token_ids", body)
        return
    messages = body.get("messages")
    if messages is not None and not isinstance(messages, list):
        raise _BadPromptError("invalid_messages")
    if messages:
        if not all(isinstance(message, dict) for message in messages):
            raise _BadPromptError("invalid_messages")
        if any(message.get("content") == _REDACTED for message in messages):
            raise _BadPromptError("redacted_prompt")
        yield _Variant("chat", body, 3)
        return
    embedded = body.get("prompt_embeds")
    for payload in embedded if isinstance(embedded, list) else [embedded]:
        if isinstance(payload, str) and payload:
            yield _Variant("tokens", {**body, "prompt_embeds": payload}, 3)
    prompt = body.get("prompt")
    if prompt is None or prompt == "" or prompt == []:
        if not embedded:
            raise _BadPromptError("no_prompt")
        return
    if isinstance(prompt, str):
        if prompt == _REDACTED:
            raise _BadPromptError("redacted_prompt")
        yield _Variant("text", body, 3)
        return
    yield from _from_list("prompt", body)


def _from_list(name: str, body: Mapping[str, Json]) -> Iterator[_Variant]:
    """[int], [[int]], [str], or a mixture of the last two, as the completions API takes them."""
    prompts = body[name]
    if not isinstance(prompts, list):
        raise _BadPromptError("invalid_prompt")
    if isinstance(prompts[0], int):
        prompts = [prompts]
    for prompt in prompts:
        if isinstance(prompt, str):
            yield _Variant("text", _with_prompt(body, name, "prompt", prompt), 3)
        elif are_token_ids(prompt):
            yield _Variant("tokens", _with_prompt(body, name, "prompt_token_ids", prompt), 1)
        else:
            raise _BadPromptError("invalid_token_ids" if isinstance(prompt, list) else "invalid_prompt")


def _with_prompt(body: Mapping[str, Json], old: str, new: str, prompt: Json) -> Mapping[str, Json]:
    if old == new and body[old] is prompt:
        return body
    return {(new if key == old else key): (prompt if key == old else held) for key, held in body.items()}


def _records(row: Row, call: _Call, variants: list[_Variant], answer: Answer) -> tuple[LoggedRequest, ...]:
    several = len(variants) > 1
    usage, each, own_ids = call["usage"], call["n"], call["output_token_ids"]
    if several and usage is not None:
        row.warn("usage_covers_several_prompts", prompts=len(variants))
        usage = None
    choices = answer.choices if not several or len(answer.choices) >= len(variants) * each else ()
    records: list[LoggedRequest] = []
    for place, variant in enumerate(variants):
        name = "prompt_token_ids" if variant.kind == "tokens" else "prompt"
        if variant.kind != "chat" and not (variant.body.get(name) or variant.body.get("prompt_embeds")):
            row.skip("no_prompt")
            continue
        choice = place * each
        response, output_ids = choices[choice] if choice < len(choices) else (None, None)
        if own_ids is not None and not several:
            output_ids = own_ids
        own = {**call, "usage": usage, "output_token_ids": output_ids}
        records.append(
            LoggedRequest(
                **own, kind=variant.kind, body=variant.body, tier=variant.tier, response=response,
                prompts_in_call=len(variants),
            )
        )  # fmt: skip
    return tuple(records)
