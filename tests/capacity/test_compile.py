"""Compiling: only for large logs, only then imported, and also where no folder can be written."""

from __future__ import annotations

import subprocess
import sys

LOG = """
import sys
from prefixscope.capacity.distances import reuse_distances
from prefixscope.engines import resolve
from prefixscope.index.lineage import Lineage
n = 300
lineage = Lineage.from_lengths([100] * n, [0] + [64] * (n - 1), [-1] + list(range(n - 1)))
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", LOG + code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_small_logs_never_import_the_compiler() -> None:
    code = "print(reuse_distances(lineage, [resolve('vllm')])[0].curve().infinite_tokens, 'numba' in sys.modules)"
    assert run(code) == f"{299 * 64} False"


def test_without_a_writable_folder_it_compiles_without_a_cache() -> None:
    code = """
import numba.core.caching
numba.core.caching.CacheImpl._locator_classes = []
found = reuse_distances(lineage, [resolve('vllm')], compile_from=0)
print(found[0].curve().infinite_tokens, 'numba' in sys.modules)
"""
    assert run(code) == f"{299 * 64} True"
