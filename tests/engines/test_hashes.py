"""Known values of every hash chain, and what a chain must refuse."""

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
from prefixscope.engines.hashes.vllm import HASH_FUNCTIONS, block_hash, event_integer, key_style, root_hash
from prefixscope.errors import OptionError
from prefixscope.records import Identity, LoggedRequest, Source
from tests.shared import SHARED, needs_shared

REPOSITORY = Path(__file__).resolve().parents[2]


def ids(*tokens: int) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


def hexes(name: str, tokens: bytes, size: int, identity: KeyIdentity | None = None, **options: object) -> list[str]:
    return block_chain(name, tokens, size, identity, ChainOptions(**options)).hex  # type: ignore[arg-type]


def integers(name: str, tokens: bytes, size: int, identity: KeyIdentity | None = None, **options: object) -> list[int]:
    chain = block_chain(name, tokens, size, identity, ChainOptions(**options))  # type: ignore[arg-type]
    assert chain.integers is not None
    return list(chain.integers)


TWO_BLOCKS = ids(*range(32))
SALTED = KeyIdentity(salt="tenant-a")
ADAPTED = KeyIdentity(adapter_name="ad1", adapter_path="/p/ad1", adapter_id=1)
PICTURED = KeyIdentity(media=(MediaSpan("imghash", 4, 5),))


def vllm_vectors() -> list[tuple[str, str | None, dict[str, str]]]:
    if not SHARED.is_dir():
        return []
    sections: list[tuple[str, str | None, dict[str, str]]] = []
    for line in (SHARED / "vectors" / "vllm_block_hashes.txt").read_text().splitlines():
        head = re.match(r"(\w+) seed= (\w+)", line)
        if head is not None:
            sections.append((head[1], None if head[2] == "None" else head[2], {}))
            continue
        value = re.match(r"\s+(.+?) ([0-9a-f]{32,64})(?: int64 (\d+))?$", line)
        if value is not None:
            sections[-1][2][value[1]] = value[2]
            if value[3]:
                sections[-1][2]["int64"] = value[3]
    return sections


@needs_shared
@pytest.mark.parametrize(("function", "seed", "known"), vllm_vectors())
def test_vllm_vectors_of_its_own_functions(function: str, seed: str | None, known: dict[str, str]) -> None:
    name = f"vllm-{function}"
    assert root_hash(function, ChainOptions(seed=seed)).hex() == known["NONE"]
    chain = hexes(name, TWO_BLOCKS, 16, seed=seed)
    assert chain == [known["b0[0..15]"], known["b1[16..31]"]]
    assert integers(name, TWO_BLOCKS, 16, seed=seed)[0] == int(known["int64"])
    first = ids(*range(16))
    assert hexes(name, first, 16, SALTED, seed=seed) == [known["salt tenant-a"]]
    assert hexes(name, first, 16, ADAPTED, seed=seed) == [known["lora"]]
    assert hexes(name, first, 16, PICTURED, seed=seed) == [known["mm"]]
    assert hexes(name, ids(1, 2, 3, 4), 4, seed=seed) == [known["[1,2,3,4]"]]


@needs_shared
def test_all_vector_sections_are_read() -> None:
    assert len(vllm_vectors()) == 10
    assert all(len(known) == 8 for _, _, known in vllm_vectors())


def test_vllm_bare_keys_of_older_versions() -> None:
    first = ids(*range(16))
    assert hexes("vllm-sha256", first, 16, SALTED, version="0.30", seed="0") == [
        "046116fc4175dd01b2fff9db2de10380bee626af1ec9bbf18827ac6dad30dd86"
    ]
    assert hexes("vllm-sha256", first, 16, ADAPTED, version="0.17", seed="0") == [
        "6804a4da584f1cfc536589c1ee004f7dc51676d471c228bd0547e53ca07c2ac5"
    ]
    assert hexes("vllm-sha256_cbor", first, 16, SALTED, version="0.23.0.post1", seed="0") == [
        "a31aa6d7bd52d1db44c2e2c50ce6687164f2a198c45e6f9c6f5025e7d8dff1f7"
    ]


def test_vllm_look_ahead_hash() -> None:
    known = "c693822db2654e476b8e689d24fa440ee866d211499a72b6549399eabf168912"
    assert hexes("vllm-sha256", ids(*range(17)), 16, lookahead=1) == [known]
    assert hexes("vllm-sha256", ids(*range(16)), 16, lookahead=1) == [], "the token behind the block must exist"
    with pytest.raises(OptionError, match=r"0\.33"):
        hexes("vllm-sha256", ids(*range(17)), 16, version="0.32", lookahead=1)


