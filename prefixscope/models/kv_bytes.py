"""KV cache bytes per token, per block and per sequence, from a model's config.json.

The formulas are vLLM's (v1/kv_cache_interface.py, 0.32). Attention that sees everything costs bytes per token for as
long as a prefix is kept. Sliding-window and chunked layers need only their last tokens, and recurrent layers one state
of fixed size: both are reported per sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from prefixscope.errors import ModelError, OptionError
from prefixscope.models.kv_config import Attention, Latent, Layers, Recurrent, layers_of

__all__ = ["KV_DTYPES", "KvLayer", "KvLayout", "KvOptions", "kv_layout"]

Kind = Literal["full", "sliding_window", "chunked", "recurrent"]

KV_DTYPES = (
    "auto", "bfloat16", "float16", "float32", "fp8", "int8_per_token_head", "fp8_per_token_head", "nvfp4",
    "fp8_ds_mla", "nvfp4_ds_mla",
)  # fmt: skip
"""Names for the type KV is kept in; `auto` is the model's own."""

_BYTES = {"bfloat16": 2, "float16": 2, "float32": 4, "fp8": 1}
_PER_TOKEN_HEAD_SCALE = 4
_LATENT_BYTES = {"fp8_ds_mla": 656, "nvfp4_ds_mla": 352}
"""DeepSeek's packed latents of 576 numbers: 512 fp8 + 16 scale + 128 rope bytes; nvfp4 352 (mla_attention.py:1365)."""


@dataclass(frozen=True, slots=True)
class KvOptions:
    """How the engine keeps KV. `decode_context_parallel` shards the tokens of a tensor-parallel group."""

    dtype: str = "auto"
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    decode_context_parallel: int = 1
    state_dtype: str = "auto"

    def __post_init__(self) -> None:
        if self.dtype not in KV_DTYPES:
            raise OptionError(f"--kv-dtype {self.dtype}: unknown (known: {', '.join(KV_DTYPES)})")
        if min(self.tensor_parallel, self.pipeline_parallel, self.decode_context_parallel) < 1:
            raise OptionError("parallel sizes must be at least 1")
        if self.tensor_parallel % self.decode_context_parallel:
            raise OptionError(
                f"decode context parallel {self.decode_context_parallel} must divide tensor parallel "
                f"{self.tensor_parallel}"
            )


