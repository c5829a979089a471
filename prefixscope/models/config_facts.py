"""What of a model's config.json an index carries, so that it is analyzed as the log would be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefixscope.models.table import ModelTable
from prefixscope.models.tokenizer import model_config
from prefixscope.records import Json

__all__ = ["config_facts", "configs_of_pools"]

_LEFT_OUT = frozenset({
    "_name_or_path", "auto_map", "id2label", "label2id", "quantization_config", "task_specific_params",
    "transformers_version",
})  # fmt: skip
"""Paths, code and labels: nothing of them decides what KV is kept."""


def config_facts(config: Mapping[str, Json]) -> dict[str, Json]:
    """The config without what tells nothing of layers and sizes.

    >>> config_facts({"hidden_size": 8, "_name_or_path": "/home/me/x", "text_config": {"id2label": {}, "head_dim": 4}})
    {'hidden_size': 8, 'text_config': {'head_dim': 4}}
    """
    kept: dict[str, Json] = {}
    for key, value in config.items():
        if key not in _LEFT_OUT:
            kept[key] = config_facts(value) if isinstance(value, Mapping) else value
    return kept


def configs_of_pools(pools: tuple[str, ...], table: ModelTable) -> dict[str, dict[str, Any]]:
    """The config of every pool's base model, where the table leads to a folder that has one.

    An entry named as the pool is asked first, then those of its adapters and other names. Raises ModelError for a
    config.json that can't be read.
    """
    found: dict[str, dict[str, Any]] = {}
    for pool in pools:
        named = table.resolve(pool or None)
        entries = [] if named is None or named.base != pool else [named]
        entries += [entry for entry in table.entries.values() if entry.base == pool and entry is not named]
        if not entries and named is not None:
            entries = [named]
        for entry in entries:
            config = model_config(entry)
            if config is not None:
                found[pool] = config_facts(config)
                break
    return found
