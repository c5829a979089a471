"""The figures in sample_logs/README.md are those that the analyzer gives today."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prefixscope import api

SAMPLES = Path(__file__).resolve().parents[1] / "sample_logs"
ROW = re.compile(r"^\| ([a-z-]+) \| (\d+) \| ([\d,]+) \| (?:at least )?([\d.]+) % \| [^|]*: ([\d.]+) % \|$", re.M)
FIGURES = ROW.findall((SAMPLES / "README.md").read_text(encoding="utf-8"))


def test_every_log_has_its_figures() -> None:
    assert len(FIGURES) == 5


@pytest.mark.parametrize(("name", "requests", "prompt_tokens", "reusable", "cached"), FIGURES)
def test_figures(name: str, requests: str, prompt_tokens: str, reusable: str, cached: str) -> None:
    (log,) = (path for path in SAMPLES.glob(f"{name}.jsonl*"))
    options = api.LogOptions((str(log),), models_file=str(SAMPLES / "models.toml"))
    totals = api.analyze(api.AnalyzeOptions(options), lambda *_: None).reports[0].totals
    assert (str(totals.requests), f"{totals.prompt_tokens:,}") == (requests, prompt_tokens)
    assert f"{totals.reusable_tokens / totals.prompt_tokens * 100:.1f}" == reusable
    assert f"{totals.cached_tokens / totals.prompt_tokens * 100:.1f}" == cached
