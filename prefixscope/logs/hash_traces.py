"""Hash traces: one id per block of `unit` prompt tokens, no text (Mooncake, Bailian, WEKA)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from prefixscope.logs.fields import COUNT_END, first_present, text_of
from prefixscope.logs.requests import openai_requests
from prefixscope.logs.rows import Fault, LogFormat, Row
from prefixscope.logs.times import MILLISECOND, SECOND
from prefixscope.records import Json, LoggedRequest, Usage

__all__ = ["Bailian", "Mooncake", "Weka", "count_of", "hash_request", "unreadable_time"]


def count_of(value: Json) -> int | None:
    """A logged number of tokens, None where it is none that a request can have.

    >>> count_of(12.0), count_of(-1), count_of(True)
    (12, None, None)
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < COUNT_END:
        return None
    return value


def unreadable_time(line: int) -> Fault:
    """The fault of a hash row whose time is there and can't be read; the row stays."""
    return Fault(line, "unreadable_time", "warning", {"field": "timestamp"})


def hash_request(
    row: Row, ids: Json, tokens: Json, output: Json, unit: int, more: Callable[[], Mapping[str, Any]] | None = None
) -> LoggedRequest | None:
    """A hash row as a record; what is wrong is told to `row`. `more` gives the other fields of a row that is right.

    Either every token belongs to an id (the last one may be partial), or only full blocks have ids.
    """
    length = count_of(tokens)
    if length is None:
        row.skip("invalid_input_length")
        return None
    if length == 0:
        row.skip("no_prompt")
        return None
    if not isinstance(ids, list) or (ids and set(map(type, ids)) != {int}):
        row.skip("invalid_hash_ids")
        return None
    if len(ids) not in (-(-length // unit), length // unit):
        row.skip("hash_ids_do_not_match_length", input_length=length, hash_ids=len(ids), unit=unit)
        return None
    generated = count_of(output)
    return LoggedRequest(
        source=row.source,
        kind="hashes",
        body={"input_length": length, "output_length": generated, "hash_ids": ids},
        usage=None if generated is None else Usage(output_tokens=generated),
        tier=5,
        unit=unit,
        **({} if more is None else more()),
    )


class Mooncake(LogFormat):
    """Mooncake traces, and the rows aiperf adds to them: text, messages or a whole payload instead of ids."""

    name = "mooncake"
    family = "hashes"
    description = "hash trace {timestamp ms, input_length, output_length, hash_ids}, one id per 512 tokens"
    how = (
        "Published traces (kvcache-ai/Mooncake FAST25-release), aiperf, Dynamo tools. The number of tokens per id is "
        "not in the file: 512, unless the lengths of the first rows fit another power of two only."
    )
    signature = "`hash_ids` with `input_length`"
    has_text = False
    has_session = True
    tick = MILLISECOND
    hash_unit = 512
    has_columns = True

    def recognises(self, value: Mapping[str, Json]) -> bool:
        """`hash_ids` and `input_length`, or one of aiperf's other inputs with `output_length`.

        Dynamo's agentic traces (`play_id`) have another clock and scope: they are not Mooncake.
        """
        if "play_id" in value:
            return False
        if "hash_ids" in value and "input_length" in value:
            return True
        return "output_length" in value and any(name in value for name in ("text_input", "messages", "payload"))

    def times(self, value: Mapping[str, Json]) -> Iterator[tuple[str, Any]]:
        """`timestamp`."""
        if value.get("timestamp") is not None:
            yield "timestamp", value["timestamp"]

    def read(self, row: Row) -> tuple[LoggedRequest, ...]:
        """One record. A later turn that holds only what was added (a `delay`, no time) is not read."""
        value = row.value
        if "hash_ids" not in value:
            return self._read_text(row)
        if "delay" in value and "timestamp" not in value:
            return row.skip("delta_turn_unsupported")
        unit = row.unit or self.hash_unit or 512
        length, generated = value.get("input_length"), value.get("output_length")
        request = hash_request(row, value["hash_ids"], length, generated, unit, lambda: self._place(row))
        return () if request is None else (request,)

    def _place(self, row: Row) -> Mapping[str, Any]:
        value = row.value
        logged_time = value.get("timestamp")
        time_ns = row.clock.read(logged_time, row.raw)
        if time_ns is None and logged_time is not None:
            row.faults.append(unreadable_time(row.source.line))
        return {
            "time_ns": time_ns,
            "model": text_of(value.get("model")),
            "request_id": text_of(first_present(value, ("request_id", "id", "chat_id"))),
            "session_id": text_of(value.get("session_id")),
        }

    def _read_text(self, row: Row) -> tuple[LoggedRequest, ...]:
        value = row.value
        if isinstance(value.get("payload"), dict):
            body = value["payload"]
        elif "text_input" in value:
            body = {"prompt": value["text_input"]}
        else:
            outside = {"timestamp", "session_id", "delay", "output_length", "input_length", "extra"}
            body = {name: held for name, held in value.items() if name not in outside}
        generated = count_of(value.get("output_length"))
        requests = openai_requests(row, body, wrapped=True)
        if generated is None:
            return requests
        return tuple(replace(request, usage=request.usage or Usage(output_tokens=generated)) for request in requests)


class Bailian(Mooncake):
    """Alibaba Bailian traces (qwen-bailian-usagetraces): 16 tokens an id, seconds, conversations by parent."""

    name = "bailian"
    description = "hash trace {chat_id, parent_chat_id, timestamp s, input_length, turn, hash_ids}, 16 tokens an id"
    how = "Published traces (alibaba-edu/qwen-bailian-usagetraces-anon). Ids are salted per trace."
    signature = "`chat_id`, `parent_chat_id` and `hash_ids`"
    has_session = False
    verified = False
    tick = SECOND
    hash_unit = 16

    def recognises(self, value: Mapping[str, Json]) -> bool:
        """`parent_chat_id` tells it from Mooncake."""
        return "hash_ids" in value and "input_length" in value and "parent_chat_id" in value


class Weka(LogFormat):
    """WEKA agent sessions: one session a line, ids local to the session, sub-agents inside."""

    name = "weka"
    family = "sessions"
    description = "one coding-agent session a line with block hashes local to the session; times relative to its start"
    how = "Published traces (callanjfox/kv-cache-tester). One id per full block of `block_size` tokens."
    signature = "`requests` and `block_size`"
    has_text = False
    has_session = True

    def recognises(self, value: Mapping[str, Json]) -> bool:
        """A session: `block_size` and a list of `requests`."""
        return "block_size" in value and isinstance(value.get("requests"), list)

    def times(self, value: Mapping[str, Json]) -> Iterator[tuple[str, Any]]:
        """`t` of the session's requests: seconds since its start."""
        for request in value["requests"]:
            if isinstance(request, dict) and "t" in request:
                yield "t", request["t"]

    def read(self, row: Row) -> tuple[LoggedRequest, ...]:
        """One record per request, sub-agents' included, in logged order."""
        value = row.value
        unit, requests = count_of(value.get("block_size")), value.get("requests")
        if not unit or not isinstance(requests, list):
            return row.skip("not_a_session")
        session = text_of(value.get("id")) or f"line {row.source.line}"
        local = value.get("hash_id_scope", "local") == "local"
        # Ids of sessions are reused in other files and even lines: the place makes the scope unique.
        scope = f"{session} ({row.source.file}:{row.source.line})" if local else None
        records: list[LoggedRequest] = []
        for logged in _flattened(requests, row):
            request = hash_request(row, logged.get("hash_ids"), logged.get("in"), logged.get("out"), unit)
            if request is not None:
                records.append(self._placed(row, request, logged, session, scope))
        return tuple(records)

    def _placed(
        self, row: Row, request: LoggedRequest, logged: Mapping[str, Json], session: str, scope: str | None
    ) -> LoggedRequest:
        time_ns = row.clock.read(logged.get("t"), row.raw)

        def after(name: str) -> int | None:
            span = logged.get(name)
            if time_ns is None or isinstance(span, bool) or not isinstance(span, int | float) or not 0 <= span < 10**9:
                return None
            return time_ns + round(span * SECOND)

        return replace(
            request,
            time_ns=time_ns,
            first_token_ns=after("ttft"),
            finished_ns=after("api_time"),
            model=text_of(logged.get("model")),
            session_id=session,
            hash_scope=scope,
        )


def _flattened(requests: list[Json], row: Row) -> Iterator[Mapping[str, Json]]:
    for logged in requests:
        if not isinstance(logged, dict):
            row.skip("not_an_object")
        elif isinstance(logged.get("requests"), list):
            yield from _flattened(logged["requests"], row)
        elif logged.get("type") == "subagent" and "hash_ids" not in logged:
            row.warn("subagent_without_requests")
        else:
            yield logged
