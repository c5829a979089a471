"""How an engine may have made the hash of a stored block: the stated way, and the ways to try when it does not fit.

Events publish vLLM's extra keys without their tags, while the hash of 0.31 and newer is made with them
(kv_cache_utils.py:to_event_extra_keys), and the adapter's path is not published at all.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prefixscope.engines.events.records import BlockStored, EventHash
from prefixscope.engines.hashes import sglang, vllm
from prefixscope.engines.hashes.keys import ChainOptions, token_list
from prefixscope.errors import OptionError

__all__ = ["Alternatives", "HashSettings", "Recipe", "StoredBlock", "blocks_of", "other_recipes", "stated_recipe"]

Ingredient = Literal["seed", "algorithm", "adapter", "salt", "media", "tokens"]
INGREDIENTS: tuple[Ingredient, ...] = ("seed", "algorithm", "adapter", "salt", "media")
EVENT_ALGORITHMS = ("vllm-sha256", "vllm-sha256_cbor", "vllm-xxhash", "vllm-xxhash_cbor", "sglang-events")
DIGEST_BYTES = {name: 16 if "xxhash" in name else 32 for name in EVENT_ALGORITHMS}


@dataclass(frozen=True, slots=True)
class HashSettings:
    """How the engine is said to hash. `algorithm` is a registry name that occurs in events; `adapter_paths` by name."""

    algorithm: str = "vllm-sha256"
    version: str | None = None
    seed: str | None = None
    adapter_paths: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.algorithm not in EVENT_ALGORITHMS:
            raise OptionError(f"KV events do not carry '{self.algorithm}' hashes; known: {', '.join(EVENT_ALGORITHMS)}")


@dataclass(frozen=True, slots=True)
class Alternatives:
    """What else to try on a mismatch, beyond other algorithms and key styles: values from the log or the user."""

    seeds: tuple[str, ...] = ("0", "1", "42", "random")
    salts: tuple[str, ...] = ()
    adapter_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """One block of a BlockStored event, with its own parent, tokens and published keys."""

    hash: EventHash
    parent: EventHash | None
    tokens: bytes
    following: tuple[int, ...]
    adapter_name: str | None
    adapter_id: int | None
    salt: str | None
    media: tuple[Any, ...]
    embeddings: tuple[Any, ...]

    @property
    def first(self) -> bool:
        """Whether it begins a prompt: only such blocks carry a salt."""
        return self.parent is None


def blocks_of(event: BlockStored) -> Iterator[StoredBlock]:
    """The blocks of an event in chain order; nothing when its tokens do not belong to its hashes one to one."""
    width = event.block_size * 4
    if not width or len(event.tokens) != len(event.hashes) * width:
        return
    parent = event.parent
    ids = token_list(event.tokens) if event.lookahead else []
    for index, value in enumerate(event.hashes):
        keys = list((event.extra_keys or ())[index] or ()) if index < len(event.extra_keys or ()) else []
        if event.adapter_name is not None and event.adapter_name in keys[:1]:
            keys.pop(0)
        tokens = event.tokens[index * width : (index + 1) * width]
        media, salt, embeddings = _parted(keys, tokens) if parent is None else (keys, None, [])
        end = (index + 1) * event.block_size
        yield StoredBlock(
            hash=value,
            parent=parent,
            tokens=tokens,
            following=(*ids[end:], *event.lookahead)[: len(event.lookahead)],
            adapter_name=event.adapter_name,
            adapter_id=event.adapter_id,
            salt=salt if event.salt is None else event.salt,
            media=tuple(media),
            embeddings=tuple(embeddings),
        )
        parent = value


def _parted(keys: list[Any], tokens: bytes) -> tuple[list[Any], str | None, list[Any]]:
    """Media, salt and prompt embeddings of a first block's published keys, which are in that order.

    Media are (identifier, offset) pairs, the others single values; embedded tokens have the id 0. In versions that
    published bare media identifiers the parts may be mistaken, but their order, which is all that counts, stays.
    """
    places = [place for place, key in enumerate(keys) if not isinstance(key, tuple)]
    if not places or not isinstance(keys[places[0]], str) or (len(places) == 1 and not any(tokens)):
        return keys, None, []
    return keys[: places[0]], keys[places[0]], keys[places[0] + 1 :]


@dataclass(frozen=True, slots=True)
class Recipe:
    """One full way to make a hash.

    `adapter` and `salt` are (form, value): form "tagged", "bare" or "absent"; a value of None means the published
    one (for a tagged adapter: its path, None meaning nobody gave it).
    """

    algorithm: str
    seed: ChainOptions
    adapter: tuple[str, str | None]
    salt: tuple[str, str | None]
    media: str

    def derive(self, block: StoredBlock, parent: bytes | None) -> bytes:
        """The digest of a block behind `parent` (None: its root). Raises OptionError where it can't be computed."""
        if self.algorithm == "sglang-events":
            salt = None if self.salt[0] == "absent" else self.salt[1] or block.salt
            return sglang.page_hash(sglang.event_seed(salt) if parent is None else parent, block.tokens)
        function = self.algorithm.removeprefix("vllm-")
        if parent is None:
            parent = vllm.root_hash(function, self.seed)
        return vllm.block_hash(function, parent, token_list(block.tokens), self._extra(block), block.following)

    def fits(self, block: StoredBlock, digest: bytes) -> bool:
        """Whether a digest is the one the event names."""
        if isinstance(block.hash, bytes):
            return digest == block.hash
        integer = sglang.event_integer if self.algorithm == "sglang-events" else vllm.event_integer
        return integer(digest) == block.hash

    def _extra(self, block: StoredBlock) -> vllm.Extra:
        keys: list[Any] = []
        form, path = self.adapter
        if block.adapter_name is not None or block.adapter_id is not None:
            if form == "tagged":
                if path is None:
                    raise OptionError(f"the path of adapter '{block.adapter_name}' is not given")
                keys.append(("lora", vllm.separate_text(block.adapter_name or ""), vllm.separate_text(path)))
            elif form == "bare":
                keys.append(block.adapter_id if block.adapter_name is None else block.adapter_name)
        keys += [_tagged_media(item) if self.media == "tagged" else item for item in block.media]
        form, salt = self.salt
        salt = salt if salt is not None else block.salt
        if block.first and salt is not None and form != "absent":
            salt = vllm.separate_text(salt)
            keys.append(("cache_salt", salt) if form == "tagged" else salt)
        keys += [_tagged_media(item) if self.media == "tagged" else item for item in block.embeddings]
        return tuple(keys) or None


