"""Messages and recorded lines -> EventBatch, and back to a line.

Forms read: vLLM up to 0.23 (positional arrays), vLLM 0.25 and newer (maps with "type"), SGLang (either; its extra
fields flat or under "metadata"). Recordings are JSON lines, one batch each, with digests in hex.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeVar

import orjson

from prefixscope.engines.events.records import AllBlocksCleared, BlockRemoved, BlockStored, EventBatch, EventHash
from prefixscope.errors import FormatError, OptionError

__all__ = ["batch_from_frames", "batch_from_object", "batch_to_line", "batches_from_lines"]

Value = TypeVar("Value")

STORED_FIELDS = (
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
)
REMOVED_FIELDS = ("block_hashes", "medium", "group_idx")
"""Order of the positional form (vllm/distributed/kv_events.py up to 0.23; SGLang's ends after `medium`)."""


def _hash(value: object) -> EventHash:
    if isinstance(value, bytes):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return bytes.fromhex(value)
        except ValueError:
            pass
    raise ValueError(f"a block hash is a number or hex digits, not {value!r}")


def _hashes(value: object) -> tuple[EventHash, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise ValueError("block_hashes is not a list")
    return tuple(_hash(item) for item in value)


def _tokens(value: object) -> bytes:
    ids = value if value is not None else ()
    try:
        return struct.pack(f"<{len(ids)}I", *ids)  # type: ignore[arg-type, misc]
    except (struct.error, TypeError) as error:
        raise ValueError("token_ids is not a list of token ids below 2^32") from error


def _extra_keys(value: object) -> tuple[tuple[Any, ...] | None, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(keys is None or isinstance(keys, list) for keys in value):
        raise ValueError("extra_keys is not a list of lists")
    return tuple(None if keys is None else tuple(_frozen(key) for key in keys) for keys in value)


def _frozen(key: Any) -> Any:
    return tuple(_frozen(item) for item in key) if isinstance(key, list) else key


def _optional(fields: Mapping[str, Any], name: str, kind: type[Value]) -> Value | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}, not {'a number' if kind is int else 'a text'}")
    return value


def _lookahead(value: object) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, int) for item in value):
        raise ValueError("lookahead_token_ids is not a list of token ids")
    return tuple(value)


def _stored(fields: Mapping[str, Any]) -> BlockStored:
    nested = fields.get("metadata")
    if isinstance(nested, Mapping):
        fields = {**nested, **fields}
    block_size = fields.get("block_size")
    if not isinstance(block_size, int) or block_size < 0:
        raise ValueError(f"block_size is {block_size!r}, not a number of tokens")
    parent = fields.get("parent_block_hash")
    return BlockStored(
        hashes=_hashes(fields.get("block_hashes")),
        parent=None if parent is None else _hash(parent),
        tokens=_tokens(fields.get("token_ids")),
        block_size=block_size,
        adapter_id=_optional(fields, "lora_id", int),
        adapter_name=_optional(fields, "lora_name", str),
        medium=_optional(fields, "medium", str),
        extra_keys=_extra_keys(fields.get("extra_keys")),
        group=_optional(fields, "group_idx", int),
        salt=_optional(fields, "cache_salt", str),
        session_id=_optional(fields, "session_id", str),
        lookahead=_lookahead(fields.get("lookahead_token_ids")),
    )


def _named(event: object) -> tuple[str, Mapping[str, Any]]:
    """Type and fields of an event in either form."""
    if isinstance(event, Mapping):
        return str(event.get("type")), event
    if isinstance(event, Sequence) and not isinstance(event, str | bytes) and event and isinstance(event[0], str):
        kind, values = event[0], list(event[1:])
        fields: dict[str, Any] = {}
        if values and isinstance(values[-1], Mapping):
            fields["metadata"] = values.pop()
        names = STORED_FIELDS if kind == "BlockStored" else REMOVED_FIELDS
        fields.update(zip(names, values, strict=False))
        return kind, fields
    raise ValueError(f"an event is a map or a list that begins with its type, not {type(event).__name__}")


def _events(values: object) -> tuple[tuple[BlockStored | BlockRemoved | AllBlocksCleared, ...], tuple[str, ...]]:
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise ValueError("the batch has no list of events")
    events: list[BlockStored | BlockRemoved | AllBlocksCleared] = []
    unknown = []
    for value in values:
        kind, fields = _named(value)
        if kind == "BlockStored":
            events.append(_stored(fields))
        elif kind == "BlockRemoved":
            hashes = _hashes(fields.get("block_hashes"))
            events.append(BlockRemoved(hashes, _optional(fields, "medium", str), _optional(fields, "group_idx", int)))
        elif kind == "AllBlocksCleared":
            events.append(AllBlocksCleared())
        else:
            unknown.append(kind)
    return tuple(events), tuple(unknown)


