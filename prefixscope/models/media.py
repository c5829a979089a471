"""Images, audio and video in messages: which parts are media, and by what an engine would know them again.

vLLM knows a medium by the `uuid` of its part, else by a hash of its content; SGLang by its content. Where a log holds
only an http address the content is not known, and the address stands for it; where it holds neither (a redacted or
cut-off payload) the medium is taken for one of its own, which shares nothing with any other.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import xxhash

from prefixscope.models.media_sizes import is_cut_off, size_of
from prefixscope.records import Json, Source

__all__ = ["KnownBy", "MediaItem", "Modality", "media_items", "media_parts", "together"]

Modality = Literal["image", "video", "audio", "other"]
KnownBy = Literal["uuid", "content", "url", "nothing"]

_TEXT_KINDS = frozenset({
    "text", "input_text", "output_text", "refusal", "thinking", "reasoning", "tool_reference",
})  # fmt: skip
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://\S+|[\w./~-]*\.\w{1,5}")
_LEFT_OUT = re.compile(r"redact|omitted|truncat|\.\.\.|\u2026", re.IGNORECASE)
"""What logs write in place of a payload."""

_PAYLOADS = ("image_url", "input_image", "video_url", "audio_url", "input_audio", "image_embeds", "audio_embeds")


@dataclass(frozen=True, slots=True)
class MediaItem:
    """One medium of a request: `identity` is equal for what an engine takes for the same, and `known_by` says why.

    `size` is (width, height) of an image whose bytes are in the log.
    """

    modality: Modality
    identity: str
    known_by: KnownBy
    size: tuple[int, int] | None = None


def media_parts(messages: Json) -> Iterator[Mapping[str, Json]]:
    """Every part of every message that is no text, in order."""
    for message in messages if isinstance(messages, Sequence) and not isinstance(messages, str) else ():
        content = message.get("content") if isinstance(message, Mapping) else None
        for part in content if isinstance(content, list) else ():
            kind = part.get("type", "text") if isinstance(part, Mapping) else "text"
            if not isinstance(kind, str) or kind not in _TEXT_KINDS:
                yield part


def media_items(body: Mapping[str, Json], source: Source, *, by_uuid: bool) -> tuple[MediaItem, ...]:
    """The media of a chat request in order. `by_uuid`: the engine trusts a part's `uuid` (vLLM).

    `mm_processor_kwargs` change what is made of a medium, so they are part of every identity.

    >>> part = {"type": "image_url", "image_url": {"url": "https://img.example/a.png"}}
    >>> [item.known_by for item in media_items({"messages": [{"content": [part]}]}, Source("log", 1), by_uuid=True)]
    ['url']
    """
    parts = list(media_parts(body.get("messages")))
    if not parts:
        return ()
    settings = json.dumps(body.get("mm_processor_kwargs"), sort_keys=True, default=str)
    return tuple(
        _item(part, f"{source.file}\n{source.line}\n{number}", settings, by_uuid=by_uuid)
        for number, part in enumerate(parts)
    )


def together(items: Sequence[MediaItem]) -> str | None:
    """One hash over the identities of all media in order; None where there are none."""
    if not items:
        return None
    return xxhash.xxh3_128_hexdigest("\n".join(f"{item.modality} {item.identity}" for item in items).encode())


def _item(part: Mapping[str, Json], place: str, settings: str, *, by_uuid: bool) -> MediaItem:
    modality = _modality(str(part.get("type")))
    kind, known = _content(part)
    size = size_of(known) if kind == "content" and isinstance(known, bytes) and modality == "image" else None
    given = part.get("uuid")
    if by_uuid and isinstance(given, str) and given:
        return MediaItem(modality, _hash("uuid", given.encode("utf-8", "surrogatepass"), settings), "uuid", size)
    if kind == "nothing":
        return MediaItem(modality, _hash(kind, place.encode("utf-8", "surrogatepass"), settings), kind)
    return MediaItem(modality, _hash(kind, known, settings), kind, size)


def _hash(kind: str, known: bytes, settings: str) -> str:
    digest = xxhash.xxh3_128(f"{kind}\n{settings}\n".encode("utf-8", "surrogatepass"))
    digest.update(known)
    return digest.hexdigest()


def _modality(kind: str) -> Modality:
    kinds: tuple[Modality, ...] = ("image", "video", "audio")
    return next((modality for modality in kinds if modality in kind), "other")


def _content(part: Mapping[str, Json]) -> tuple[KnownBy, bytes]:
    """What identifies a part beside its uuid: its bytes, its address, or nothing."""
    payload: Json = next((part[name] for name in _PAYLOADS if part.get(name)), None)
    payload = part.get("data") or part.get("image") if payload is None else payload
    is_address = True
    if isinstance(payload, Mapping):
        is_address = not payload.get("data")
        payload = payload.get("url") or payload.get("data") or payload.get("image_url")
    if not isinstance(payload, str) or not payload or _LEFT_OUT.search(payload[:4096]):
        return "nothing", b""
    if not payload.startswith("data:") and is_address and _ADDRESS.fullmatch(payload):
        return "url", payload.encode("utf-8", "surrogatepass")
    encoded = payload.partition(",")[2] if payload.startswith("data:") else payload
    try:
        decoded = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return "nothing", b""
    return ("nothing", b"") if not decoded or is_cut_off(decoded) else ("content", decoded)
