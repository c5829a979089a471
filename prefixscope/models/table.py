"""Which model a name in the log stands for: `--model NAME=DIR_OR_HUB_ID` and `--models FILE.toml`.

A tokenizer is never guessed: a name that the user did not map resolves to nothing, and the caller says so. Rows that
carry token ids or hashes need no entry; their base model is then the logged name itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from prefixscope.errors import ModelError, OptionError
from prefixscope.records import Json

__all__ = ["ANY_NAME", "ModelEntry", "ModelTable", "parse_model_option", "unresolved_error"]

ANY_NAME = "*"
"""The name of an entry that stands for every logged name without an entry of its own (each stays its own base)."""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """What the user said about one logged model name.

    `base` is the model whose KV may be shared; `location` a folder or hub id with tokenizer and template (None: only
    token ids and hashes can be read); `adapter` is `name@version` or `name`. `chat_template` is a file, or the name of
    one of the model's own templates. `template_options` are the server's default template variables; a request's own
    win. `position` holds rope or yarn overrides. The engine fields are None where nothing was said.
    """

    name: str
    base: str
    location: str | None = None
    revision: str | None = None
    adapter: str | None = None
    chat_template: str | None = None
    template_options: Mapping[str, Json] = field(default_factory=dict)
    position: Mapping[str, Json] | None = None
    engine: str | None = None
    block_size: int | None = None
    match_unit: int | None = None
    speculative: str | None = None
    kv_dtype: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    engine_options: Mapping[str, Json] = field(default_factory=dict)
    """Further settings of the engine, as the file names them (`models.table_file.ENGINE_KEYS`)."""
    source: str = "--model"


@dataclass(frozen=True, slots=True)
class ModelTable:
    """All entries by logged name, `base` references followed: an adapter without a path uses its base's tokenizer."""

    entries: Mapping[str, ModelEntry] = field(default_factory=dict)
    _others: dict[str, ModelEntry] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Names that stand behind `*`, as they come."""

    @classmethod
    def of(cls, entries: Sequence[ModelEntry]) -> ModelTable:
        """Builds the table; a name given twice is an OptionError.

        >>> ModelTable.of([parse_model_option("a=models/a")]).resolve("a").location
        'models/a'
        """
        by_name: dict[str, ModelEntry] = {}
        for entry in entries:
            if entry.name in by_name:
                first = by_name[entry.name].source
                raise OptionError(f"model {entry.name!r} is defined twice, in {first} and in {entry.source}")
            by_name[entry.name] = entry
        return cls({name: _with_base(entry, by_name) for name, entry in by_name.items()})

    def resolve(self, name: str | None) -> ModelEntry | None:
        """The entry of a logged name; None when the user mapped no such name.

        A request that names no model takes the only entry there is. `*` stands for names without an entry.
        """
        if name is not None and name in self.entries:
            return self.entries[name]
        if name is None and len(self.entries) == 1:
            return next(iter(self.entries.values()))
        fallback = self.entries.get(ANY_NAME)
        if fallback is None or name is None:
            return fallback
        if name not in self._others:
            base = name if fallback.base == ANY_NAME else fallback.base
            self._others[name] = replace(fallback, name=name, base=base)
        return self._others[name]


def _with_base(entry: ModelEntry, by_name: Mapping[str, ModelEntry]) -> ModelEntry:
    base = by_name.get(entry.base)
    if base is None or base is entry:
        return entry if entry.location is not None or entry.base == entry.name else replace(entry, location=entry.base)
    if entry.location is not None:
        return replace(entry, position=entry.position if entry.position is not None else base.position)
    return replace(
        entry,
        location=base.location if base.location is not None else base.base,
        revision=entry.revision or base.revision,
        chat_template=entry.chat_template or base.chat_template,
        template_options=entry.template_options or base.template_options,
        position=entry.position if entry.position is not None else base.position,
    )


def parse_model_option(text: str) -> ModelEntry:
    """One `--model NAME=DIR_OR_HUB_ID`.

    >>> parse_model_option("chat=Qwen/Qwen3-8B").base
    'chat'
    """
    name, equals, location = text.partition("=")
    if not equals or not name.strip() or not location.strip():
        raise OptionError(f"--model {text!r}: write NAME=FOLDER or NAME=HUB_ID, for example chat=models/qwen3-8b")
    expanded = os.path.expanduser(location.strip())
    return ModelEntry(name.strip(), base=name.strip(), location=expanded)


def unresolved_error(counts: Mapping[str | None, int]) -> ModelError:
    """The error for names that need a tokenizer and have none; `counts` says how many requests need each.

    >>> print(unresolved_error({"gpt-x": 12}))
    12 requests need the tokenizer of model 'gpt-x', which is not known; name it with --model gpt-x=FOLDER_OR_HUB_ID
    """
    (name, count), *others = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
    requests = f"{count} request{'' if count == 1 else 's'} need{'s' if count == 1 else ''}"
    more = f" (and {len(others)} more model name{'' if len(others) == 1 else 's'})" if others else ""
    if name is None:
        return ModelError(
            f"{requests} a tokenizer but the log names no model{more}; name it with --model '*=FOLDER_OR_HUB_ID'"
        )
    return ModelError(
        f"{requests} the tokenizer of model {name!r}, which is not known{more}; "
        f"name it with --model {name}=FOLDER_OR_HUB_ID"
    )
