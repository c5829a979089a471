"""A rendered chat with its media in place, or the reason to keep it apart from requests with other media."""

from __future__ import annotations

from dataclasses import dataclass

import xxhash

from prefixscope.models.media import MediaItem, media_items, together
from prefixscope.models.media_sizes import image_tokens
from prefixscope.models.media_tokens import expand
from prefixscope.models.template import Rendering, Unrenderable
from prefixscope.models.tokenizer import LoadedModel
from prefixscope.records import LoggedRequest

__all__ = ["WithMedia", "embedded_prompt", "with_media"]

_TOLD = {
    "model": "media_counted",
    "usage": "media_counted",
    "sum": "media_counted_together",
    "nothing": "media_length_unknown",
}


@dataclass(frozen=True, slots=True)
class WithMedia:
    """`ids` with every item expanded; or, where placeholders can't be told, as they were, and `apart` names what a
    request must hold to share with this one."""

    ids: bytes
    apart: str | None = None
    notes: tuple[str, ...] = ()


def with_media(request: LoggedRequest, model: LoadedModel, rendering: Rendering, ids: bytes, text: str) -> WithMedia:
    """What the engine makes of a chat's media, as far as the log and the model's files tell."""
    items = media_items(request.body, request.source, by_uuid=rendering != "sglang")
    if not items:
        return WithMedia(ids)
    notes = tuple(
        note
        for note, known_by in (("media_by_url", "url"), ("media_without_content", "nothing"))
        if any(item.known_by == known_by for item in items)
    )
    places = model.placeholders.find(ids, text, items)
    if places is None:
        return WithMedia(ids, together(items), ("media_not_counted", *notes))
    kwargs = request.body.get("mm_processor_kwargs")
    computed = [
        image_tokens(model.config, model.processor, item.size) if item.modality == "image" and not kwargs else None
        for item in items
    ]
    usage = request.usage if request.prompts_in_call == 1 else None
    expansion = expand(ids, places, items, computed, None if usage is None else usage.prompt_tokens)
    return WithMedia(expansion.ids, None, (_TOLD[expansion.known], *notes))


def embedded_prompt(request: LoggedRequest) -> bytes:
    """A prompt given as embeddings, as tokens made of the whole of them: only an equal one shares with it.

    vLLM keys each block by its own stretch of the tensor, so two that begin alike share there: a lower bound. Raises
    Unrenderable where the log does not say how many tokens it is.
    """
    length = None if request.usage is None else request.usage.prompt_tokens
    if not length:
        raise Unrenderable("embeddings_without_length", "no usage tells the length of a prompt given as embeddings")
    payload = str(request.body["prompt_embeds"]).encode("utf-8", "surrogatepass")
    item = MediaItem("other", xxhash.xxh3_128_hexdigest(payload), "content")
    return expand(b"", [(0, 0)], [item], [length], None).ids
