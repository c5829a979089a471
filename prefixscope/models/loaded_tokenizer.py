"""A tokenizer in memory: its Rust backend, or transformers' object where it has none, and what a run asks of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prefixscope.models.identity import fingerprint
from prefixscope.records import Json

__all__ = ["LoadedTokenizer", "TokenizerFacts", "loaded_tokenizer"]


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """What is known of a tokenizer beside its backend.

    `templates` maps names to template sources ("default" is the unnamed one; empty: it has none). `special_tokens` are
    the template variables bos_token, eos_token, ...
    """

    class_name: str
    vocabulary_size: int
    templates: Mapping[str, str]
    special_tokens: Mapping[str, Json]
    bos_id: int | None
    unknown_id: int | None


@dataclass(frozen=True)
class LoadedTokenizer:
    """`serialised` is what the backend writes of itself, `make` gives the backend (a `tokenizers.Tokenizer` without
    truncation and padding). Both are None for a tokenizer without one, which `slow`, transformers' object, serves.
    """

    facts: TokenizerFacts
    serialised: str | None
    make: Callable[[], Any] | None
    slow: Any = None

    @cached_property
    def backend(self) -> Any:
        """The backend, made when first asked for: a log of token ids never needs it. None where there is none."""
        return None if self.make is None else self.make()

    @cached_property
    def fingerprint(self) -> str:
        """xxh3 of the serialised backend, or of vocabulary and class where there is no Rust backend."""
        if self.serialised is not None:
            return fingerprint(self.serialised)
        vocabulary = (self.slow or self.backend).get_vocab()
        return fingerprint(f"{self.facts.class_name}\n{json.dumps(vocabulary, sort_keys=True)}")

    def token_id(self, text: str) -> int | None:
        """The id of one token by its text; None where there is none or it is the unknown token."""
        if self.backend is not None:
            found = self.backend.token_to_id(text)
        else:
            found = self.slow.convert_tokens_to_ids(text)
        return found if type(found) is int and found != self.facts.unknown_id else None

    def decode(self, ids: list[int]) -> str:
        """The text of ids, special tokens included."""
        if self.backend is not None:
            return str(self.backend.decode(ids, skip_special_tokens=False))
        return str(self.slow.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def loaded_tokenizer(tokenizer: Any) -> LoadedTokenizer:
    """What transformers loaded, as this package uses it. Truncation and padding are taken off."""
    from transformers.utils.chat_template_utils import _plain_template_data

    facts = TokenizerFacts(
        class_name=type(tokenizer).__name__,
        vocabulary_size=len(tokenizer),
        templates=_named_templates(tokenizer),
        special_tokens=_plain_template_data(dict(tokenizer.special_tokens_map)),
        bos_id=_id_or_none(getattr(tokenizer, "bos_token_id", None)),
        unknown_id=_id_or_none(getattr(tokenizer, "unk_token_id", None)),
    )
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "to_str"):
        return LoadedTokenizer(facts, None, None, tokenizer)
    backend.no_truncation()
    backend.no_padding()
    try:
        serialised = backend.to_str()
    except Exception:  # parts written in Python can't be serialised: such a backend serves alone
        serialised = None
    return LoadedTokenizer(facts, serialised, lambda: backend)


def _named_templates(tokenizer: Any) -> dict[str, str]:
    template = getattr(tokenizer, "chat_template", None)
    if template is None:
        return {}
    return dict(template) if isinstance(template, dict) else {"default": template}


def _id_or_none(value: Any) -> int | None:
    return value if type(value) is int else None