def _nanoseconds(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    # through the shortest decimal: multiplying the float would invent digits below its precision
    try:
        return int(Decimal(repr(seconds)) * 1_000_000_000)
    except (ArithmeticError, ValueError):  # NaN and infinity, which JSON readers let through
        return None


def batch_from_object(value: object, *, sequence: int | None = None, topic: str = "") -> EventBatch:
    """One decoded message: [ts, events, rank] or a map with ts, events, data_parallel_rank (and seq, topic).

    Raises ValueError in one sentence.
    """
    if isinstance(value, Mapping):
        rank = value.get("data_parallel_rank", value.get("attn_dp_rank"))
        stated = _optional(value, "seq", int)
        sequence = sequence if stated is None else stated
        topic = str(value.get("topic") or topic)
        seconds, items = value.get("ts"), value.get("events")
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes) and len(value) >= 2:
        seconds, items = value[0], value[1]
        rank = value[2] if len(value) > 2 else None
    else:
        raise ValueError("an event batch is a map, or a list of time, events and rank")
    if sequence is not None and sequence < 0:
        raise ValueError(f"messages are numbered from 0, not {sequence}")
    if rank is not None and not isinstance(rank, int):
        raise ValueError(f"the rank is {rank!r}, not a number")
    events, unknown = _events(items)
    return EventBatch(events, sequence, _nanoseconds(seconds), rank, topic, unknown)


def batch_from_frames(frames: Sequence[bytes]) -> EventBatch:
    """One ZMQ message: topic, 8-byte big-endian sequence number, msgpack. Raises FormatError."""
    try:
        import msgpack
    except ImportError as error:
        raise OptionError("reading live events needs msgpack (pip install 'prefixscope[events]')") from error
    if len(frames) < 2 or len(frames[-2]) != 8:
        raise FormatError(f"a KV event message has topic, sequence number and payload, not {len(frames)} frames")
    sequence = int.from_bytes(frames[-2], "big", signed=True)
    topic = frames[-3].decode("utf-8", "replace") if len(frames) > 2 else ""
    try:
        decoded = msgpack.unpackb(frames[-1], strict_map_key=False)
        return batch_from_object(decoded, sequence=sequence, topic=topic)
    except ValueError as error:
        raise FormatError(f"KV event message {sequence} can't be read: {error}") from error


def batches_from_lines(lines: Iterable[bytes], file: str) -> Iterator[EventBatch]:
    """A recording, one batch per line; empty lines are skipped. Raises FormatError with file and line."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield batch_from_object(_json(line))
        except (ValueError, RecursionError) as error:
            raise FormatError(f"not a KV event batch: {error}", file=file, line=number) from error


def _json(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _event_map(event: BlockStored | BlockRemoved | AllBlocksCleared) -> dict[str, object]:
    if isinstance(event, AllBlocksCleared):
        return {"type": "AllBlocksCleared"}
    if isinstance(event, BlockRemoved):
        removed = {"block_hashes": event.hashes, "medium": event.medium, "group_idx": event.group}
        return {"type": "BlockRemoved", **{name: _plain(value) for name, value in removed.items()}}
    fields: dict[str, object] = {
        "block_hashes": event.hashes,
        "parent_block_hash": event.parent,
        "token_ids": struct.unpack(f"<{len(event.tokens) // 4}I", event.tokens),
        "block_size": event.block_size,
        "lora_id": event.adapter_id,
        "lora_name": event.adapter_name,
        "medium": event.medium,
        "extra_keys": event.extra_keys,
        "group_idx": event.group,
        "session_id": event.session_id,
    }
    if event.salt is not None:
        fields["cache_salt"] = event.salt
    if event.lookahead:
        fields["lookahead_token_ids"] = event.lookahead
    return {"type": "BlockStored", **{name: _plain(value) for name, value in fields.items()}}


def batch_to_line(batch: EventBatch) -> bytes:
    """One line of a recording, newline included; `batches_from_lines` gives the same batch back."""
    seconds = None if batch.time_ns is None else batch.time_ns / 1_000_000_000
    value = {
        "topic": batch.topic,
        "seq": batch.sequence,
        "ts": seconds,
        "data_parallel_rank": batch.rank,
        "events": [_event_map(event) for event in batch.events],
    }
    return orjson.dumps(value) + b"\n"
