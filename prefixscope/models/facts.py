"""What is known of one model without reading a log: for `prefixscope models NAME|DIR`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prefixscope.models.identity import fingerprint
from prefixscope.models.table import ModelEntry
from prefixscope.models.template import Rendering, content_format
from prefixscope.models.tokenizer import LoadedModel, load_model, model_config
from prefixscope.records import Json

__all__ = ["ModelFacts", "TemplateFacts", "model_facts"]


@dataclass(frozen=True, slots=True)
class TemplateFacts:
    """One chat template: its name ("default" for the unnamed one), fingerprint, length, and what it does.

    `content_formats` says how servers of each kind hand it content; `prints_date` that it asks for today's date, so
    that prefixes break at midnight.
    """

    name: str
    fingerprint: str
    characters: int
    content_formats: Mapping[str, str]
    prints_date: bool


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """How a name is resolved, and fingerprints of what makes token ids."""

    name: str
    base: str
    adapter: str | None
    location: str
    revision: str | None
    tokenizer_class: str
    vocabulary_size: int
    tokenizer_fingerprint: str
    encoder: str
    templates: tuple[TemplateFacts, ...]
    chosen_template: str | None
    adds_special_tokens: bool
    """Whether a bare completion prompt gets special tokens (BOS, ...) around it."""
    architecture: str | None
    model_type: str | None
    has_mistral_tokenizer: bool
    config: Mapping[str, Json] | None


def model_facts(entry: ModelEntry, loaded: LoadedModel | None = None) -> ModelFacts:
    """The facts of an entry; loads it unless it is given. Raises ModelError."""
    model = load_model(entry) if loaded is None else loaded
    config = model_config(entry)
    architectures = (config or {}).get("architectures") or [None]
    location = str(entry.location)
    return ModelFacts(
        name=entry.name,
        base=entry.base,
        adapter=entry.adapter,
        location=location,
        revision=entry.revision,
        tokenizer_class=model.tokenizer.facts.class_name,
        vocabulary_size=model.tokenizer.facts.vocabulary_size,
        tokenizer_fingerprint=model.tokenizer_fingerprint,
        encoder=model.encoder.name,
        templates=tuple(_template_facts(name, source) for name, source in sorted(model.templates.items())),
        chosen_template=model.chosen,
        adds_special_tokens=bool(model.encoder.encode("", True)),
        architecture=architectures[0],
        model_type=(config or {}).get("model_type"),
        has_mistral_tokenizer=(Path(location) / "tekken.json").is_file(),
        config=config,
    )


def _template_facts(name: str, source: str) -> TemplateFacts:
    kinds: tuple[Rendering, ...] = ("vllm", "sglang")
    formats: dict[str, str] = {kind: content_format(source, kind) for kind in kinds}
    return TemplateFacts(name, fingerprint(source), len(source), formats, "strftime_now" in source)
