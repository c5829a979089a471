"""Runs `prefixscope analyze` as a user does, and gives back its JSON and its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prefixscope.cli.main import main

__all__ = ["analyzed", "asked", "cached", "model_folder", "siblings"]

Row = Mapping[str, Any]

LLAMA = {"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "hidden_size": 64, "torch_dtype": "bfloat16"}  # fmt: skip
SLIDING = {**LLAMA, "sliding_window": 32, "layer_types": ["sliding_attention", "full_attention"]}
ONLY_SLIDING = {**LLAMA, "sliding_window": 32, "layer_types": ["sliding_attention"] * 2}
TWO_BLOCKS = {**SLIDING, "head_dim": 16, "global_head_dim": 8}
"""Full layers keep half the bytes per token, so their blocks hold twice the tokens: 32 and 16."""
MAMBA = {
    **LLAMA, "layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 1,
    "linear_num_value_heads": 1, "linear_key_head_dim": 4, "linear_value_head_dim": 4,
}  # fmt: skip
"""A state of 104 bytes fits into one block of 16 tokens of 128 bytes."""


def asked(prompt: Iterable[int], output: Iterable[int] = (), **more: Any) -> dict[str, Any]:
    """A logged request of model m."""
    ids = {"output_token_ids": [*output]} if output else {}
    return {"model": "m", "prompt_token_ids": [*prompt], **ids, **more}


def siblings(shared: int, count: int, own: int = 48) -> list[list[int]]:
    """Prompts with a common beginning."""
    return [[*range(shared), *range(10_000 * (n + 1), 10_000 * (n + 1) + own)] for n in range(count)]


def model_folder(folder: Path, config: Mapping[str, Any]) -> Path:
    """A folder with nothing but a config.json, which is enough for logs of token ids."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def analyzed(
    folder: Path, rows: Iterable[Row], *options: str, config: Mapping[str, Any] | None = None, log: Path | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(the JSON report, the rows of --requests); fails where the command does."""
    if log is None:
        log = folder / "log.jsonl"
        log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = [] if config is None else ["--model", f"m={model_folder(folder / 'model', config)}"]
    report, requests = folder / "report.json", folder / "rows.jsonl"
    arguments = [str(log), *options, *model, "--json", str(report), "--requests", str(requests), "--force", "-q"]
    assert main(["analyze", *arguments]) == 0
    lines = requests.read_text().splitlines()
    return json.loads(report.read_text()), [json.loads(line) for line in lines]


def cached(folder: Path, rows: Iterable[Row], *options: str, config: Mapping[str, Any] | None = None) -> list[int]:
    """Cached tokens per request, one after another in an infinite cache."""
    return [row["cached_tokens"] for row in analyzed(folder, rows, *options, config=config)[1]]
