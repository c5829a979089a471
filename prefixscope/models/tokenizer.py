"""Loads a tokenizer with its chat templates from a folder or the local Hugging Face cache. Nothing is downloaded, and
code that comes with a model is never run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from prefixscope.errors import ModelError
from prefixscope.models.encode import Encoder, encoder_for
from prefixscope.models.identity import fingerprint
from prefixscope.models.media_tokens import Placeholders, without_media
from prefixscope.models.table import ModelEntry
from prefixscope.records import Json

__all__ = ["LoadedModel", "load_model", "model_config"]

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt", "spiece.model")


@dataclass(frozen=True)
class LoadedModel:
    """A tokenizer and its templates, ready for use.

    `templates` maps names to template sources ("default" is the unnamed one; empty: the model has none).
    `special_tokens` are the template variables bos_token, eos_token, ... `chosen` is the name or None for the
    usual choice.
    """

    entry: ModelEntry
    tokenizer: Any
    templates: Mapping[str, str]
    special_tokens: Mapping[str, Json]
    encoder: Encoder
    chosen: str | None = None

    @cached_property
    def tokenizer_fingerprint(self) -> str:
        """xxh3 of the serialised backend, or of vocabulary and class where there is no Rust backend."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None and hasattr(backend, "to_str"):
            return fingerprint(backend.to_str())
        vocabulary = json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        return fingerprint(f"{type(self.tokenizer).__name__}\n{vocabulary}")

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

        def token_id(text: str) -> int | None:
            found = self.tokenizer.convert_tokens_to_ids(text)
            unknown = getattr(self.tokenizer, "unk_token_id", None)
            return found if type(found) is int and found != unknown else None

        return Placeholders(self.config, token_id, lambda text: self.encoder.encode(text, False))

    @cached_property
    def continues_alone(self) -> bool:
        """Whether text gives the same ids behind other text as alone (false for tokenizers that mark a beginning)."""
        alone, behind = self.encoder.encode("x", False), self.encoder.encode("\nx", False)
        return behind == self.encoder.encode("\n", False) + alone

    def char_of_token(self, text: str, token: int, add_special_tokens: bool = False) -> int:
        """The place in `text` where token number `token` begins; the end of the text for one past the last.

        Exact for tokenizers with a Rust backend. Others are asked for growing beginnings of the text.
        """
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None and hasattr(backend, "to_str"):
            places = backend.encode(text, add_special_tokens=add_special_tokens).offsets
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
        listed = without_media(ids, self.placeholders.ids_of)
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None and hasattr(backend, "to_str"):
            # what the wrapper does too, after looking at every id for being a tensor
            return str(backend.decode(listed, skip_special_tokens=False))
        return str(self.tokenizer.decode(listed, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def load_model(entry: ModelEntry, *, fast: bool = True, late: bool = False) -> LoadedModel:
    """Loads what an entry names; `fast` and `late` are those of `encoder_for`.

    Raises ModelError naming the model, what is missing and what to do.
    """
    if entry.location is None:
        raise ModelError(
            f"model {entry.name!r} ({entry.source}) has no tokenizer; give its folder or hub id as path, or "
            f"--model {entry.name}=FOLDER_OR_HUB_ID"
        )
    tokenizer = _load_tokenizer(entry, entry.location)
    templates = _named_templates(tokenizer)
    chosen = None
    if entry.chat_template is not None:
        chosen, templates = _chosen_template(entry, entry.chat_template, templates)
    from transformers.utils.chat_template_utils import _plain_template_data

    special_tokens = _plain_template_data(dict(tokenizer.special_tokens_map))
    return LoadedModel(
        entry, tokenizer, templates, special_tokens, encoder_for(tokenizer, fast=fast, late=late), chosen
    )


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
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        return None
    except ValueError as error:
        raise ModelError(f"model {entry.name!r}: {path} is not JSON: {error}") from None
    return found if isinstance(found, dict) else None


def _load_tokenizer(entry: ModelEntry, location: str) -> Any:
    folder = Path(location)
    if folder.is_dir():
        if not any((folder / name).is_file() for name in _TOKENIZER_FILES) and not any(folder.glob("*.tiktoken")):
            raise ModelError(
                f"model {entry.name!r}: folder {location} holds no tokenizer (looked for {', '.join(_TOKENIZER_FILES)})"
            )
    elif folder.is_file() or location.startswith((".", "/")) or location.count("/") > 1 or "\\" in location:
        raise ModelError(f"model {entry.name!r}: there is no folder {location}")
    # before the import: transformers otherwise prints that it found no PyTorch
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity(logging.CRITICAL)
    try:
        return AutoTokenizer.from_pretrained(
            location, revision=entry.revision or "main", trust_remote_code=False, local_files_only=True
        )
    except Exception as error:  # every tokenizer class fails in its own way on damaged or missing files
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        if folder.is_dir():
            raise ModelError(f"model {entry.name!r}: the tokenizer in {location} can't be loaded: {reason}") from None
        raise ModelError(
            f"model {entry.name!r}: {location!r} is neither a folder nor in the local Hugging Face cache; "
            f"fetch it first (hf download {location}), or give a folder"
        ) from None


def _named_templates(tokenizer: Any) -> dict[str, str]:
    template = getattr(tokenizer, "chat_template", None)
    if template is None:
        return {}
    return dict(template) if isinstance(template, dict) else {"default": template}


def _chosen_template(entry: ModelEntry, chat_template: str, named: dict[str, str]) -> tuple[str, dict[str, str]]:
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
