"""Tokenizers kept on disk give what transformers gives; nothing that is kept is trusted further than that."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import pytest

from prefixscope.models import tokenizer_files
from prefixscope.models.encode import Build, encoder_for
from prefixscope.models.table import ModelEntry
from prefixscope.models.tokenizer import load_model
from prefixscope.models.tokenizer_cache import tokenizer_key
from prefixscope.models.tokenizer_files import load_tokenizer
from tests.models.fuzz import text
from tests.models.prompts import model_folder, transformers_tokenizer
from tests.real_tokenizers import MORE_TOKENIZERS, TOKENIZERS, or_skip, tokenizer_folder
from tests.shared import SHARED, needs_shared

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLE = REPOSITORY / "sample_logs" / "model"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PREFIXSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tokenizers"


def refused(*_: Any, **__: Any) -> Any:
    raise AssertionError("loaded by transformers")


@pytest.mark.real_tokenizers
@pytest.mark.parametrize("name", (*TOKENIZERS, *MORE_TOKENIZERS))
def test_a_kept_tokenizer_is_the_one_that_transformers_loads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(or_skip(tokenizer_folder, name))
    first = load_tokenizer("m", folder, None)
    monkeypatch.setattr(tokenizer_files, "_by_transformers", refused)
    again = load_tokenizer("m", folder, None)
    assert asdict(again.facts) == asdict(first.facts)
    assert (again.serialised, again.fingerprint) == (first.serialised, first.fingerprint)
    assert again.backend is not first.backend and again.backend.to_str() == first.serialised
    theirs = transformers_tokenizer(folder)
    assert again.facts.vocabulary_size == len(theirs) and again.facts.special_tokens == theirs.special_tokens_map
    assert (again.facts.bos_id, again.facts.unknown_id) == (theirs.bos_token_id, theirs.unk_token_id)
    draw = random.Random(name)
    specials = [token.content for token in theirs.added_tokens_decoder.values()]
    for _ in range(400):
        prompt = "".join((text(draw, 12), draw.choice(specials), text(draw, 4)))
        for special in (False, True):
            ids = theirs.encode(prompt, add_special_tokens=special)
            assert again.backend.encode(prompt, add_special_tokens=special).ids == ids, repr(prompt)
        assert again.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
    for token in (*specials, "the", "no such token", ""):
        expected = theirs.convert_tokens_to_ids(token)
        assert again.token_id(token) == (None if expected == theirs.unk_token_id else expected)


@pytest.mark.parametrize("build", ["now", "ahead", "when_due"])
def test_encoders_of_a_kept_tokenizer(build: Build) -> None:
    load_model(ModelEntry("m", "m", str(SAMPLE)))
    kept = load_model(ModelEntry("m", "m", str(SAMPLE)), build=build)
    theirs = transformers_tokenizer(str(SAMPLE))
    draw = random.Random(3)
    for _ in range(200):
        prompt = text(draw, 8)
        ids = b"".join(number.to_bytes(4, "little") for number in theirs.encode(prompt, add_special_tokens=False))
        assert kept.encoder.encode(prompt, False) == ids
    assert kept.encoder.name == ("tokenizers" if build == "when_due" else "fastokens")


def test_a_changed_file_is_another_tokenizer(tmp_path: Path) -> None:
    folder = model_folder(SAMPLE, "one", tmp_path / "model")
    assert load_tokenizer("m", str(folder), None).facts.templates == {"default": "one"}
    (folder / "chat_template.jinja").write_text("two")
    assert load_tokenizer("m", str(folder), None).facts.templates == {"default": "two"}
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("three")
    assert load_tokenizer("m", str(folder), None).facts.templates == {"default": "two", "tool_use": "three"}
    settings = orjson.loads((folder / "tokenizer_config.json").read_bytes())
    (folder / "tokenizer_config.json").write_bytes(orjson.dumps({**settings, "bos_token": "<another>"}))
    assert load_tokenizer("m", str(folder), None).facts.special_tokens["bos_token"] == "<another>"


def test_a_file_of_any_name_may_be_part_of_it_but_weights(tmp_path: Path) -> None:
    folder = model_folder(SAMPLE, "one", tmp_path / "model")
    first = tokenizer_key(folder)
    (folder / "model-00001.safetensors").write_bytes(b"weights")
    assert tokenizer_key(folder) == first
    (folder / "vocab.bpe").write_bytes(b"a b")
    second = tokenizer_key(folder)
    (folder / "vocab.bpe").write_bytes(b"a c")
    assert len({first, second, tokenizer_key(folder)}) == 3


def test_a_folder_of_large_files_is_loaded_every_time(tmp_path: Path, cache: Path) -> None:
    folder = model_folder(SAMPLE, "one", tmp_path / "model")
    with open(folder / "dataset.json", "wb") as sparse:
        sparse.truncate(1 << 30)
    assert tokenizer_key(folder) is None
    assert load_tokenizer("m", str(folder), None).facts.templates == {"default": "one"}
    assert not cache.exists()


def damaged_head(content: bytes, **changes: Any) -> bytes:
    head, _, serialised = content.partition(b"\n")
    return orjson.dumps({**orjson.loads(head), **changes}) + b"\n" + serialised


DAMAGES = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "one byte": lambda content: content[:-100] + b"#" + content[-99:],
    "no head": lambda content: b"[]\n" + content.partition(b"\n")[2],
    "another format": lambda content: damaged_head(content, facts={"class_name": "x"}),
    "other ids": lambda content: damaged_head(content, probe=[[1]]),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_loaded_anew(damage: str, cache: Path) -> None:
    first = load_tokenizer("m", str(SAMPLE), None)
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    again = load_tokenizer("m", str(SAMPLE), None)
    assert again.backend.encode("hello there").ids == first.backend.encode("hello there").ids
    assert asdict(again.facts) == asdict(first.facts)
    if damage != "other ids":
        assert path.read_bytes() == whole


def test_without_a_cache_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFIXSCOPE_CACHE", "off")
    assert load_tokenizer("m", str(SAMPLE), None).backend.encode("a b").ids
    assert list(tmp_path.iterdir()) == []


@needs_shared
def test_a_cached_model_of_the_hub_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (
        "import sys; from prefixscope.models.tokenizer_files import load_tokenizer\n"
        "told = load_tokenizer('m', 'bakery/rye', None)\n"
        "print(told.fingerprint, told.facts.templates, 'transformers' in sys.modules)"
    )
    commit = "0" * 40
    cached = tmp_path / "hub/models--bakery--rye"
    model_folder(SHARED / "cases/bytes_model", "x", cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(commit)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    first, again = (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
        for _ in range(2)
    )
    assert first[:-1] == again[:-1] and (first[-1], again[-1]) == ("True", "False")


def test_the_second_run_does_without_transformers(tmp_path: Path) -> None:
    """The start-up rule: what it loads is known from the run before."""
    program = (
        "import sys; from prefixscope.cli.main import main\n"
        f"code = main(['analyze', {str(REPOSITORY / 'sample_logs' / 'support-chat.jsonl')!r}, '--limit', '3', "
        f"'--models', {str(REPOSITORY / 'sample_logs' / 'models.toml')!r}, '--json', '-', '-q'])\n"
        "print('transformers' in sys.modules, code, file=sys.stderr)"
    )
    told = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True) for _ in range(3)]
    assert [run.stderr.split()[-2:] for run in told] == [["True", "0"], ["False", "0"], ["False", "0"]], told[0].stderr
    assert told[0].stdout.replace('"duration', "") == told[1].stdout.replace('"duration', "") != ""


def test_a_tokenizer_without_backend_is_not_kept(cache: Path) -> None:
    from prefixscope.models.loaded_tokenizer import LoadedTokenizer, TokenizerFacts
    from prefixscope.models.tokenizer_cache import keep_tokenizer

    keep_tokenizer("a.json", LoadedTokenizer(TokenizerFacts("Slow", 1, {}, {}, None, None), None, None, object()))
    assert not cache.exists()
    assert encoder_for(LoadedTokenizer(TokenizerFacts("Slow", 1, {}, {}, None, None), None, None, object())).name
