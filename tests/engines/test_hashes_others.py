"""Hashes of SGLang, Dynamo, TensorRT-LLM and LMCache, our own keys, and what holds for every chain."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import xxhash

from prefixscope.engines.hashes import ALGORITHMS, ChainOptions, KeyIdentity, MediaSpan, assumptions, block_chain
from prefixscope.engines.hashes.vllm import event_integer
from prefixscope.errors import OptionError
from prefixscope.records import Identity, LoggedRequest, Source
from tests.engines.chains import PICTURED, SALTED, TWO_BLOCKS, hexes, ids, integers
from tests.shared import SHARED, needs_shared

REPOSITORY = Path(__file__).resolve().parents[2]


@needs_shared
def test_sglang_vectors() -> None:
    text = (SHARED / "vectors" / "sglang_page_hashes.txt").read_text()
    known = re.findall(r"'([0-9a-f]{64})'", text)
    eight = ids(*range(1, 9))
    one_to_four = ids(1, 2, 3, 4)
    computed = [
        *hexes("sglang-events", eight, 4),
        *hexes("sglang-storage", ids(1, 2, 3), 1),
        *hexes("sglang-events", ids(1, 2, 3, 4, 5), 4, eagle=True),
        *hexes("sglang-storage", one_to_four, 4, SALTED),
        *hexes("sglang-storage", one_to_four, 4, KeyIdentity(extra_key="ek1")),
        *hexes("sglang-events", one_to_four, 4, SALTED),
    ]
    assert computed == known
    assert integers("sglang-events", eight, 4) == [-3488128144981237669, 5674439469042975057]
    assert integers("sglang-events", one_to_four, 4, SALTED) == [3718046898735569995]


def test_sglang_extra_key_does_not_enter_its_events() -> None:
    named = KeyIdentity(extra_key="ek1", adapter_name="a")
    assert hexes("sglang-events", TWO_BLOCKS, 16, named) == hexes("sglang-events", TWO_BLOCKS, 16)


def test_dynamo_vectors() -> None:
    four = ids(1, 2, 3, 4)
    assert integers("dynamo-local", ids(*range(1, 9)), 4) == [14643705804678351452, 16777012769546811212]
    assert integers("dynamo-sequence", ids(*range(1, 13)), 4) == [
        14643705804678351452,
        4945711292740353085,
        12583592247330656132,
    ]
    assert integers("dynamo-local", TWO_BLOCKS, 16) == [15310707395893867146, 15292316782987903195]
    assert integers("dynamo-local", ids(*range(64)), 64) == [3480597578098033343]
    assert integers("dynamo-local", ids(*range(100, 196)), 32) == [
        10204902774064577522,
        7680375310753687118,
        10193090015057440293,
    ]
    for identity, known in (
        (KeyIdentity(adapter_name="ad1"), 4033386159037673140),
        (KeyIdentity(media=(MediaSpan("deadbeef", 0, 2),)), 15207512089340001072),
        (KeyIdentity(extra_key="tenant-a"), 5738685477468498325),
        (KeyIdentity(extra_key="tenant-a", adapter_name="ad1"), 12185791866570771175),
    ):
        assert integers("dynamo-local", four, 4, identity) == [known]
    assert integers("dynamo-local", ids(1, 2, 3, 4, 5), 4, eagle=True) == [1914873892905420881]
    assert integers("dynamo-local", four, 4, eagle=True) == []


def test_tensorrt_llm_vectors() -> None:
    assert integers("tensorrt-llm-v1", ids(*range(1, 9)), 4) == [924206229973855, 2728178455351807326]
    assert integers("tensorrt-llm-v1", ids(*range(32)), 32) == [17461474797406555673]
    four = ids(1, 2, 3, 4)
    assert integers("tensorrt-llm-v1", four, 4, KeyIdentity(salt_id=7)) == [8576965929102610221]
    assert integers("tensorrt-llm-v1", four, 4, KeyIdentity(adapter_id=3)) == [2244231307907415583]
    assert hexes("tensorrt-llm-v2", ids(*range(1, 9)), 4) == [
        "e432228522a304ab556d66e6e40979ad05575f28b19b554264dd3c6277aaf073",
        "756b1d258c63ccc0cbd6284ab33b043c81175086163f9d2821f5764079efb75c",
    ]
    assert ALGORITHMS["tensorrt-llm-v2"].verified == "unverified"
    assert "unverified" in assumptions("tensorrt-llm-v1", ChainOptions())[0]
    with pytest.raises(OptionError, match="number"):
        hexes("tensorrt-llm-v1", four, 4, SALTED)


def test_tensorrt_llm_v2_root_of_a_salt() -> None:
    from prefixscope.engines.hashes.tensorrt_llm import v2_root

    assert v2_root(None, None).hex().startswith("6e340b9c") and v2_root(None, None).hex().endswith("fa01d")
    salted = v2_root(None, 7).hex()
    assert salted.startswith("95d6f8b5") and salted.endswith("1695a")


LMCACHE_KNOWN = {
    "sha256": [12177535682386221050, 2870859929330401611],
    "sha256_cbor": [13306273019646830501, 14713433792384882213],
    "xxhash": [4281464000292150918, 12203513258627841392],
    "xxhash_cbor": [13150061030102754071, 270623071129447869],
}
"""What LMCache 0.5.6's own ChunkedTokenDatabase gave for tokens 0..599 beside vLLM 0.32 with PYTHONHASHSEED=0."""


@pytest.mark.parametrize("function", list(LMCACHE_KNOWN))
def test_lmcache_values_of_its_own_functions(function: str) -> None:
    chain = integers(f"lmcache-{function}", ids(*range(600)), 256, SALTED, seed="0")
    assert chain == LMCACHE_KNOWN[function], "and the salt is not hashed"