def test_vllm_salt_only_in_the_first_block_and_adapter_in_every_block() -> None:
    root = root_hash("sha256", ChainOptions())
    identity = KeyIdentity(adapter_name="ad1", adapter_path="/p/ad1", salt="s")
    lora = ("lora", "ad1", "/p/ad1")
    first = block_hash("sha256", root, range(4), (lora, ("cache_salt", "s")))
    second = block_hash("sha256", first, range(4, 8), (lora,))
    assert hexes("vllm-sha256", ids(*range(9)), 4, identity) == [first.hex(), second.hex()]


def test_vllm_image_begun_in_an_earlier_block_has_a_negative_offset() -> None:
    identity = KeyIdentity(media=(MediaSpan("img", 2, 4), MediaSpan("img", 6, 1)))
    root = root_hash("sha256_cbor", ChainOptions())
    first = block_hash("sha256_cbor", root, range(4), (("mm", "img", 2),))
    second = block_hash("sha256_cbor", first, range(4, 8), (("mm", "img", -2), ("mm", "img", 2)))
    third = block_hash("sha256_cbor", second, range(8, 12), None)
    assert hexes("vllm-sha256_cbor", ids(*range(12)), 4, identity) == [first.hex(), second.hex(), third.hex()]


def test_one_string_object_twice_hashes_like_two_equal_strings() -> None:
    name = "same-text"
    twice = "".join(["same", "-text"])
    assert twice is not name
    shared_object = KeyIdentity(adapter_name=name, adapter_path=name)
    two_objects = KeyIdentity(adapter_name=name, adapter_path=twice)
    four = ids(*range(4))
    assert hexes("vllm-sha256", four, 4, shared_object) == hexes("vllm-sha256", four, 4, two_objects)
    # what pickle would do with the one object, and vLLM does not
    careless = block_hash("sha256", root_hash("sha256", ChainOptions()), range(4), (("lora", name, name),))
    assert careless.hex() != hexes("vllm-sha256", ids(*range(4)), 4, shared_object)[0]


@pytest.mark.parametrize(
    ("algorithm", "version"),
    [("vllm-sha256", "0.28"), ("vllm-sha256_cbor", "0.11"), ("vllm-xxhash", "0.33"), ("vllm-xxhash_cbor", None)],
)
def test_a_random_seed_is_refused_and_a_given_one_accepted(algorithm: str, version: str | None) -> None:
    with pytest.raises(OptionError, match="at random"):
        hexes(algorithm, TWO_BLOCKS, 16, version=version)
    assert len(hexes(algorithm, TWO_BLOCKS, 16, version=version, seed="0")) == 2


def test_vllm_says_what_it_can_not_know() -> None:
    for version, identity, message in (
        ("0.33", KeyIdentity(adapter_name="a"), "path"),
        ("0.11", KeyIdentity(adapter_name="a"), "number"),
        ("0.14", KeyIdentity(adapter_name="a"), "was not read"),
        ("0.18", PICTURED, "was not read"),
        ("0.10", KeyIdentity(), "0.11"),
        ("seven", KeyIdentity(), "version"),
    ):
        with pytest.raises(OptionError, match=message):
            hexes("vllm-sha256", TWO_BLOCKS, 16, identity, version=version, seed="0")
    assert key_style("0.14").salt == "bare"
    assert assumptions("vllm-sha256", ChainOptions(version="0.40")) == (
        "vLLM 0.40 was not read; the rules of 0.33 are used",
        "assumed: the engine runs without PYTHONHASHSEED",
    )


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


@pytest.mark.parametrize("function", list(HASH_FUNCTIONS))
def test_lmcache_chains_on_eight_bytes_and_an_empty_tuple(function: str) -> None:
    options = ChainOptions(seed="0")
    digest = HASH_FUNCTIONS[function]
    parent = int.from_bytes(root_hash(function, options)[:8], "big")
    known = []
    for start in (0, 256):
        parent = int.from_bytes(digest((parent, tuple(range(start, start + 256)), ()))[:8], "big")
        known.append(parent)
    assert integers(f"lmcache-{function}", ids(*range(700)), 256, SALTED, seed="0") == known


def test_lmcache_multiprocess_digests() -> None:
    blake3 = pytest.importorskip("blake3").blake3
    root = blake3((0).to_bytes(8, "big", signed=True) + struct.pack(">1I", 0)).digest()
    first = blake3(root + struct.pack(">256I", *range(256))).digest()
    second = blake3(first + struct.pack(">256I", *range(256, 512))).digest()
    assert hexes("lmcache-blake3", ids(*range(700)), 256) == [first.hex(), second.hex()]


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
