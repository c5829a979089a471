"""Loading in a fresh process: from the local cache, quietly, and without running code that comes with a model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from prefixscope.models.table import ModelEntry
from prefixscope.models.tokenizer import model_config
from tests.models.prompts import model_folder
from tests.shared import SHARED, needs_shared

pytestmark = needs_shared
REPOSITORY = Path(__file__).resolve().parents[2]
LOAD = """
from prefixscope.errors import ModelError
from prefixscope.models.table import parse_model_option
from prefixscope.models.tokenizer import load_model, model_config
for option in {options!r}:
    try:
        entry = parse_model_option(option)
        print(load_model(entry).encoder.name, model_config(entry)["model_type"])
    except ModelError as error:
        print("ModelError", error)
"""


def in_a_fresh_process(cache: Path, *options: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    environment |= {"HF_HOME": str(cache), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", LOAD.format(options=options)],
        env=environment, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.stderr == "" and done.returncode == 0
    return done.stdout.splitlines()


def test_from_folder_and_cache_without_a_word(tmp_path: Path) -> None:
    commit = "0" * 40
    cached = tmp_path / "hub/models--bakery--rye"
    model_folder(SHARED / "cases/bytes_model", "x", cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text(commit)
    told = in_a_fresh_process(tmp_path, f"a={SHARED / 'cases/bytes_model'}", "b=bakery/rye", "c=bakery/spelt")
    assert told[:2] == ["fastokens llama", "fastokens llama"]
    assert told[2].startswith("ModelError model 'c': 'bakery/spelt' is neither a folder nor in the local")


def test_a_pipe_in_place_of_a_config_is_not_waited_for(tmp_path: Path) -> None:
    folder = model_folder(SHARED / "cases/bytes_model", "x", tmp_path / "model")
    (folder / "config.json").unlink(missing_ok=True)
    os.mkfifo(folder / "config.json")
    assert model_config(ModelEntry("m", "m", str(folder))) is None


def test_code_that_comes_with_a_model_is_not_run(tmp_path: Path) -> None:
    folder = model_folder(SHARED / "cases/bytes_model", "x", tmp_path / "model")
    (folder / "custom.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: pass\n")
    (folder / "tokenizer_config.json").write_text(
        '{"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": ["custom.Own", "custom.Own"]}}'
    )
    told = in_a_fresh_process(tmp_path, f"a={folder}")
    assert not (tmp_path / "ran").exists()
    assert len(told) == 1
