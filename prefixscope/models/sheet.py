"""One model on one page: how its name is resolved, what makes its token ids, and what its KV costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prefixscope.errors import ModelError
from prefixscope.models.facts import model_facts
from prefixscope.models.kv_bytes import KvOptions, kv_layout
from prefixscope.models.table import ModelEntry
from prefixscope.models.tokenizer import model_config
from prefixscope.records import Json

__all__ = ["ModelSheet", "model_sheet"]


@dataclass(frozen=True, slots=True)
class ModelSheet:
    """What `prefixscope models` tells. None or empty: not known, with the reason in `notes`.

    KV sizes are bytes over all ranks of one replica under the entry's kv_dtype and parallel sizes.
    """

    name: str
    base: str
    adapter: str | None
    location: str | None
    revision: str | None
    architecture: str | None
    tokenizer_class: str | None
    vocabulary_size: int | None
    tokenizer_fingerprint: str | None
    encoder: str | None
    completion_prompts_get_special_tokens: bool | None
    templates: Mapping[str, str]
    chosen_template: str | None
    templates_that_print_a_date: tuple[str, ...]
    kv_dtype: str | None
    kv_bytes_per_token: int | None
    kv_window_bytes_per_token: int | None
    kv_state_bytes_per_sequence: int | None
    kv_formula: str | None
    notes: tuple[str, ...]


def model_sheet(entry: ModelEntry) -> ModelSheet:
    """The sheet of one entry; what can't be told becomes a note, unless nothing at all can (ModelError)."""
    notes: list[str] = []
    facts, config = None, model_config(entry)
    try:
        facts = model_facts(entry)
        config = facts.config
    except ModelError as error:
        if config is None:
            raise
        notes.append(str(error))
    layout = None
    if config is None:
        notes.append("no config.json: KV bytes are not known")
    else:
        try:
            layout = kv_layout(config, _kv_options(entry))
        except ModelError as error:
            notes.append(f"KV bytes are not known: {error}")
    return ModelSheet(
        name=entry.name,
        base=entry.base,
        adapter=entry.adapter,
        location=entry.location,
        revision=entry.revision,
        architecture=_architecture(config),
        tokenizer_class=None if facts is None else facts.tokenizer_class,
        vocabulary_size=None if facts is None else facts.vocabulary_size,
        tokenizer_fingerprint=None if facts is None else facts.tokenizer_fingerprint,
        encoder=None if facts is None else facts.encoder,
        completion_prompts_get_special_tokens=None if facts is None else facts.adds_special_tokens,
        templates={} if facts is None else {template.name: template.fingerprint for template in facts.templates},
        chosen_template=None if facts is None else facts.chosen_template,
        templates_that_print_a_date=()
        if facts is None
        else tuple(template.name for template in facts.templates if template.prints_date),
        kv_dtype=None if layout is None else layout.dtype,
        kv_bytes_per_token=None if layout is None else layout.bytes_per_token,
        kv_window_bytes_per_token=None if layout is None else layout.window_bytes_per_token or None,
        kv_state_bytes_per_sequence=None if layout is None else layout.state_bytes_per_sequence or None,
        kv_formula=None if layout is None else layout.formula,
        notes=tuple(notes),
    )


def _kv_options(entry: ModelEntry) -> KvOptions:
    return KvOptions(
        dtype=entry.kv_dtype or "auto",
        tensor_parallel=entry.tensor_parallel or 1,
        pipeline_parallel=entry.pipeline_parallel or 1,
    )


def _architecture(config: Mapping[str, Json] | None) -> str | None:
    named = (config or {}).get("architectures")
    return str(named[0]) if isinstance(named, list) and named else None
