"""Every hash is derived again, and a mismatch names its first differing ingredient."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from prefixscope.engines.events import (
    Alternatives,
    BlockRemoved,
    BlockStored,
    EventBatch,
    HashSettings,
    RequestBlocks,
    cache_history,
    compare_requests,
    known_blocks,
    rederive,
)
from prefixscope.engines.hashes import ChainOptions, KeyIdentity, MediaSpan, block_chain
from prefixscope.engines.hashes.vllm import block_hash, event_integer, root_hash
from prefixscope.errors import OptionError

BLOCK = 8


def ids(*tokens: int) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


def published(
    algorithm: str,
    options: ChainOptions,
    tokens: bytes,
    identity: KeyIdentity,
    *,
    whole_digests: bool = False,
) -> BlockStored:
    """The event an engine with these settings sends, with untagged keys as vLLM publishes them."""
    chain = block_chain(algorithm, tokens, BLOCK, identity, options)
    keys = []
    for index in range(len(chain.keys)):
        start, end = index * BLOCK, (index + 1) * BLOCK
        own: list[object] = [] if identity.adapter_name is None else [identity.adapter_name]
        own += [(span.identifier, span.offset - start) for span in identity.media if span.overlaps(start, end)]
        own += [identity.salt] if identity.salt and index == 0 else []
        keys.append(tuple(own) or None)
    sglang = algorithm.startswith("sglang")
    assert chain.integers is not None
    count = len(chain.keys) * BLOCK
    ahead = options.lookahead
    return BlockStored(
        hashes=chain.keys if whole_digests else chain.integers,
        parent=None,
        tokens=tokens[: count * 4],
        block_size=BLOCK,
        adapter_name=identity.adapter_name,
        extra_keys=None if sglang else tuple(keys),
        salt=identity.salt if sglang else None,
        lookahead=struct.unpack(f"<{ahead}I", tokens[count * 4 : (count + ahead) * 4]),
    )


def batches(*events: BlockStored) -> list[EventBatch]:
    return [EventBatch((event,), number, number * 10) for number, event in enumerate(events)]


TOKENS = ids(*range(50, 50 + 3 * BLOCK + 2))
PLAIN = KeyIdentity()
SALTED = KeyIdentity(salt="red")
ADAPTED = KeyIdentity(adapter_name="la", adapter_path="/adapters/la", adapter_id=1)
PICTURED = KeyIdentity(media=(MediaSpan("img", 4, 10),), salt="red", adapter_name="la", adapter_path="/adapters/la")
PATHS = {"la": "/adapters/la"}


@pytest.mark.parametrize("whole_digests", [False, True])
@pytest.mark.parametrize("version", ["0.23", "0.30", "0.32", "0.33"])
@pytest.mark.parametrize("function", ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"])
def test_vllm_hashes_are_equal_under_the_true_settings(function: str, version: str, whole_digests: bool) -> None:
    options = ChainOptions(version=version, seed="0")
    events = [
        published(f"vllm-{function}", options, TOKENS, identity, whole_digests=whole_digests)
        for identity in (PLAIN, SALTED, ADAPTED, PICTURED)
    ]
    result = rederive(batches(*events), HashSettings(f"vllm-{function}", version, "0", PATHS))
    assert result.counts["equal"] == len(result.checks) == 12


def test_look_ahead_hashes_use_the_published_tokens() -> None:
    for ahead in (1, 2):
        options = ChainOptions(version="0.33", lookahead=ahead)
        events = [published("vllm-sha256", options, TOKENS, identity) for identity in (PLAIN, SALTED)]
        result = rederive(batches(*events), HashSettings(version="0.33"))
        assert result.counts["equal"] == 6


@pytest.mark.parametrize("recorded", [False, True])
def test_prompt_embeddings_behind_a_salt(recorded: bool) -> None:
    """Embedded tokens have the id 0; recordings write the digests of embeddings in hex."""
    tokens, digests = ids(*[0] * 2 * BLOCK), (b"\x07" * 32, b"\x08" * 32)
    for salt in (None, "red"):
        parent, hashes, published_keys = root_hash("sha256", ChainOptions()), [], []
        for index, digest in enumerate(digests):
            salted = salt is not None and index == 0
            keys = [("cache_salt", salt)] * salted + [("prompt_embeds", digest)]
            parent = block_hash("sha256", parent, [0] * BLOCK, tuple(keys))
            hashes.append(event_integer(parent))
            published_keys.append((*[salt] * salted, digest.hex() if recorded else digest))
        event = BlockStored(tuple(hashes), None, tokens, BLOCK, extra_keys=tuple(published_keys))
        assert rederive(batches(event), HashSettings()).counts["equal"] == 2


def test_sglang_hashes() -> None:
    events = [published("sglang-events", ChainOptions(), TOKENS, identity) for identity in (PLAIN, SALTED)]
    result = rederive(batches(*events), HashSettings("sglang-events"))
    assert result.counts["equal"] == 6
    taken_for_vllm = rederive(batches(*events), HashSettings("vllm-sha256"))
    assert taken_for_vllm.counts["different"] == 6
    assert taken_for_vllm.differences[0][0].ingredient == "algorithm"


TRUE = HashSettings("vllm-sha256", "0.32", "0", PATHS)
TRIED = Alternatives(seeds=("0", "1"), salts=("red", "blue"), adapter_paths=("/adapters/la", "/adapters/lb"))


@pytest.mark.parametrize(
    ("settings", "identity", "ingredient", "words"),
    [
        (replace(TRUE, seed="1"), PLAIN, "seed", "PYTHONHASHSEED=0, not PYTHONHASHSEED=1"),
        (replace(TRUE, seed=None), SALTED, "seed", "PYTHONHASHSEED=0, not no PYTHONHASHSEED"),
        (replace(TRUE, algorithm="vllm-sha256_cbor"), PLAIN, "algorithm", "with vllm-sha256, not vllm-sha256_cbor"),
        (replace(TRUE, algorithm="vllm-xxhash_cbor"), SALTED, "algorithm", "with vllm-sha256"),
        (replace(TRUE, adapter_paths={"la": "/old"}), ADAPTED, "adapter", "path /adapters/la, not with the path /old"),
        (replace(TRUE, adapter_paths={}), ADAPTED, "adapter", "not with its path unknown"),
        (replace(TRUE, version="0.30"), ADAPTED, "adapter", "not bare"),
        (replace(TRUE, version="0.30"), SALTED, "salt", "tagged"),
        (replace(TRUE, version="0.30"), KeyIdentity(media=(MediaSpan("img", 4, 10),)), "media", "tagged, not bare"),
        (replace(TRUE, seed="1", version="0.30"), SALTED, "seed", "salt"),
    ],
)
def test_the_first_differing_ingredient_is_named(
    settings: HashSettings, identity: KeyIdentity, ingredient: str, words: str
) -> None:
    event = published("vllm-sha256", ChainOptions(version="0.32", seed="0"), TOKENS, identity)
    result = rederive(batches(event), settings, TRIED)
    assert result.counts["unexplained"] == result.counts["parent_unknown"] == 0
    (difference, _), *others = result.differences
    assert difference.ingredient == ingredient
    assert words in difference.statement
    assert others == [] or ingredient in ("adapter", "media")


def test_a_salt_the_event_does_not_publish_is_found_among_those_of_the_log() -> None:
    event = replace(published("vllm-sha256", ChainOptions(version="0.32"), TOKENS, SALTED), extra_keys=None)
    result = rederive(batches(event), HashSettings(version="0.32"), TRIED)
    ((difference, count),) = result.differences
    assert (difference.ingredient, count) == ("salt", 1)
    assert "another value" in difference.statement and "red" not in difference.statement, "salts are secrets"
    assert result.counts["equal"] == 2, "only the first block carries the salt"


def test_tokens_that_do_not_belong_to_the_hash() -> None:
    options = ChainOptions(version="0.32")
    event = published("vllm-sha256", options, TOKENS, PLAIN)
    wrong = bytearray(event.tokens)
    wrong[4 * (BLOCK + 3)] ^= 1
    asked = RequestBlocks(0, "request 0", None, TOKENS, block_chain("vllm-sha256", TOKENS, BLOCK, PLAIN, options))
    known = known_blocks([asked])
    result = rederive(batches(replace(event, tokens=bytes(wrong))), HashSettings(version="0.32"), known=known)
    assert [check.outcome for check in result.checks] == ["equal", "different", "equal"]
    ((difference, _),) = result.differences
    assert difference.ingredient == "tokens"
    assert "block 1 of request 0" in difference.statement and "token 3 " in difference.statement


def test_a_random_seed_is_said_and_children_of_whole_digests_still_hold() -> None:
    options = ChainOptions(version="0.27", seed="random bytes nobody knows")
    event = published("vllm-sha256", options, TOKENS, PLAIN, whole_digests=True)
    result = rederive(batches(event), HashSettings(version="0.27"))
    assert [check.outcome for check in result.checks] == ["unexplained", "equal", "equal"]
    assert result.uncomputable is not None and "at random" in result.uncomputable
    numbers = published("vllm-sha256", options, TOKENS, PLAIN)
    result = rederive(batches(numbers), HashSettings(version="0.27"))
    assert [check.outcome for check in result.checks] == ["unexplained", "parent_unknown", "parent_unknown"]


def test_blocks_without_tokens_are_counted_apart() -> None:
    event = BlockStored((1, 2), None, b"", 0, medium="CPU")
    assert rederive(batches(event), HashSettings()).counts["no_tokens"] == 2
    assert rederive(batches(replace(event, block_size=8, tokens=ids(1, 2))), HashSettings()).counts["no_tokens"] == 2


def test_searching_stops_after_many_failures() -> None:
    draw = random.Random(1)
    events = [
        BlockStored((draw.randrange(1 << 64),), None, ids(*(draw.randrange(99) for _ in range(BLOCK))), BLOCK)
        for _ in range(300)
    ]
    assert rederive(batches(*events), HashSettings()).counts["unexplained"] == 300


def test_only_algorithms_of_events_can_be_stated() -> None:
    with pytest.raises(OptionError, match="vllm-sha256"):
        HashSettings("dynamo-local")


def request_of(tokens: bytes, time_ns: int | None, identity: KeyIdentity = PLAIN) -> RequestBlocks:
    chain = block_chain("vllm-sha256", tokens, BLOCK, identity, ChainOptions(version="0.32"))
    return RequestBlocks(0, "request 0", time_ns, tokens, chain)


def test_fates_of_requests() -> None:
    options = ChainOptions(version="0.32")
    event = published("vllm-sha256", options, TOKENS, PLAIN)
    log = batches(event)
    log.append(EventBatch((BlockRemoved((event.hashes[2],)),), 1, 20))
    longer = TOKENS[: 4 * 3 * BLOCK] + ids(*range(BLOCK))
    asked = [request_of(longer, 5), request_of(longer, 25), request_of(longer, None), request_of(longer, 5, SALTED)]
    early, late, untimed, other = compare_requests(asked, cache_history(log))
    assert [block.fate for block in early.blocks] == ["held", "held", "removed", "missing"]
    assert (early.blocks[2].stored_ns, early.blocks[2].ended_ns) == (0, 20)
    assert (early.held_prefix_at_request, late.held_prefix_at_request, untimed.held_prefix_at_request) == (3, 2, None)
    assert (early.stored, early.count("held"), early.count("removed"), early.count("missing")) == (3, 2, 1, 1)
    assert other.count("missing") == 4 and other.held_prefix_at_request == 0


def test_a_prefix_is_held_by_one_rank() -> None:
    event = published("vllm-sha256", ChainOptions(version="0.32"), TOKENS, PLAIN)
    first = replace(event, hashes=event.hashes[:1], tokens=event.tokens[: 4 * BLOCK])
    rest = replace(event, hashes=event.hashes[1:], parent=event.hashes[0], tokens=event.tokens[4 * BLOCK :])
    log = [EventBatch((first,), 0, 0, rank=0), EventBatch((rest,), 0, 0, rank=1)]
    (fate,) = compare_requests([request_of(TOKENS, 5)], cache_history(log))
    assert fate.held_prefix_at_request == 1
    assert fate.count("held") == 3
