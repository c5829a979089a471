"""Who may share KV with whom: the identity of a request, and fingerprints of what made its token ids.

Namespace rules: base model, position configuration, adapter, cache salt, engine extra keys and the `--namespace-by`
field must all be equal. vLLM folds adapter and `cache_salt` into its block hashes; SGLang keys its radix tree by
`extra_key` and `cache_salt`. Salts and extra keys are secrets of the log: only keyed hashes of them leave this module.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import xxhash

from prefixscope.errors import OptionError
from prefixscope.models.table import ModelEntry
from prefixscope.records import Identity, Json, LoggedRequest

__all__ = ["KEYED", "IdentityRules", "fingerprint", "identity_of", "keyed_hash", "new_salt_key"]

KEYED = "keyed:"
"""Stands before a hash in place of a value that is not shown."""

_LONGEST_LABEL = 64
_RECORD_FIELDS = ("session_id", "tenant", "replica", "model", "adapter", "request_id", "hash_scope")


def new_salt_key() -> bytes:
    """A fresh key for one run. All worker processes of the run must be given the same one."""
    return secrets.token_bytes(16)


def keyed_hash(secret: str, key: bytes) -> str:
    """What may be stored of a secret: equal secrets stay equal under one key, and can't be guessed without it.

    >>> keyed_hash("salt", b"k") == keyed_hash("salt", b"k") != keyed_hash("salt", b"other")
    True
    """
    return hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), key=key, digest_size=12).hexdigest()


def fingerprint(text: str) -> str:
    """xxh3-128 of a text in hex: names a tokenizer or template in reports and index files.

    >>> fingerprint("")
    '99aa06d3014798d86001c324468d497f'
    """
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class IdentityRules:
    """How identities are made in one run: the key for secrets, and the `--namespace-by` field, if any.

    `together` names what is taken for equal although it is not (`adapter`, `cache_salt`), to tell what it costs.
    """

    salt_key: bytes
    namespace_by: str | None = None
    together: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.namespace_by is not None and not all(self.namespace_by.split(".")):
            raise OptionError(f"--namespace-by {self.namespace_by!r}: write a field, or a dotted path into the body")


def identity_of(
    request: LoggedRequest,
    entry: ModelEntry | None,
    rules: IdentityRules,
    *,
    tokenizer: str | None = None,
    template: str | None = None,
    media: str | None = None,
) -> Identity:
    """The identity of one request; `tokenizer` and `template` are fingerprints, recorded but not separating.

    `media` names the media that keep a request apart, where their place among its tokens is not known.
    """
    salt = _secret(request.body.get("cache_salt"), rules.salt_key)
    return Identity(
        base_model=entry.base if entry is not None else request.model or "",
        adapter=None if "adapter" in rules.together else _adapter(request, entry),
        tokenizer=tokenizer,
        template=template,
        position=None if entry is None or not entry.position else _canonical(entry.position),
        salt=salt,
        extra=_extra(request, rules, media),
    )


def _adapter(request: LoggedRequest, entry: ModelEntry | None) -> str | None:
    """The adapter of the entry, else the logged one, else SGLang's `lora_path`; both when they disagree."""
    mapped = None if entry is None else entry.adapter
    lora_path = request.body.get("lora_path")
    logged = request.adapter or (lora_path if isinstance(lora_path, str) and lora_path else None)
    if mapped is None or logged is None or logged in (mapped, mapped.partition("@")[0]):
        return mapped or logged
    return f"{mapped}+{logged}"


def _extra(request: LoggedRequest, rules: IdentityRules, media: str | None) -> tuple[str, ...]:
    extra: list[str] = []
    extra_key = _secret(request.body.get("extra_key"), rules.salt_key)
    if extra_key is not None:
        extra.append(f"extra_key={extra_key}")
    if rules.namespace_by is not None:
        extra.append(f"{rules.namespace_by}={_field(request, rules)}")
    if media is not None:
        extra.append(f"media={media}")
    if request.kind == "hashes":
        # ids of hashes and ids of tokens are different alphabets even where the numbers coincide
        extra.append(f"unit={request.unit}")
    if request.hash_scope is not None:
        extra.append(f"scope={request.hash_scope}")
    return tuple(extra)


def _secret(value: Json, key: bytes) -> str | None:
    if value is None or value in ("", []):
        return None
    return keyed_hash(value if isinstance(value, str) else _canonical(value), key)


def _field(request: LoggedRequest, rules: IdentityRules) -> str:
    """The value at a dotted path of the body, else of the record; a missing one is the empty string.

    Long values and objects may be prompt text: only a keyed hash of them leaves this module.
    """
    path = rules.namespace_by or ""
    value: Any = request.body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if value is None and path in _RECORD_FIELDS:
        value = getattr(request, path)
    if value is None:
        return ""
    text = value if isinstance(value, str) else _canonical(value)
    if isinstance(value, Mapping | list) or len(text) > _LONGEST_LABEL:
        return KEYED + keyed_hash(text, rules.salt_key)
    return text


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