def _tagged_media(item: Any) -> tuple[Any, ...]:
    """A published media or embedding key with its tag: (identifier, offset) pairs are media, single values digests."""
    if isinstance(item, tuple):
        return ("mm", *item)
    if isinstance(item, str) and re.fullmatch(r"[0-9a-f]{64}", item):
        item = bytes.fromhex(item)  # recordings write digests in hex
    return ("prompt_embeds", item)


def stated_recipe(settings: HashSettings, block: StoredBlock) -> Recipe:
    """The recipe the settings describe, for a block's adapter."""
    style = vllm.key_style(settings.version)
    path = settings.adapter_paths.get(block.adapter_name or "")
    return Recipe(
        algorithm=settings.algorithm,
        seed=ChainOptions(version=settings.version, seed=settings.seed),
        adapter=("tagged", path) if style.adapter == "tagged" else ("bare", None),
        salt=(style.salt, None),
        media="tagged" if style.media == "tagged" else "bare",
    )


def _choices(block: StoredBlock, stated: Recipe, others: Alternatives, parent: bytes | None) -> list[list[Any]]:
    """Per ingredient, in the order of `INGREDIENTS`: the stated value first, then what else it may be."""
    seeds = [ChainOptions(), *(ChainOptions(seed=seed) for seed in others.seeds)] if block.first else []
    algorithms = [name for name in EVENT_ALGORITHMS if parent is None or DIGEST_BYTES[name] == len(parent)]
    adapters: list[tuple[str, str | None]] = []
    if block.adapter_name is not None or block.adapter_id is not None:
        paths = dict.fromkeys((*others.adapter_paths, block.adapter_name))
        adapters = [*(("tagged", path) for path in paths if path), ("bare", None), ("absent", None)]
    salts: list[tuple[str, str | None]] = []
    if block.first and block.salt is not None:
        salts = [("tagged", None), ("bare", None), ("absent", None)]
    if block.first:
        salts += [(form, salt) for salt in others.salts for form in ("tagged", "bare")]
    media = ["tagged", "bare"] if block.media or block.embeddings else []
    stated_values = (stated.seed, stated.algorithm, stated.adapter, stated.salt, stated.media)
    found: tuple[list[Any], ...] = (seeds, algorithms, adapters, salts, media)
    return [
        [own, *(value for value in values if value != own)] for own, values in zip(stated_values, found, strict=True)
    ]


def other_recipes(
    block: StoredBlock, stated: Recipe, others: Alternatives, parent: bytes | None
) -> list[tuple[tuple[Ingredient, ...], Recipe]]:
    """Every other recipe with the ingredients it changes: fewest changes first, then in the order of ingredients."""
    choices = _choices(block, stated, others, parent)
    ranked = []
    for picks in itertools.product(*(range(len(values)) for values in choices)):
        changed = tuple(place for place, pick in enumerate(picks) if pick)
        if changed:
            ranked.append((len(changed), changed, picks))
    ranked.sort()
    recipes = []
    for _, changed, picks in ranked:
        seed, algorithm, adapter, salt, media = (values[pick] for values, pick in zip(choices, picks, strict=True))
        recipes.append((tuple(INGREDIENTS[place] for place in changed), Recipe(algorithm, seed, adapter, salt, media)))
    return recipes
