"""Reads models.toml into entries. An unknown key or a wrong type is an error that names the file and the line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefixscope.errors import FormatError, InputError
from prefixscope.models.table import ModelEntry

__all__ = ["ENGINE_KEYS", "read_models_file"]

_TEXT_OPTIONS = ("platform", "attention_backend", "lifetime", "service_time")
_COUNT_OPTIONS = ("max_batched_tokens", "speculative_tokens", "lookahead", "slots", "context_parallel")
_FLAG_OPTIONS = ("partial_reuse", "strip_thinking")
ENGINE_KEYS = (*_TEXT_OPTIONS, *_COUNT_OPTIONS, *_FLAG_OPTIONS, "retention")
"""Settings of the engine that decide no prompt: each is the option of the same name, for one model."""

_TEXT_KEYS = ("base", "path", "revision", "chat_template", "engine", "speculative", "kv_dtype", *_TEXT_OPTIONS)
_COUNT_KEYS = ("block_size", "match_unit", "tensor_parallel", "pipeline_parallel", *_COUNT_OPTIONS)
_TABLE_KEYS = ("template_options", "position")
_KEYS = (*_TEXT_KEYS, *_COUNT_KEYS, *_TABLE_KEYS, *_FLAG_OPTIONS, "retention", "adapter")


def read_models_file(path: Path) -> tuple[ModelEntry, ...]:
    """The entries of one file, in file order. Relative paths in it are relative to the file's folder.

    Raises InputError where it can't be read and FormatError, with the line, where its content is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark in front
    except OSError as error:
        raise InputError(f"can't read the models file: {error.strerror or error}", file=str(path)) from None
    except UnicodeDecodeError as error:
        raise FormatError(f"is not UTF-8 at byte {error.start}", file=str(path)) from None
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise FormatError("is nested too deeply", file=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        raise FormatError(str(error), file=str(path), line=int(found[1]) if found else None) from None
    reader = _Reader(path, text.splitlines())
    for key in document:
        if key != "models":
            raise reader.fault(f"unknown key {key!r}; the only table here is [models.NAME]", (key,))
    models = document.get("models", {})
    if not isinstance(models, dict):
        raise reader.fault("models must be a table of tables", ("models",))
    return tuple(reader.entry(name, settings) for name, settings in models.items())


class _Reader:
    """Turns tables into entries and finds the line of a key for messages (tomllib keeps no places)."""

    def __init__(self, path: Path, lines: list[str]) -> None:
        self.path = path
        self.lines = lines

    def entry(self, name: str, settings: Any) -> ModelEntry:
        if not isinstance(settings, dict):
            raise self.fault(f"[models.{name}] must be a table", ("models", name))
        for key, value in settings.items():
            self._check(name, key, value)
        location, chat_template = settings.get("path"), settings.get("chat_template")
        return ModelEntry(
            name=name,
            base=settings.get("base", name),
            location=None if location is None else self._beside(location),
            revision=settings.get("revision"),
            adapter=self._adapter(name, settings.get("adapter")),
            chat_template=None if chat_template is None else self._beside(chat_template),
            template_options=settings.get("template_options", {}),
            position=settings.get("position"),
            engine=settings.get("engine"),
            block_size=settings.get("block_size"),
            match_unit=settings.get("match_unit"),
            speculative=settings.get("speculative"),
            kv_dtype=settings.get("kv_dtype"),
            tensor_parallel=settings.get("tensor_parallel"),
            pipeline_parallel=settings.get("pipeline_parallel"),
            engine_options={key: settings[key] for key in ENGINE_KEYS if key in settings},
            source=str(self.path),
        )

    def _check(self, name: str, key: str, value: Any) -> None:
        place = ("models", name, key)
        if key not in _KEYS:
            raise self.fault(f"unknown key {key!r} in [models.{name}]; known are {', '.join(sorted(_KEYS))}", place)
        if key in _TEXT_KEYS and (not isinstance(value, str) or not value):
            raise self.fault(f"{key} of [models.{name}] must be a text", place)
        if key in _COUNT_KEYS and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise self.fault(f"{key} of [models.{name}] must be a whole number of at least 1", place)
        if key in _FLAG_OPTIONS and not isinstance(value, bool):
            raise self.fault(f"{key} of [models.{name}] must be true or false", place)
        if key == "retention" and value != "dense" and (type(value) is not int or value < 0):
            raise self.fault(f'retention of [models.{name}] must be "dense" or a number of tokens', place)
        if key in _TABLE_KEYS and not isinstance(value, dict):
            raise self.fault(f"{key} of [models.{name}] must be a table", place)

    def _adapter(self, name: str, value: Any) -> str | None:
        if value is None or (isinstance(value, str) and value):
            return value
        place = ("models", name, "adapter")
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise self.fault(f"adapter of [models.{name}] must be a name or {{ name = ..., version = ... }}", place)
        for key in value:
            if key not in ("name", "version"):
                raise self.fault(f"unknown key {key!r} in adapter of [models.{name}]", (*place, key))
        version = value.get("version")
        return str(value["name"]) if version is None else f"{value['name']}@{version}"

    def _beside(self, written: str) -> str:
        """A path relative to the file when something lies there or it is written as a path, else a hub id or name."""
        beside = self.path.parent / os.path.expanduser(written)
        return str(beside) if beside.exists() or written.startswith((".", "/", "~")) else written

    def fault(self, message: str, place: tuple[str, ...]) -> FormatError:
        return FormatError(message, file=str(self.path), line=self._line(place))

    def _line(self, place: tuple[str, ...]) -> int | None:
        """The line where a key is written: its own, else the line of the nearest table around it."""
        nearest: int | None = None
        depth, table = 0, ()  # type: tuple[int, tuple[str, ...]]
        for number, line in enumerate(self.lines, 1):
            key = _written_key(line)
            if key is None:
                continue
            is_table = line.lstrip().startswith("[")
            table = key if is_table else table
            full = key if is_table else (*table, *key)
            inline = bool(re.search(rf"[{{,]\s*[\"']?{re.escape(place[-1])}[\"']?\s*=", line))
            shared = len(place) if inline and full == place[: len(full)] else len(full) * (full == place[: len(full)])
            if shared > depth:
                depth, nearest = shared, number
        return nearest


def _written_key(line: str) -> tuple[str, ...] | None:
    """The dotted key that a line opens or sets, as its parts; None for other lines.

    >>> _written_key('[models."support-de"]')
    ('models', 'support-de')
    >>> _written_key('adapter.name = "x"')
    ('adapter', 'name')
    """
    stripped = line.strip()
    head = stripped if stripped.startswith("[") else stripped.partition("=")[0] + "= 0"
    try:
        value: Mapping[str, Any] = tomllib.loads(head)
    except tomllib.TOMLDecodeError:
        return None
    parts: list[str] = []
    node: Any = value
    while isinstance(node, dict) and node:
        part, node = next(iter(node.items()))
        parts.append(part)
    return tuple(parts) or None
