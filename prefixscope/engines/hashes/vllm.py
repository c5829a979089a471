"""vLLM's block hashes: H(i) = F((H(i-1), token ids, extra keys)), for every hash function and key style it had.

Source: v1/core/kv_cache_utils.py and utils/hashing.py of vLLM 0.11 to 0.33. The serialisation (pickle protocol 5 or
canonical CBOR) is part of the identity, so the values handed to it must have exactly the types vLLM hands over:
parent as bytes, tokens as a tuple of Python ints, no extra keys as None.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import xxhash

from prefixscope.engines.hashes.keys import ChainOptions, KeyIdentity, block_bounds, token_list
from prefixscope.errors import OptionError

__all__ = [
    "HASH_FUNCTIONS",
    "NEWEST_READ",
    "Extra",
    "KeyStyle",
    "block_hash",
    "chain",
    "event_integer",
    "extra_keys",
    "key_style",
    "root_hash",
    "separate_text",
    "version_pair",
]

Extra = tuple[Any, ...] | None

NEWEST_READ = "0.33"
FIXED_SEED = "vllm-none-hash"


@dataclass(frozen=True, slots=True)
class KeyStyle:
    """How one vLLM version writes adapter, media and salt into a hash; `between` is a version nobody has read."""

    since: tuple[int, int]
    adapter: Literal["id", "between", "name", "tagged"]
    media: Literal["id", "between", "id_offset", "tagged"]
    salt: Literal["bare", "tagged"]
    fixed_seed: bool


KEY_STYLES = (
    KeyStyle((0, 11), "id", "id", "bare", False),
    KeyStyle((0, 12), "between", "id", "bare", False),
    KeyStyle((0, 17), "name", "id", "bare", False),
    KeyStyle((0, 18), "name", "between", "bare", False),
    KeyStyle((0, 19), "name", "id_offset", "bare", False),
    KeyStyle((0, 29), "name", "id_offset", "bare", True),
    KeyStyle((0, 31), "tagged", "tagged", "tagged", True),
)


def version_pair(version: str) -> tuple[int, int]:
    """Major and minor of a version.

    >>> version_pair("v0.23.0.post1")
    (0, 23)
    """
    found = re.match(r"v?(\d+)\.(\d+)(?!\d)", version.strip())
    if found is None:
        raise OptionError(f"'{version}' is not an engine version such as 0.32")
    return int(found[1]), int(found[2])


def key_style(version: str | None) -> KeyStyle:
    """The key style of a version; versions newer than the newest read one are taken to be like it."""
    wanted = version_pair(version or NEWEST_READ)
    fitting = [style for style in KEY_STYLES if style.since <= wanted]
    if not fitting:
        raise OptionError(f"block hashes of vLLM {version} are not known; the oldest version read is 0.11")
    return fitting[-1]


def _canonical_cbor(value: object) -> bytes:
    try:
        import cbor2
    except ImportError as error:
        raise OptionError("vLLM's CBOR hashes need the package cbor2 (pip install 'prefixscope[events]')") from error
    encoded: bytes = cbor2.dumps(value, canonical=True)
    return encoded


def _pickled(value: object) -> bytes:
    return pickle.dumps(value, protocol=5)


def _sha256(encoded: bytes) -> bytes:
    return hashlib.sha256(encoded).digest()


def _xxh3_128(encoded: bytes) -> bytes:
    digest: bytes = xxhash.xxh3_128_digest(encoded)
    return digest


HASH_FUNCTIONS: dict[str, Callable[[object], bytes]] = {
    "sha256": lambda value: _sha256(_pickled(value)),
    "sha256_cbor": lambda value: _sha256(_canonical_cbor(value)),
    "xxhash": lambda value: _xxh3_128(_pickled(value)),
    "xxhash_cbor": lambda value: _xxh3_128(_canonical_cbor(value)),
}
"""`--prefix-caching-hash-algo` name -> hash of a Python object. Digests have 32 or 16 bytes."""


def root_hash(algorithm: str, options: ChainOptions) -> bytes:
    """The parent of every first block (NONE_HASH).

    Raises OptionError where the engine draws it at random at each start, which nobody can reproduce: xxhash* without
    PYTHONHASHSEED, and every algorithm without it up to vLLM 0.28.
    """
    if options.seed is not None:
        return HASH_FUNCTIONS[algorithm](separate_text(options.seed))
    if algorithm.startswith("sha256") and key_style(options.version).fixed_seed:
        return HASH_FUNCTIONS[algorithm](FIXED_SEED)
    version = options.version or NEWEST_READ
    raise OptionError(
        f"vLLM {version} with {algorithm} seeds its hashes at random at each start unless PYTHONHASHSEED is set; "
        "give the engine's PYTHONHASHSEED as the seed"
    )


def separate_text(text: str) -> str:
    """The same text as an object of its own.

    pickle writes a back reference when one object occurs twice in a value. In vLLM equal strings arrive as separate
    objects (each is decoded from its own place in a message), so every text that enters a hash must be one here too.
    """
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "surrogatepass")


def _adapter_keys(identity: KeyIdentity, style: KeyStyle) -> list[Any]:
    name, path, number = identity.adapter_name, identity.adapter_path, identity.adapter_id
    if name is None and number is None:
        return []
    if style.adapter == "between":
        raise OptionError("how vLLM 0.12 to 0.16 hashes adapters was not read; name 0.11 or 0.17 if one fits")
    if style.adapter == "id":
        if number is None:
            raise OptionError(f"vLLM 0.11 hashes the adapter's number (lora_int_id); give the number of '{name}'")
        return [number]
    if name is None:
        raise OptionError(f"vLLM hashes the adapter's name; give the name of adapter number {number}")
    if style.adapter == "name":
        return [separate_text(name)]
    if path is None:
        raise OptionError(f"vLLM 0.31 and newer hash the adapter's path too; give the path of '{name}'")
    return [("lora", separate_text(name), separate_text(path))]


def _media_keys(identity: KeyIdentity, start: int, end: int, style: KeyStyle) -> list[Any]:
    spans = [span for span in identity.media if span.overlaps(start, end)]
    if spans and style.media == "between":
        raise OptionError("how vLLM 0.18 hashes images was not read; name 0.17 or 0.19 if one fits")
    if style.media == "tagged":
        return [("mm", separate_text(span.identifier), span.offset - start) for span in spans]
    if style.media == "id_offset":
        return [(separate_text(span.identifier), span.offset - start) for span in spans]
    return [separate_text(span.identifier) for span in spans]


def extra_keys(identity: KeyIdentity, start: int, end: int, style: KeyStyle) -> Extra:
    """The extra keys of tokens [start, end): adapter in every block, media where they overlap, salt in the first."""
    keys = _adapter_keys(identity, style) + _media_keys(identity, start, end, style)
    if identity.salt and start == 0:
        salt = separate_text(identity.salt)
        keys.append(("cache_salt", salt) if style.salt == "tagged" else salt)
    return tuple(keys) or None


def block_hash(algorithm: str, parent: bytes, ids: Sequence[int], extra: Extra, following: Sequence[int] = ()) -> bytes:
    """One link of the chain; `following` are the look-ahead tokens of vLLM 0.33 (kv_cache_utils.py:953-1022)."""
    if following:
        extra = (extra, *following)
    return HASH_FUNCTIONS[algorithm]((parent, tuple(ids), extra))


def chain(algorithm: str, tokens: bytes, block_size: int, identity: KeyIdentity, options: ChainOptions) -> list[bytes]:
    """Digests of all blocks that have one: full, and followed by `options.lookahead` tokens."""
    style = key_style(options.version)
    ahead = options.lookahead
    if ahead and version_pair(options.version or NEWEST_READ) < (0, 33):
        raise OptionError("look-ahead hashes exist since vLLM 0.33")
    parent = root_hash(algorithm, options)
    ids = token_list(tokens)
    digests = []
    for start, end in block_bounds(len(ids), block_size, beyond=ahead):
        extra = extra_keys(identity, start, end + ahead, style)
        parent = block_hash(algorithm, parent, ids[start:end], extra, ids[end : end + ahead])
        digests.append(parent)
    return digests


def event_integer(digest: bytes) -> int:
    """The number KV events carry for a digest: its low 64 bits (VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES, the default)."""
    return int.from_bytes(digest[-8:], "big")
