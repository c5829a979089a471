"""Every hash chain by name: what it is, where it was read, and how far it is proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from prefixscope.engines.hashes import dynamo, lmcache, own, sglang, tensorrt_llm, vllm
from prefixscope.engines.hashes.keys import ChainFunction, ChainOptions, KeyIdentity
from prefixscope.errors import OptionError

__all__ = ["ALGORITHMS", "BlockChain", "HashAlgorithm", "assumptions", "block_chain", "default_algorithm"]

Verified = Literal["seen running", "function run", "source read", "unverified", "own definition"]


@dataclass(frozen=True, slots=True)
class HashAlgorithm:
    """One way to turn the blocks of a prompt into keys.

    `compute` gives one key (bytes) per block that has one. `integer` is the number the engine's events or interfaces
    show for a key, None where it shows none. `verified` and `proof` say how it was checked.
    """

    name: str
    compute: ChainFunction
    integer: Callable[[bytes], int] | None
    summary: str
    source: str
    verified: Verified
    proof: str


@dataclass(frozen=True, slots=True)
class BlockChain:
    """The keys of one prompt, in order: digests as bytes, and the integers of the events (None: none)."""

    algorithm: str
    block_size: int
    keys: tuple[bytes, ...]
    integers: tuple[int, ...] | None

    @property
    def hex(self) -> list[str]:
        """Digests in hex, as files and reports write them."""
        return [key.hex() for key in self.keys]


def _vllm(function: str, verified: Verified, proof: str) -> HashAlgorithm:
    return HashAlgorithm(
        name=f"vllm-{function}",
        compute=partial(vllm.chain, function),
        integer=vllm.event_integer,
        summary=f"vLLM block hashes, --prefix-caching-hash-algo {function}",
        source="vLLM 0.11 to 0.33, v1/core/kv_cache_utils.py and utils/hashing.py",
        verified=verified,
        proof=proof,
    )


def _lmcache(function: str) -> HashAlgorithm:
    return HashAlgorithm(
        name=f"lmcache-{function}",
        compute=partial(lmcache.chain, function),
        integer=lmcache.integer,
        summary=f"LMCache chunk hashes in process, pre_caching_hash_algorithm {function}",
        source="LMCache 0.5.6, v1/token_database.py",
        verified="function run",
        proof="values of LMCache 0.5.6's own function beside vLLM 0.32",
    )


_LIVE = "KV events of a live vLLM 0.32 (base, salted and adapter requests) and values of vLLM's own functions"
_ENTRIES = (
    _vllm("sha256", "seen running", _LIVE),
    _vllm("sha256_cbor", "seen running", _LIVE),
    _vllm("xxhash", "function run", "values of vLLM 0.32's own functions"),
    _vllm("xxhash_cbor", "seen running", _LIVE),
    HashAlgorithm(
        "sglang-storage",
        sglang.storage_chain,
        sglang.event_integer,
        "SGLang page hashes of its storage tiers; extra key and salt in the seed",
        "SGLang 0.5.23, cpp_utils/hash_binding.cpp and mem_cache/utils.py",
        "function run",
        "values of the compiled upstream function",
    ),
    HashAlgorithm(
        "sglang-events",
        sglang.event_chain,
        sglang.event_integer,
        "SGLang page hashes of its KV events; only the salt in the seed",
        "SGLang 0.5.23, mem_cache/utils.py",
        "function run",
        "values of the compiled upstream function",
    ),
    HashAlgorithm(
        "dynamo-local",
        dynamo.local_chain,
        dynamo.integer,
        "Dynamo hash of each block by itself",
        "Dynamo 1.6.1, compute_block_hash_for_seq",
        "function run",
        "equal to ai-dynamo-runtime 1.6.1 on random input",
    ),
    HashAlgorithm(
        "dynamo-sequence",
        dynamo.sequence_chain,
        dynamo.integer,
        "Dynamo hash of each block behind its prefix (the router's index)",
        "Dynamo 1.6.1, lib/tokens",
        "function run",
        "constants of the upstream tests",
    ),
    HashAlgorithm(
        "tensorrt-llm-v1",
        tensorrt_llm.v1_chain,
        tensorrt_llm.integer,
        "TensorRT-LLM cache manager V1 block hashes",
        "TensorRT-LLM repository, cpp/tensorrt_llm/batch_manager/blockKey.cpp",
        "unverified",
        "formula from source, never compared with a running TensorRT-LLM",
    ),
    HashAlgorithm(
        "tensorrt-llm-v2",
        tensorrt_llm.v2_chain,
        None,
        "TensorRT-LLM cache manager V2 block digests",
        "TensorRT-LLM repository, kv_cache_manager_v2",
        "unverified",
        "formula from source, never compared with a running TensorRT-LLM",
    ),
    *(_lmcache(function) for function in vllm.HASH_FUNCTIONS),
    HashAlgorithm(
        "lmcache-blake3",
        lmcache.blake3_chain,
        None,
        "LMCache chunk digests of the multiprocess server",
        "LMCache 0.5.6, v1/multiprocess/token_hasher.py",
        "function run",
        "values of LMCache 0.5.6's own function",
    ),
    HashAlgorithm(
        "prefixscope",
        own.chain,
        None,
        "prefixscope's own stable keys: xxh3-128 over parent, tokens and identity",
        "prefixscope",
        "own definition",
        "fixed values, equal in processes with different PYTHONHASHSEED",
    ),
)

ALGORITHMS: dict[str, HashAlgorithm] = {entry.name: entry for entry in _ENTRIES}
"""Name -> algorithm, in the order help texts show them."""

_DEFAULTS = {
    "vllm": "vllm-sha256",
    "vllm-ascend": "vllm-sha256",
    "sglang": "sglang-events",
    "dynamo-router": "dynamo-sequence",
    "tensorrt-llm": "tensorrt-llm-v2",
    "lmcache": "lmcache-sha256",
}


def default_algorithm(engine: str) -> str:
    """The chain to show for an engine profile; engines without block hashes get `prefixscope`.

    >>> default_algorithm("vllm"), default_algorithm("openai")
    ('vllm-sha256', 'prefixscope')
    """
    return _DEFAULTS.get(engine, "prefixscope")


def block_chain(
    name: str,
    tokens: bytes,
    block_size: int,
    identity: KeyIdentity | None = None,
    options: ChainOptions | None = None,
) -> BlockChain:
    """The chain of one prompt. `tokens` are little-endian uint32; raises OptionError for what can't be computed.

    >>> import struct
    >>> chain = block_chain("vllm-sha256", struct.pack("<16I", *range(16)), 16)
    >>> chain.integers
    (3262291359910021016,)
    """
    algorithm = ALGORITHMS.get(name)
    if algorithm is None:
        raise OptionError(f"no hash algorithm '{name}'; known are {', '.join(ALGORITHMS)}")
    keys = tuple(algorithm.compute(tokens, block_size, identity or KeyIdentity(), options or ChainOptions()))
    integers = None if algorithm.integer is None else tuple(algorithm.integer(key) for key in keys)
    return BlockChain(name, block_size, keys, integers)


def assumptions(name: str, options: ChainOptions) -> tuple[str, ...]:
    """What the keys rest on beyond the tokens, as sentences for the user."""
    if ALGORITHMS[name].verified == "unverified":
        return (f"{name} is unverified: {ALGORITHMS[name].proof}",)
    if not name.startswith(("vllm-", "lmcache-")) or name == "lmcache-blake3":
        return ()
    said = []
    if options.version is None:
        said.append(f"assumed: vLLM {vllm.NEWEST_READ}")
    elif vllm.version_pair(options.version) > vllm.version_pair(vllm.NEWEST_READ):
        said.append(f"vLLM {options.version} was not read; the rules of {vllm.NEWEST_READ} are used")
    if options.seed is None and "sha256" in name:
        said.append("assumed: the engine runs without PYTHONHASHSEED")
    if options.lookahead:
        said.append("look-ahead hashes follow vLLM's source and were not compared with a running engine")
    return tuple(said)
