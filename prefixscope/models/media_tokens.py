"""Media in the token sequence: each item stands at its placeholder, as tokens made of its identity.

Text before an image is shared with any request, text behind it only with those that hold the same image there. The
tokens of an item lie above every vocabulary, and depend on identity and position, as the keys of vLLM's blocks do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash

from prefixscope.models.media import MediaItem, Modality
from prefixscope.records import MEDIA_TOKEN, Json

__all__ = ["Expansion", "Placeholders", "expand", "first_by_url", "without_media"]

_FIRST, _BY_URL = 1 << 30, 1 << 29
_HASH = (1 << 27) - 1
_MODALITIES: tuple[Modality, ...] = ("image", "video", "audio", "other")

_CONFIG_KEYS: Mapping[Modality, tuple[str, ...]] = {
    "image": ("image_token_id", "image_token_index", "boi_token_id", "boi_token_index"),
    "video": ("video_token_id", "video_token_index"),
    "audio": ("audio_token_id", "audio_token_index", "boa_token_id", "boa_token_index"),
    "other": (),
}
_WRITTEN: Mapping[Modality, tuple[str, ...]] = {
    "image": ("<|image_pad|>", "<|IMAGE|>", "<|image|>", "<image>", "<start_of_image>", "[IMG]", "<image_soft_token>"),
    "video": ("<|video_pad|>", "<|VIDEO|>", "<|video|>", "<video>"),
    "audio": ("<|audio_pad|>", "<|AUDIO|>", "<|audio|>", "<audio>", "<start_of_audio>"),
    "other": (),
}
"""What templates write for an item before the engine expands it."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """A prompt with its media in place. `known` says whether every item's number of tokens is known, and from what."""

    ids: bytes
    known: str


