"""Dynamo's hashes against ai-dynamo-runtime's own function on random input, run in an environment of its own."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prefixscope.engines.hashes import ChainOptions, KeyIdentity, MediaSpan, block_chain

REPOSITORY = Path(__file__).resolve().parents[2]
REQUIREMENT = "ai-dynamo-runtime==1.6.1"

UPSTREAM = """
import json, sys
from dynamo._core import compute_block_hash_for_seq
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(compute_block_hash_for_seq(
        asked["tokens"], asked["block_size"], asked["media"], asked["adapter"], asked["eagle"], asked["namespace"])))
"""


@pytest.fixture(scope="session")
def dynamo_python() -> str:
    """A Python that can import dynamo: named in the environment, or installed into the cache folder."""
    named = os.environ.get("PREFIXSCOPE_DYNAMO_PYTHON")
    if named:
        return named
    folder = REPOSITORY / ".cache" / "dynamo"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "-q", REQUIREMENT]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{REQUIREMENT} could not be installed: {done.stderr.strip().splitlines()[-1:]}")
        (folder / "ready").touch()
    return str(python)


def random_question(draw: random.Random) -> dict[str, Any]:
    block_size = draw.choice([1, 2, 4, 16, 32, 64])
    count = draw.randrange(0, 6 * block_size + 3)
    top = draw.choice([50, 1 << 17, 1 << 32])
    spans = []
    if draw.random() < 0.5 and count > 4:
        for _ in range(draw.randrange(1, 4)):
            offset = draw.randrange(count)
            number = draw.choice([0, 1, 0xDEADBEEF, draw.randrange(1 << 64)])
            spans.append((f"{number:x}", offset, draw.randrange(1, 3 * block_size)))
    return {
        "tokens": [draw.randrange(top) for _ in range(count)],
        "block_size": block_size,
        "spans": spans,
        "adapter": draw.choice([None, "ad1", "räksmörgås"]),
        "namespace": draw.choice([None, "tenant-a", "x" * 300]),
        "eagle": draw.choice([False, False, True]),
    }


def upstream_media(asked: dict[str, Any]) -> list[Any] | None:
    """Per block, the media items that overlap it, as the frontends of Dynamo list them."""
    if not asked["spans"]:
        return None
    size = asked["block_size"]
    blocks: list[Any] = []
    for start in range(0, len(asked["tokens"]), size):
        inside = [
            {"mm_hash": int(number, 16), "offsets": [[0, 1]]}
            for number, offset, length in asked["spans"]
            if offset < start + size and start < offset + length
        ]
        blocks.append({"mm_objects": inside} if inside else None)
    return blocks


def test_local_hashes_equal_upstream_on_random_input(dynamo_python: str) -> None:
    draw = random.Random(20261130)
    questions = [random_question(draw) for _ in range(600)]
    lines = [json.dumps({**asked, "media": upstream_media(asked)}) for asked in questions]
    upstream = subprocess.run(
        [dynamo_python, "-c", UPSTREAM], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in upstream.stdout.splitlines()]
    assert len(answers) == len(questions)
    compared = 0
    for asked, answer in zip(questions, answers, strict=True):
        tokens = struct.pack(f"<{len(asked['tokens'])}I", *asked["tokens"])
        identity = KeyIdentity(
            adapter_name=asked["adapter"],
            extra_key=asked["namespace"],
            media=tuple(MediaSpan(*span) for span in asked["spans"]),
        )
        chain = block_chain("dynamo-local", tokens, asked["block_size"], identity, ChainOptions(eagle=asked["eagle"]))
        assert list(chain.integers or ()) == answer, asked
        compared += len(answer)
    assert compared > 1000
