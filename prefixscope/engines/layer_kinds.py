"""Which kind of attention or state each layer of a model has, from the many ways config.json files say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["LayerKind", "Layers", "layer_kinds", "text_config"]

LayerKind = Literal["full", "sliding_window", "chunked_local", "mamba"]
Config = Mapping[str, Any]

NAMED: Mapping[str, tuple[LayerKind, ...]] = {
    "full_attention": ("full",),
    "attention": ("full",),
    "global_attention": ("full",),
    "sliding_attention": ("sliding_window",),
    "local_attention": ("sliding_window",),
    "sliding_window": ("sliding_window",),
    "chunked_attention": ("chunked_local",),
    "linear_attention": ("mamba",),
    "mamba": ("mamba",),
    "mamba2": ("mamba",),
    "recurrent": ("mamba",),
    "conv": ("mamba",),
    "hybrid": ("full", "mamba"),
    "mlp": (),
    "moe": (),
}
PATTERN: Mapping[str, tuple[LayerKind, ...]] = {"M": ("mamba",), "*": ("full",), "-": (), "E": ()}


@dataclass(frozen=True, slots=True)
class Layers:
    """The kinds found, in layer order (a layer of two kinds counts twice), and sentences about what was not clear."""

    kinds: tuple[LayerKind, ...]
    assumed: tuple[str, ...] = ()


def text_config(config: Config) -> Config:
    """The language model's part of a multimodal config, or the config itself."""
    for name in ("text_config", "language_config", "llm_config"):
        inner = config.get(name)
        if isinstance(inner, Mapping):
            return inner
    return config


def layer_kinds(text: Config) -> Layers:
    """The kind of every layer that keeps KV or a state; a layer of unknown kind counts as full attention, and is told.

    >>> layer_kinds({"num_hidden_layers": 3, "sliding_window": 4096}).kinds
    ('sliding_window', 'sliding_window', 'sliding_window')
    """
    names = text.get("layer_types") or text.get("layers_block_type")
    if isinstance(names, Sequence) and not isinstance(names, str) and names:
        return _by_name(names, text)
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str) and pattern:
        return Layers(tuple(kind for letter in pattern for kind in PATTERN.get(letter, ("full",))))
    count = int(text.get("num_hidden_layers") or text.get("n_layer") or 1)
    recurrent = _recurrent(text, count)
    if recurrent is not None:
        return Layers(recurrent)
    return Layers(_windows(text, count))


def _by_name(names: Sequence[Any], text: Config) -> Layers:
    kinds: list[LayerKind] = []
    unknown: set[str] = set()
    for name in names:
        known = NAMED.get(str(name))
        if known is None:
            unknown.add(str(name))
        kinds.extend(("full",) if known is None else known)
    if not text.get("sliding_window"):
        kinds = ["full" if kind == "sliding_window" else kind for kind in kinds]
    if not text.get("attention_chunk_size"):
        kinds = ["full" if kind == "chunked_local" else kind for kind in kinds]
    told = tuple(f"layers of type {name!r} are counted as full attention" for name in sorted(unknown))
    return Layers(tuple(kinds), told)


def _recurrent(text: Config, count: int) -> tuple[LayerKind, ...] | None:
    """Layers of models with recurrent states that name them by numbers; None for all others."""
    full: set[int] | None = None
    linear = text.get("linear_attn_config")
    if isinstance(linear, Mapping) and linear.get("kda_layers"):
        full = {int(number) - 1 for number in linear.get("full_attn_layers", ())}
    elif text.get("attn_layer_period"):
        period, offset = int(text["attn_layer_period"]), int(text.get("attn_layer_offset", 0))
        full = {layer for layer in range(count) if layer % period == offset}
    elif "attn_layer_indices" in text:
        full = {int(layer) for layer in text["attn_layer_indices"] or ()}
    elif text.get("full_attention_interval"):
        every = int(text["full_attention_interval"])
        full = {layer for layer in range(count) if (layer + 1) % every == 0}
    elif text.get("attn_type_list"):
        full = {layer for layer, kind in enumerate(text["attn_type_list"]) if kind == 1}
    elif text.get("model_type") == "falcon_h1":
        return tuple(kind for _ in range(count) for kind in NAMED["hybrid"])
    elif text.get("model_type") in ("mamba", "mamba2", "falcon_mamba"):
        full = set()
    if full is None:
        return None
    return _where("mamba", [layer not in full for layer in range(count)])


def _windows(text: Config, count: int) -> tuple[LayerKind, ...]:
    """Layers of attention models: all full, all sliding, or a repeated pattern of both."""
    if text.get("attention_chunk_size"):
        # Llama 4 marks layers with rotary positions, which are the chunked ones, by 1.
        rotary: Sequence[int] = text.get("no_rope_layers") or [
            0 if (layer + 1) % 4 == 0 else 1 for layer in range(count)
        ]
        return _where("chunked_local", [bool(mark) for mark in rotary])
    if not text.get("sliding_window") or text.get("use_sliding_window") is False:
        return _where("full", [True] * count)
    every = text.get("sliding_window_pattern") or (2 if text.get("model_type") == "gemma2" else None)
    if isinstance(every, int) and every > 1:
        return _where("sliding_window", [(layer + 1) % every != 0 for layer in range(count)])
    if text.get("use_sliding_window") and "max_window_layers" in text:
        first = int(text["max_window_layers"])
        return _where("sliding_window", [layer >= first for layer in range(count)])
    return _where("sliding_window", [True] * count)


def _where(kind: LayerKind, marks: Sequence[bool]) -> tuple[LayerKind, ...]:
    """`kind` where marked, full attention elsewhere."""
    kinds: list[LayerKind] = [kind if mark else "full" for mark in marks]
    return tuple(kinds)
