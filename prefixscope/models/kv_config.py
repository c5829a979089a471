"""What layers a model has, from its config.json; a field or type that is not understood is an error, not a guess."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prefixscope.errors import ModelError

__all__ = ["Attention", "Latent", "Layers", "ModelLayers", "Recurrent", "layers_of"]

Config = Mapping[str, Any]
AttentionKind = Literal["full", "sliding_window", "chunked"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Keys and values per head (MHA, GQA, MQA)."""

    kv_heads: int
    head_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: one vector per token; `indexer_dim` where sparse attention keeps keys of its own."""

    rank: int
    rope_dim: int
    indexer_dim: int = 0


@dataclass(frozen=True, slots=True)
class Recurrent:
    """Mamba-2 and linear attention: a convolution over `conv_channels` and `head_numbers` numbers per head."""

    conv_channels: int
    conv_kernel: int
    heads: int
    head_numbers: int
    conv_dtype: str


@dataclass(frozen=True, slots=True)
class Layers:
    """`count` layers of one shape; `window` tokens where they don't see everything."""

    shape: Attention | Latent | Recurrent
    count: int
    kind: AttentionKind = "full"
    window: int | None = None


@dataclass(frozen=True, slots=True)
class ModelLayers:
    """All layers that keep something, with the model's number type."""

    groups: tuple[Layers, ...]
    dtype: str
    state_dtype: str = field(default="bfloat16")


def layers_of(config: Config) -> ModelLayers:
    """The layers of a config.json; of its `text_config` where the model also sees images."""
    text: Config = config
    if "text_config" in config:
        text = {"torch_dtype": config.get("torch_dtype", config.get("dtype")), **config["text_config"]}
    name = text.get("model_type") or config.get("model_type")
    if not isinstance(name, str) or name not in _READERS:
        raise ModelError(f"config.json: KV size of model_type {name!r} is not known")
    groups = tuple(group for group in _READERS[name](text) if group.count)
    if not groups:
        raise ModelError(f"config.json: model_type {name!r} with no layer that keeps anything")
    dtype = _dtype(text.get("torch_dtype") or text.get("dtype"))
    state = text.get("mamba_ssm_cache_dtype") or text.get("mamba_ssm_dtype")
    return ModelLayers(groups, dtype, _dtype(state) if state else dtype)


def _dtype(name: Any) -> str:
    plain = str(name).removeprefix("torch.")
    if plain not in ("bfloat16", "float16", "float32"):
        raise ModelError(f"config.json: number type {name!r} (torch_dtype) is not known")
    return plain


def _number(config: Config, *names: str) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    raise ModelError(f"config.json: no positive number {' or '.join(names)}")


def _attention(config: Config) -> Attention:
    heads = _number(config, "num_attention_heads", "n_head")
    kv_heads = _number(config, "num_key_value_heads") if config.get("num_key_value_heads") else heads
    if config.get("head_dim"):
        size = _number(config, "head_dim")
    else:
        hidden = _number(config, "hidden_size", "n_embd")
        if hidden % heads:
            raise ModelError(f"config.json: hidden size {hidden} is not a multiple of {heads} heads, and no head_dim")
        size = hidden // heads
    return Attention(kv_heads, size, size)


def _mixed(config: Config, kinds: list[str], shape: Attention) -> list[Layers]:
    """Counts layers by kind; the names are those of `layer_types`."""
    unknown = sorted(set(kinds) - {"full_attention", "sliding_attention", "chunked_attention"})
    if unknown:
        raise ModelError(f"config.json: layer type {unknown[0]!r} is not known")
    groups = [Layers(shape, kinds.count("full_attention"))]
    if sliding := kinds.count("sliding_attention"):
        groups.append(Layers(shape, sliding, "sliding_window", _number(config, "sliding_window")))
    if chunked := kinds.count("chunked_attention"):
        groups.append(Layers(shape, chunked, "chunked", _number(config, "attention_chunk_size")))
    return groups


def _kinds(config: Config, default: Callable[[int], str]) -> list[str]:
    """`layer_types` as written, or by rule for configs from before that field."""
    layers = _number(config, "num_hidden_layers", "n_layer")
    given = config.get("layer_types")
    if given is None:
        return [default(i) for i in range(layers)]
    if len(given) != layers:
        raise ModelError(f"config.json: {len(given)} layer_types for {layers} layers")
    return list(given)


def _plain(config: Config) -> list[Layers]:
    """Full attention in every layer, unless `layer_types` says otherwise."""
    return _mixed(config, _kinds(config, lambda i: "full_attention"), _attention(config))


def _maybe_sliding(config: Config) -> list[Layers]:
    """Mistral: a `sliding_window` that is set holds in every layer."""
    kind = "sliding_attention" if config.get("sliding_window") else "full_attention"
    return _mixed(config, _kinds(config, lambda i: kind), _attention(config))


def _qwen(config: Config) -> list[Layers]:
    """Qwen 2 and 3: the window holds only with `use_sliding_window`, from layer `max_window_layers` on."""
    sliding = bool(config.get("use_sliding_window"))
    begin = _number(config, "max_window_layers") if sliding else 0
    return _mixed(
        config,
        _kinds(config, lambda i: "sliding_attention" if sliding and i >= begin else "full_attention"),
        _attention(config),
    )