class Placeholders:
    """Where a model's templates leave room for media: single tokens by id, else the texts that stand for them."""

    def __init__(
        self,
        config: Mapping[str, Json] | None,
        token_id: Callable[[str], int | None],
        encode: Callable[[str], bytes],
    ) -> None:
        self._encode = encode
        inner = (config or {}).get("thinker_config")
        configs = [part for part in (config, inner) if isinstance(part, Mapping)]
        self._tokens: dict[Modality, list[int]] = {}
        for modality in _MODALITIES:
            named = [part.get(key) for part in configs for key in _CONFIG_KEYS[modality]]
            named += [token_id(text) for text in _WRITTEN[modality]]
            self._tokens[modality] = list(dict.fromkeys(one for one in named if type(one) is int and one >= 0))

    def find(self, ids: bytes, text: str, items: Sequence[MediaItem]) -> list[tuple[int, int]] | None:
        """(first token, tokens) of each item's placeholder in order; None where they can't be told for certain."""
        places: list[tuple[int, int] | None] = [None] * len(items)
        tokens = np.frombuffer(ids, "<u4")
        for modality in _MODALITIES:
            mine = [number for number, item in enumerate(items) if item.modality == modality]
            found = self._places(tokens, text, modality, len(mine)) if mine else []
            if found is None:
                return None
            for number, place in zip(mine, found, strict=True):
                places[number] = place
        complete = [place for place in places if place is not None]
        return complete if len(complete) == len(items) and complete == sorted(complete) else None

    def ids_of(self, modality: Modality) -> list[int]:
        """The ids that stand for an item in the text, for showing a prompt; empty where none is known."""
        if self._tokens[modality]:
            return self._tokens[modality][:1]
        written = _WRITTEN[modality]
        return np.frombuffer(self._encode(written[-1 if modality != "image" else 3]), "<u4").tolist() if written else []

    def _places(
        self, tokens: npt.NDArray[np.uint32], text: str, modality: Modality, count: int
    ) -> list[tuple[int, int]] | None:
        for token in self._tokens[modality]:
            found = np.flatnonzero(tokens == token).tolist()
            if len(found) == count:
                return [(place, 1) for place in found]
            if found:
                return None  # written by hand in a text, or several per item: which is which can't be told
        for written in _WRITTEN[modality]:
            if text.count(written) == count:
                return self._by_text(tokens.tobytes(), text, written)
        return None

    def _by_text(self, ids: bytes, text: str, written: str) -> list[tuple[int, int]] | None:
        """Places of a text that is not one token; only where tokens begin and end exactly with it."""
        lead = len(ids) - len(self._encode(text))
        places, end = [], 0
        while (start := text.find(written, end)) >= 0:
            end = start + len(written)
            before, through = self._encode(text[:start]), self._encode(text[:end])
            if lead < 0 or not (ids[lead:].startswith(through) and through.startswith(before)):
                return None
            places.append(((lead + len(before)) // 4, (len(through) - len(before)) // 4))
        return places


def expand(
    ids: bytes,
    places: Sequence[tuple[int, int]],
    items: Sequence[MediaItem],
    computed: Sequence[int | None],
    logged_tokens: int | None,
) -> Expansion:
    """The prompt with every placeholder replaced by its item's tokens.

    `computed` are the lengths that the model's files tell, `logged_tokens` the engine's own count of the whole prompt,
    which decides where both are known. A length that neither tells is 1, and the rest of a known sum falls to the last
    unknown item: nothing is then counted as shared that is not.
    """
    lengths, known = _lengths(len(ids) // 4 - sum(size for _, size in places), items, computed, logged_tokens)
    pieces, done = [], 0
    for (start, size), item, length in zip(places, items, lengths, strict=True):
        pieces.append(ids[4 * done : 4 * start])
        pieces.append(_tokens_of(item, length))
        done = start + size
    return Expansion(b"".join([*pieces, ids[4 * done :]]), known)


def _lengths(
    text_tokens: int, items: Sequence[MediaItem], computed: Sequence[int | None], logged: int | None
) -> tuple[list[int], str]:
    total = None if logged is None or logged - text_tokens < len(items) else logged - text_tokens
    if None not in computed and total in (None, sum(length or 0 for length in computed)):
        return [length or 1 for length in computed], "model"
    if total is None:
        return [length or 1 for length in computed], "nothing"
    alike = {(item.identity, item.size) for item in items}
    sizes = {item.size for item in items}
    same = len({item.identity for item in items}) == 1 or (len(sizes) == 1 and None not in sizes)
    if alike and same and total % len(items) == 0:
        return [total // len(items)] * len(items), "usage"
    fixed = sum(length for length in computed if length is not None)
    open_items = [number for number, length in enumerate(computed) if length is None]
    if not open_items or total - fixed < len(open_items):
        # The files and the engine disagree: the engine's sum holds, and how it is split is not known.
        fixed, open_items, computed = 0, list(range(len(items))), [None] * len(items)
    lengths = [length or 1 for length in computed]
    lengths[open_items[-1]] = total - fixed - (len(open_items) - 1)
    return lengths, "usage" if len(open_items) == 1 else "sum"


def _tokens_of(item: MediaItem, length: int) -> bytes:
    """Tokens above every vocabulary: equal only for equal identities at equal places inside the item."""
    seed = np.uint64(xxhash.xxh3_64_intdigest(item.identity.encode()))
    with np.errstate(over="ignore"):
        mixed = seed + np.arange(1, length + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    flags = MEDIA_TOKEN | (_BY_URL if item.known_by == "url" else 0) | _MODALITIES.index(item.modality) << 27
    tokens = (mixed >> np.uint64(37) & np.uint64(_HASH)).astype("<u4") | np.uint32(flags)
    tokens[0] |= np.uint32(_FIRST)
    return bytes(tokens.tobytes())


def first_by_url(ids: bytes) -> int | None:
    """The first token of a medium that is known by its address only; None where there is none."""
    marks = np.uint32(MEDIA_TOKEN | _BY_URL)
    found = np.flatnonzero(np.frombuffer(ids, "<u4") & marks == marks)
    return int(found[0]) if len(found) else None


def without_media(ids: bytes, placeholder: Callable[[Modality], list[int]]) -> list[int]:
    """The ids for a tokenizer: every item as its placeholder again."""
    tokens = np.frombuffer(ids, "<u4")
    if not (tokens & np.uint32(MEDIA_TOKEN)).any():
        listed: list[int] = tokens.tolist()
        return listed
    shown: list[int] = []
    for token in tokens.tolist():
        if not token & MEDIA_TOKEN:
            shown.append(token)
        elif token & _FIRST:
            shown.extend(placeholder(_MODALITIES[token >> 27 & 3]))
    return shown