@dataclass(frozen=True, slots=True)
class KvLayer:
    """`layers` layers of one kind on one tensor-parallel rank.

    `token_bytes`: per layer and token. `state_bytes`: per layer and sequence. `window`: the tokens that count.
    """

    kind: Kind
    layers: int
    token_bytes: int
    formula: str
    window: int | None = None
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KvLayout:
    """Sizes of a model's KV under some options; all totals are over the ranks of one replica."""

    layers: tuple[KvLayer, ...]
    options: KvOptions
    dtype: str

    @property
    def bytes_per_token(self) -> int:
        """Bytes for each token of a prefix that stays reusable, all layers that see everything, all ranks."""
        kept = sum(layer.layers * layer.token_bytes for layer in self.layers if layer.kind == "full")
        return self._all_ranks(kept)

    @property
    def window_bytes_per_token(self) -> int:
        """Bytes for each token inside the windows of sliding-window and chunked layers, all ranks."""
        inside = sum(layer.layers * layer.token_bytes for layer in self.layers if layer.window is not None)
        return self._all_ranks(inside)

    @property
    def state_bytes_per_sequence(self) -> int:
        """Bytes of one set of recurrent states, all ranks."""
        return self.options.tensor_parallel * sum(layer.layers * layer.state_bytes for layer in self.layers)

    @property
    def formula(self) -> str:
        """How the bytes per token come about, in words and numbers."""
        parts = [f"{layer.layers} {layer.kind} layers x {layer.formula}" for layer in self.layers]
        ranks = self.options.tensor_parallel
        spread = "" if ranks == 1 else f"; x {ranks} ranks"
        if self.options.decode_context_parallel > 1:
            spread += f" / {self.options.decode_context_parallel} (decode context parallel)"
        return "; ".join(parts) + spread

    def _all_ranks(self, one_rank: int) -> int:
        return one_rank * self.options.tensor_parallel // self.options.decode_context_parallel

    def block_bytes(self, block_size: int) -> int:
        """Bytes of one block of `block_size` tokens: what a reusable block costs in the whole replica."""
        return block_size * self.bytes_per_token

    def sequence_bytes(self, tokens: int, block_size: int = 1) -> int:
        """Bytes a running sequence holds: whole blocks, windows only as far as they reach, and its states."""
        whole = -(-tokens // block_size) * block_size
        total = whole * self.bytes_per_token + self.state_bytes_per_sequence
        for layer in self.layers:
            if layer.window is not None:
                # One block more than the window, since a window may begin inside a block.
                most = (-(-max(layer.window - 1, 0) // block_size) + 1) * block_size
                total += self._all_ranks(layer.layers * layer.token_bytes) * min(whole, most)
        return total

    def aligned_block_size(self, block_size: int, kernel_block: int = 16) -> int:
        """The block size vLLM really uses: with recurrent layers a block grows until it holds one state.

        `kernel_block` is the smallest block of the attention kernel; platforms/interface.py:939-1150.
        """
        page = max((layer.state_bytes for layer in self.layers), default=0)
        token = max((layer.token_bytes for layer in self.layers if layer.kind == "full"), default=0)
        if not page or not token:
            return block_size
        step = max(kernel_block, block_size)
        return step * -(-page // (step * token))

    def tokens_in(self, size: int) -> int:
        """Tokens of reusable prefix that fit into `size` bytes."""
        if not self.bytes_per_token:
            raise ModelError("this model has no layer whose KV grows with the prefix, so bytes can't become tokens")
        return size // self.bytes_per_token


def kv_layout(config: Mapping[str, Any], options: KvOptions | None = None) -> KvLayout:
    """Reads config.json; ModelError where the architecture or one of its fields is not understood.

    >>> llama = {"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    ...          "hidden_size": 4096, "torch_dtype": "bfloat16"}
    >>> kv_layout(llama).bytes_per_token
    131072
    """
    chosen = options or KvOptions()
    found = layers_of(config)
    dtype = found.dtype if chosen.dtype == "auto" else chosen.dtype
    state = found.state_dtype if chosen.state_dtype == "auto" else chosen.state_dtype
    layers = tuple(_layer(group, dtype, state, chosen) for group in found.groups)
    return KvLayout(layers, chosen, dtype)


def _layer(group: Layers, dtype: str, state_dtype: str, options: KvOptions) -> KvLayer:
    shape = group.shape
    if isinstance(shape, Recurrent):
        size, formula = _state(shape, state_dtype, options.tensor_parallel)
        return KvLayer("recurrent", group.count, 0, formula, None, size)
    if isinstance(shape, Latent):
        size, formula = _latent(shape, dtype)
    else:
        size, formula = _heads(shape, dtype, options.tensor_parallel)
    return KvLayer(group.kind, group.count, size, formula, group.window)


def _heads(shape: Attention, dtype: str, ranks: int) -> tuple[int, str]:
    """Keys and values of one layer and token on one rank; fewer heads than ranks are replicated."""
    heads = shape.kv_heads
    if heads % ranks and ranks % heads:
        raise ModelError(f"{heads} KV heads can't be split over {ranks} tensor-parallel ranks")
    mine = max(1, heads // ranks)
    bytes_each = _number_bytes(shape.head_dim, dtype) + _number_bytes(shape.value_dim, dtype)
    copied = f" ({ranks // heads} copies)" if ranks > heads else ""
    if shape.head_dim == shape.value_dim:
        formula = f"2 (K, V) x {mine} heads{copied} x {shape.head_dim} x {dtype} = {mine * bytes_each} B"
    else:
        formula = f"{mine} heads{copied} x ({shape.head_dim} K + {shape.value_dim} V) x {dtype} = {mine * bytes_each} B"
    return mine * bytes_each, formula


def _number_bytes(count: int, dtype: str) -> int:
    """Bytes of `count` numbers of one head and token, scales included."""
    if dtype in _BYTES:
        return count * _BYTES[dtype]
    if dtype in ("int8_per_token_head", "fp8_per_token_head"):
        return count + _PER_TOKEN_HEAD_SCALE
    if dtype == "nvfp4":
        return count // 2 + count // 16
    raise ModelError(f"KV type {dtype} is not for layers with keys and values per head")


def _latent(shape: Latent, dtype: str) -> tuple[int, str]:
    """One compressed vector per token, the same on every rank; a sparse-attention indexer keeps its own keys."""
    numbers = shape.rank + shape.rope_dim
    if dtype in _LATENT_BYTES:
        if (shape.rank, shape.rope_dim) != (512, 64):
            raise ModelError(f"KV type {dtype} is defined for latents of 512 + 64 numbers, not {numbers}")
        size = _LATENT_BYTES[dtype]
    elif dtype in _BYTES:
        size = numbers * _BYTES[dtype]
    else:
        raise ModelError(f"KV type {dtype} is not for latent attention (MLA)")
    formula = f"({shape.rank} latent + {shape.rope_dim} rope) x {dtype}"
    if shape.indexer_dim:
        # One fp8 key and one fp32 scale per 128 numbers (deepseek_v2.py:731).
        size += shape.indexer_dim + -(-shape.indexer_dim // 128) * 4
        formula += f" + indexer {shape.indexer_dim} fp8 + scales"
    return size, f"{formula} = {size} B"


def _state(shape: Recurrent, dtype: str, ranks: int) -> tuple[int, str]:
    """Convolution and recurrent state of one layer and sequence on one rank."""
    if shape.conv_channels % ranks or shape.heads % ranks:
        raise ModelError(f"{shape.heads} recurrent heads can't be split over {ranks} tensor-parallel ranks")
    if dtype not in _BYTES or shape.conv_dtype not in _BYTES:
        raise ModelError(f"state type {dtype}: unknown (known: {', '.join(_BYTES)})")
    conv = shape.conv_channels // ranks * (shape.conv_kernel - 1)
    state = shape.heads // ranks * shape.head_numbers
    size = conv * _BYTES[shape.conv_dtype] + state * _BYTES[dtype]
    return size, f"state ({conv} conv {shape.conv_dtype} + {state} {dtype}) = {size} B per sequence"