def _full_every(period_name: str, period: int, other: str) -> Callable[[Config], list[Layers]]:
    """Every `period`-th layer (named in the config, or this default) sees everything, the others are `other`."""

    def read(config: Config) -> list[Layers]:
        every = _number(config, period_name) if config.get(period_name) else period
        kinds = _kinds(config, lambda i: other if (i + 1) % every else "full_attention")
        return _mixed(config, kinds, _attention(config))

    return read


def _llama4(config: Config) -> list[Layers]:
    """Llama 4: layers without rotary position (no_rope_layers 0, else every fourth) see everything."""
    flags = config.get("no_rope_layers")
    every = _number(config, "no_rope_layer_interval") if config.get("no_rope_layer_interval") else 4

    def kind(layer: int) -> str:
        chunked = bool(flags[layer]) if flags else bool((layer + 1) % every)
        return "chunked_attention" if chunked else "full_attention"

    return _mixed(config, _kinds(config, kind), _attention(config))


def _falcon(config: Config) -> list[Layers]:
    shape = _attention({**config, "num_key_value_heads": None})
    if config.get("new_decoder_architecture"):
        heads = _number(config, "num_kv_heads")
    else:
        heads = 1 if config.get("multi_query", True) else shape.kv_heads
    return [Layers(Attention(heads, shape.head_dim, shape.head_dim), _number(config, "num_hidden_layers", "n_layer"))]


def _bigcode(config: Config) -> list[Layers]:
    shape = _attention(config)
    heads = 1 if config.get("multi_query", True) else shape.kv_heads
    return [Layers(Attention(heads, shape.head_dim, shape.head_dim), _number(config, "n_layer", "num_hidden_layers"))]


def _latent(config: Config) -> Latent:
    indexer = _number(config, "index_head_dim") if config.get("index_head_dim") else 0
    return Latent(_number(config, "kv_lora_rank"), _number(config, "qk_rope_head_dim"), indexer)


def _deepseek(config: Config) -> list[Layers]:
    return [Layers(_latent(config), _number(config, "num_hidden_layers"))]


def _qwen_next(config: Config) -> list[Layers]:
    """Qwen3-Next: gated delta nets, and full attention in every `full_attention_interval`-th layer."""
    every = _number(config, "full_attention_interval") if config.get("full_attention_interval") else 4
    kinds = _kinds(config, lambda i: "linear_attention" if (i + 1) % every else "full_attention")
    keys, values = _number(config, "linear_num_key_heads"), _number(config, "linear_num_value_heads")
    key_dim, value_dim = _number(config, "linear_key_head_dim"), _number(config, "linear_value_head_dim")
    state = Recurrent(
        2 * key_dim * keys + value_dim * values, _number(config, "linear_conv_kernel_dim"), values,
        value_dim * key_dim, _dtype(config.get("torch_dtype") or config.get("dtype")),
    )  # fmt: skip
    recurrent = Layers(state, kinds.count("linear_attention"))
    return [*_mixed(config, [k for k in kinds if k != "linear_attention"], _attention(config)), recurrent]


def _nemotron_h(config: Config) -> list[Layers]:
    """Nemotron-H: one letter per layer, `M` Mamba-2, `*` attention, `-` and `E` keep nothing."""
    pattern = config.get("hybrid_override_pattern")
    if not isinstance(pattern, str) or set(pattern) - set("M*-E"):
        raise ModelError("config.json: no hybrid_override_pattern of M, *, - and E")
    heads, size = _number(config, "mamba_num_heads"), _number(config, "mamba_head_dim")
    states = _number(config, "ssm_state_size")
    shape = Recurrent(
        heads * size + 2 * _number(config, "n_groups") * states, _number(config, "conv_kernel"), heads,
        size * states, _dtype(config.get("torch_dtype") or config.get("dtype")),
    )  # fmt: skip
    named = {**config, "head_dim": config.get("head_dim") or config.get("attention_head_dim")}
    return [Layers(_attention(named), pattern.count("*")), Layers(shape, pattern.count("M"))]


_PLAIN = (
    "llama", "granite", "granitemoe", "olmo", "olmo2", "olmoe", "stablelm", "gemma", "glm", "glm4", "glm4_moe",
    "cohere", "internlm2", "gpt_neox", "gpt2", "opt", "phi", "nemotron", "smollm3", "seed_oss", "ernie4_5",
    "ernie4_5_moe", "minimax_m2", "gpt_oss", "baichuan", "qwen3_vl_text", "qwen3_vl_moe_text",
)  # fmt: skip
_READERS: Mapping[str, Callable[[Config], list[Layers]]] = {
    **dict.fromkeys(_PLAIN, _plain),
    **dict.fromkeys(("mistral", "mixtral", "starcoder2", "ministral"), _maybe_sliding),
    **dict.fromkeys(
        ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text"),
        _qwen,
    ),
    "gemma2": _full_every("sliding_window_pattern", 2, "sliding_attention"),
    **dict.fromkeys(("gemma3", "gemma3_text"), _full_every("sliding_window_pattern", 6, "sliding_attention")),
    "cohere2": _full_every("sliding_window_pattern", 4, "sliding_attention"),
    **dict.fromkeys(("llama4", "llama4_text"), _llama4),
    **dict.fromkeys(("falcon", "RefinedWebModel", "RefinedWeb"), _falcon),
    "gpt_bigcode": _bigcode,
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"), _deepseek),
    "qwen3_next": _qwen_next,
    "nemotron_h": _nemotron_h,
}
"""model_type of config.json -> its reader."""