def test_lmcache_multiprocess_values_of_its_own_function() -> None:
    pytest.importorskip("blake3")
    assert hexes("lmcache-blake3", ids(*range(600)), 256) == [
        "084547b6c40ed5b05ba8cd0305db5bf74d5617673948d9ed193ab7d6cbc484d4",
        "e5ffee45c2b9db326814c9692dc594369887ba3b0df5761817820b60f864c8e0",
    ]


def test_own_keys_are_fixed_forever() -> None:
    tokens = ids(*range(1, 41))
    assert hexes("prefixscope", tokens, 16) == OWN_KEYS
    assert hexes("prefixscope", tokens[: 4 * 31], 16) == OWN_KEYS[:1]


OWN_KEYS = ["1999f65d791d5373812b22a4001fa5c3", "c24baed86d73e46fb36b69784de6bcd2"]


def test_own_keys_separate_what_engines_separate() -> None:
    tokens = ids(*range(16))
    identities = [
        KeyIdentity(),
        SALTED,
        KeyIdentity(extra_key="tenant-a"),
        KeyIdentity(adapter_name="tenant-a"),
        KeyIdentity(adapter_id=1),
        KeyIdentity(salt_id=1),
        PICTURED,
        KeyIdentity(media=(MediaSpan("imghash", 5, 5),)),
        KeyIdentity.of(logged(), Identity("qwen")),
        KeyIdentity.of(logged(), Identity("qwen", adapter="a")),
        KeyIdentity.of(logged(cache_salt="a"), Identity("qwen", salt="keyed")),
        KeyIdentity.of(logged(extra_key="a"), Identity("qwen", extra=("extra_key=keyed",))),
    ]
    keys = {hexes("prefixscope", tokens, 16, identity)[0] for identity in identities}
    keys |= {hexes("prefixscope", tokens, 8)[0], hexes("prefixscope", tokens, 8)[1]}
    assert len(keys) == len(identities) + 2


def logged(**body: str) -> LoggedRequest:
    return LoggedRequest(Source("log", 1), "tokens", body)


def test_own_keys_ignore_paths_and_the_key_of_the_run() -> None:
    request = logged(cache_salt="s", extra_key="e")
    one_run = KeyIdentity.of(request, Identity("qwen", adapter="a", salt="keyed-1", extra=("extra_key=keyed-1",)))
    other_run = KeyIdentity.of(
        request,
        Identity("qwen", adapter="a", salt="keyed-2", extra=("extra_key=keyed-2",)),
        adapter_paths={"a": "/somewhere"},
    )
    assert hexes("prefixscope", TWO_BLOCKS, 16, one_run) == hexes("prefixscope", TWO_BLOCKS, 16, other_run)


def test_own_keys_follow_their_definition() -> None:
    identity = KeyIdentity(namespace=("qwen", "ä"), media=(MediaSpan("img", 3, 2),))
    parent = xxhash.xxh3_128_digest(
        b"prefixscope/1\0" + struct.pack("<I", 4) + b"\x04\0\0\0qwen" + b"\x02\0\0\0" + "ä".encode()
    )
    known = []
    for start, place in ((0, 3), (4, -1)):
        media = b"\x03\0\0\0img" + struct.pack("<q", place)
        parent = xxhash.xxh3_128_digest(parent + ids(*range(start, start + 4)) + media)
        known.append(parent.hex())
    assert hexes("prefixscope", ids(*range(9)), 4, identity) == known


PROGRAM = """
import struct, sys
from prefixscope.engines.hashes import ALGORITHMS, ChainOptions, KeyIdentity, block_chain
ids = list(map(int, sys.argv[1].split(",")))
tokens = struct.pack(f"<{len(ids)}I", *ids)
identity = KeyIdentity(namespace=("base", "", "adapter=None", "salt=x"))
for name in ALGORITHMS:
    if name != "lmcache-blake3":
        print(name, block_chain(name, tokens, 16, identity, ChainOptions(seed="7")).hex)
"""


@needs_shared
def test_case_55_same_hash_in_every_process() -> None:
    case = json.loads((SHARED / "cases" / "55-same-hash-in-every-process.json").read_text())
    tokens = case["requests"][0]["prompt_token_ids"]
    outputs = set()
    for seed in ("0", "1", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)}
        command = [sys.executable, "-c", PROGRAM, ",".join(map(str, tokens))]
        outputs.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == len(ALGORITHMS) - 1


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_a_chain_extends_its_prefix(name: str) -> None:
    if name == "lmcache-blake3":
        pytest.importorskip("blake3")
    longer = hexes(name, ids(*range(7, 107)), 16, seed="0")
    shorter = hexes(name, ids(*range(7, 60)), 16, seed="0")
    assert len(longer) == 6
    assert longer[:3] == shorter
    changed = hexes(name, ids(*range(7, 39), 999, *range(40, 107)), 16, seed="0")
    assert changed[:2] == longer[:2]
    assert changed[2] != longer[2]
    if name != "dynamo-local":
        assert not set(changed[2:]) & set(longer), "a chained hash differs in every later block"


def test_bad_questions_get_one_sentence() -> None:
    with pytest.raises(OptionError, match="known are vllm-sha256"):
        block_chain("md5", TWO_BLOCKS, 16)
    with pytest.raises(OptionError, match="at least one token"):
        block_chain("prefixscope", TWO_BLOCKS, 0)
    with pytest.raises(OptionError, match="64-bit"):
        block_chain("dynamo-local", TWO_BLOCKS, 16, KeyIdentity(media=(MediaSpan("not hex", 0, 1),)))


def test_event_integer_is_the_low_half() -> None:
    assert event_integer(bytes(range(32))) == int.from_bytes(bytes(range(24, 32)), "big")
