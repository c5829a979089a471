"""A model ready for use: its tokenizer, chat templates, config and encoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from prefixscope.errors import ModelError
from prefixscope.models.encode import Build, Encoder, encoder_for
from prefixscope.models.loaded_tokenizer import LoadedTokenizer
from prefixscope.models.media_tokens import Placeholders, without_media
from prefixscope.models.table import ModelEntry
from prefixscope.models.tokenizer_files import load_tokenizer
from prefixscope.records import Json

__all__ = ["LoadedModel", "load_model", "model_config"]


@dataclass(frozen=True)
class LoadedModel:
    """A tokenizer and its templates, ready for use.

    `templates` maps names to template sources ("default" is the unnamed one; empty: the model has none). `chosen` is
    the name of the one to use or None for the usual choice.
    """

    entry: ModelEntry
    tokenizer: LoadedTokenizer
    templates: Mapping[str, str]
    encoder: Encoder
    chosen: str | None = None

    @property
    def special_tokens(self) -> Mapping[str, Json]:
        """The template variables bos_token, eos_token, ..."""
        return self.tokenizer.facts.special_tokens

    @property
    def tokenizer_fingerprint(self) -> str:
        """One name for what makes the ids."""
        return self.tokenizer.fingerprint

    def template_for(self, tools: Json) -> str | None:
        """The source that renders a request, as transformers chooses: a template named `tool_use` serves requests
        with tools. None when the model has no template.
        """
        if self.chosen is not None:
            return self.templates[self.chosen]
        if tools is not None and "tool_use" in self.templates:
            return self.templates["tool_use"]
        return self.templates.get("default")

    @cached_property
    def config(self) -> Mapping[str, Json] | None:
        """The model's config.json."""
        return model_config(self.entry)

    @cached_property
    def processor(self) -> Mapping[str, Json] | None:
        """What turns images into patches: preprocessor_config.json, or the newer file that holds it."""
        own = _model_file(self.entry, "preprocessor_config.json")
        if own is None:
            whole = _model_file(self.entry, "processor_config.json") or {}
            own = whole.get("image_processor") if isinstance(whole.get("image_processor"), dict) else None
        return own

    @cached_property
    def placeholders(self) -> Placeholders:
        """How this model's templates mark media."""
        return Placeholders(self.config, self.tokenizer.token_id, lambda text: self.encoder.encode(text, False))

    @cached_property
    def continues_alone(self) -> bool:
        """Whether text gives the same ids behind other text as alone (false for tokenizers that mark a beginning)."""
        alone, behind = self.encoder.encode("x", False), self.encoder.encode("\nx", False)
        return behind == self.encoder.encode("\n", False) + alone

    def char_of_token(self, text: str, token: int, add_special_tokens: bool = False) -> int:
        """The place in `text` where token number `token` begins; the end of the text for one past the last.

        Exact for tokenizers with a Rust backend. Others are asked for growing beginnings of the text.
        """
        if self.tokenizer.backend is not None:
            places = self.tokenizer.backend.encode(text, add_special_tokens=add_special_tokens).offsets
            return int(places[token][0]) if token < len(places) else len(text)
        low, high = 0, len(text)
        while low < high:
            middle = (low + high) // 2
            if len(self.encoder.encode(text[: middle + 1], add_special_tokens)) // 4 > token:
                high = middle
            else:
                low = middle + 1
        return low

    def decode(self, ids: bytes) -> str:
        """The text of ids, special tokens included; a medium is shown as its placeholder."""
        return self.tokenizer.decode(without_media(ids, self.placeholders.ids_of))


def load_model(entry: ModelEntry, *, fast: bool = True, build: Build = "now") -> LoadedModel:
    """Loads what an entry names; `fast` and `build` are those of `encoder_for`.

    Raises ModelError naming the model, what is missing and what to do.
    """
    if entry.location is None:
        raise ModelError(
            f"model {entry.name!r} ({entry.source}) has no tokenizer; give its folder or hub id as path, or "
            f"--model {entry.name}=FOLDER_OR_HUB_ID"
        )
    tokenizer = load_tokenizer(entry.name, entry.location, entry.revision)
    templates, chosen = tokenizer.facts.templates, None
    if entry.chat_template is not None:
        chosen, templates = _chosen_template(entry, entry.chat_template, templates)
    return LoadedModel(entry, tokenizer, templates, encoder_for(tokenizer, fast=fast, build=build), chosen)


def model_config(entry: ModelEntry) -> Mapping[str, Json] | None:
    """config.json of the model, from its folder or the local cache; None where there is none."""
    return _model_file(entry, "config.json")


def _model_file(entry: ModelEntry, name: str) -> Mapping[str, Json] | None:
    """One of the JSON files of a model, from its folder or the local cache; None where there is none."""
    if entry.location is None:
        return None
    path = Path(entry.location) / name
    if not path.is_file() and not Path(entry.location).is_dir():
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            cached = try_to_load_from_cache(entry.location, name, revision=entry.revision)
        except HFValidationError:
            return None
        path = Path(cached) if isinstance(cached, str) else path
    if not path.is_file():  # a pipe of that name would be waited for
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValueError as error:
        raise ModelError(f"model {entry.name!r}: {path} is not JSON: {error}") from None
    return found if isinstance(found, dict) else None


def _chosen_template(entry: ModelEntry, chat_template: str, named: Mapping[str, str]) -> tuple[str, Mapping[str, str]]:
    if chat_template in named:
        return chat_template, named
    path = Path(chat_template)
    try:
        return chat_template, {**named, chat_template: path.read_text(encoding="utf-8")}
    except (OSError, UnicodeDecodeError) as error:
        known = f"; the model's own are {', '.join(sorted(named))}" if named else ""
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise ModelError(
            f"model {entry.name!r}: chat template {chat_template} can't be read ({reason}){known}"
        ) from None
