"""vLLM's hashes: known values of its own functions, key styles by version, seeds, and what must be refused."""

from __future__ import annotations

import re

import pytest

from prefixscope.engines.hashes import ChainOptions, KeyIdentity, MediaSpan, assumptions
from prefixscope.engines.hashes.vllm import block_hash, key_style, root_hash
from prefixscope.errors import OptionError
from tests.engines.chains import ADAPTED, PICTURED, SALTED, TWO_BLOCKS, hexes, ids, integers
from tests.shared import SHARED, needs_shared


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
