"""Every published form of a KV event is read into the same records, and bad ones are refused in one sentence."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import msgpack
import pytest

from prefixscope.engines.events import (
    AllBlocksCleared,
    Alternatives,
    BlockRemoved,
    BlockStored,
    EventBatch,
    HashSettings,
    batch_from_frames,
    batch_from_object,
    batch_to_line,
    batches_from_lines,
    cache_history,
    rederive,
)
from prefixscope.errors import FormatError
from tests.shared import SHARED, needs_shared


def ids(*tokens: int) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


STORED = BlockStored(
    hashes=(11, 12),
    parent=10,
    tokens=ids(1, 2, 3, 4),
    block_size=2,
    adapter_id=1,
    adapter_name="la",
    medium="GPU",
    extra_keys=(("la", ("img", -1)), None),
    group=0,
)


def frames(payload: object, sequence: int = 5, topic: bytes = b"kv") -> list[bytes]:
    return [topic, sequence.to_bytes(8, "big"), msgpack.packb(payload)]


def test_array_form_of_vllm_up_to_0_23() -> None:
    keys = [["la", ["img", -1]], None]
    stored = ["BlockStored", [11, 12], 10, [1, 2, 3, 4], 2, 1, "GPU", "la", keys, 0]
    removed = ["BlockRemoved", [11], "GPU"]
    batch = batch_from_frames(frames([1.5, [stored, removed, ["AllBlocksCleared"]], 3]))
    events = (STORED, BlockRemoved((11,), "GPU"), AllBlocksCleared())
    assert batch == EventBatch(events, sequence=5, time_ns=1_500_000_000, rank=3, topic="kv")


def test_short_array_form_of_vllm_0_11() -> None:
    batch = batch_from_frames(frames([1.5, [["BlockStored", [11], None, [1, 2], 2, None]]]))
    assert batch.events == (BlockStored((11,), None, ids(1, 2), 2),)
    assert batch.rank is None


def test_map_form_of_vllm_from_0_25_in_a_list_or_a_map() -> None:
    stored = {
        "type": "BlockStored",
        "block_hashes": [11, 12],
        "parent_block_hash": 10,
        "token_ids": [1, 2, 3, 4],
        "block_size": 2,
        "lora_id": 1,
        "medium": "GPU",
        "lora_name": "la",
        "extra_keys": [["la", ["img", -1]], None],
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
        "locality": "LOCAL",
    }
    for payload in ([1.5, [stored], 0], {"ts": 1.5, "events": [stored], "data_parallel_rank": 0}):
        batch = batch_from_frames(frames(payload))
        assert batch.events == (STORED,)
        assert (batch.sequence, batch.time_ns, batch.rank) == (5, 1_500_000_000, 0)


def test_look_ahead_tokens_of_vllm_0_33() -> None:
    stored = {"type": "BlockStored", "block_hashes": [1], "token_ids": [1, 2], "block_size": 2}
    event = batch_from_object([1.0, [{**stored, "lookahead_token_ids": [3]}]]).events[0]
    assert isinstance(event, BlockStored)
    assert event.lookahead == (3,)


def test_sglang_salt_flat_or_nested() -> None:
    flat = {"type": "BlockStored", "block_hashes": [-7], "token_ids": [1, 2], "block_size": 2, "medium": "CPU_PINNED"}
    nested = {**flat, "metadata": {"cache_salt": "s"}}
    listed = ["BlockStored", [-7], None, [1, 2], 2, None, "CPU_PINNED", {"cache_salt": "s"}]
    known = BlockStored((-7,), None, ids(1, 2), 2, medium="CPU_PINNED", salt="s")
    for form in ({**flat, "cache_salt": "s"}, nested, listed):
        assert batch_from_object([1.0, [form], 0]).events == (known,)


def test_whole_digests_are_bytes_in_messages_and_hex_in_recordings() -> None:
    digest = bytes(range(32))
    live = batch_from_frames(frames([2.25, [["BlockRemoved", [digest], None]], 0]))
    assert live.events == (BlockRemoved((digest,)),)
    assert list(batches_from_lines([batch_to_line(live)], "x")) == [live]


@needs_shared
def test_the_decoded_sample() -> None:
    lines = (SHARED / "formats" / "vllm_kv_events_decoded.jsonl").read_bytes().splitlines()
    first, second = batches_from_lines(lines, "sample")
    assert (first.sequence, first.time_ns, first.rank, first.topic) == (0, 1794992400_120000000, 0, "kv-events")
    assert [type(event).__name__ for event in second.events] == ["BlockStored", "BlockRemoved", "AllBlocksCleared"]
    stored = first.events[0]
    assert isinstance(stored, BlockStored)
    assert stored.hashes == (b"\xa1" * 32, b"\xb2" * 32)
    assert stored.tokens == ids(*range(1000, 1032))
    adapted = second.events[0]
    assert isinstance(adapted, BlockStored)
    assert (adapted.hashes, adapted.parent, adapted.adapter_name) == ((1234567890123456789,), 987654321, "billing-v3")


def test_unknown_event_types_are_named_not_dropped() -> None:
    batch = batch_from_object([1.0, [{"type": "BlockFrozen"}, ["AllBlocksCleared"]]])
    assert batch.events == (AllBlocksCleared(),)
    assert batch.unknown == ("BlockFrozen",)


STORED_WITH = b'{"events": [{"type": "BlockStored", "block_hashes": [1], "block_size": 1, %b}]}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not a KV event batch"),
        (b"17", "a map, or a list"),
        (b'{"ts": 1}', "no list of events"),
        (b'{"ts": 1, "events": [5]}', "begins with its type"),
        (b'{"events": [{"type": "BlockStored", "block_hashes": [true], "block_size": 1}]}', "a block hash is"),
        (b'{"events": [{"type": "BlockStored", "block_hashes": ["zz"], "block_size": 1}]}', "a block hash is"),
        (b'{"events": [{"type": "BlockStored", "block_hashes": 7, "block_size": 1}]}', "not a list"),
        (b'{"events": [{"type": "BlockStored", "block_hashes": [1]}]}', "block_size is None"),
        (STORED_WITH % b'"token_ids": [-1]', "token_ids"),
        (STORED_WITH % b'"token_ids": 3', "token_ids"),
        (STORED_WITH % b'"extra_keys": [3]', "extra_keys"),
        (STORED_WITH % b'"lora_name": 3', "lora_name is 3"),
        (STORED_WITH % b'"lookahead_token_ids": 3', "lookahead"),
        (b'{"events": [], "seq": -4}', "numbered from 0"),
        (b'{"events": [], "data_parallel_rank": "x"}', "rank"),
    ],
)
def test_bad_lines_name_file_and_line(line: bytes, message: str) -> None:
    good = json.dumps({"ts": 1, "events": []}).encode()
    with pytest.raises(FormatError, match=f"^log:3: .*{message}"):
        list(batches_from_lines([good, b"\n", line], "log"))


@pytest.mark.parametrize(
    "message", [[], [b"x"], [b"", b"123", b"x"], *([b"", bytes(8), payload] for payload in (b"\xc1", b"\x01", b""))]
)
def test_bad_messages_are_refused(message: list[bytes]) -> None:
    with pytest.raises(FormatError):
        batch_from_frames(message)


def test_no_mutation_of_a_recording_gets_past_the_reader_as_anything_but_a_sentence() -> None:
    draw = random.Random(5)
    events = (STORED, BlockRemoved((11,), "GPU"), AllBlocksCleared())
    good = batch_to_line(EventBatch(events, 5, 1_500_000_000, 3, "kv"))
    values = [None, True, -1, 1 << 70, 1.5, float("nan"), "x", [], [[]], {}, {"a": [1]}, [None, 3]]
    refused = 0
    for _ in range(2000):
        value = json.loads(good)
        holder: Any = value
        while True:
            key = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
            if isinstance(holder[key], dict | list) and holder[key] and draw.random() < 0.7:
                holder = holder[key]
                continue
            holder[key] = draw.choice(values)
            break
        try:
            (batch,) = batches_from_lines([json.dumps(value).encode()], "log")
        except FormatError:
            refused += 1
        else:
            cache_history([batch])
            rederive([batch], HashSettings(seed="0"), Alternatives(seeds=()))
    assert 500 < refused < 1900
