"""The package's face: complete, light to import, and clear about the extra it needs."""

from __future__ import annotations

import subprocess
import sys

import prefixscope.replay


def test_everything_named_is_there_and_sorted() -> None:
    assert prefixscope.replay.__all__ == sorted(prefixscope.replay.__all__)
    for name in prefixscope.replay.__all__:
        assert getattr(prefixscope.replay, name) is not None


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_it_loads_no_network_library() -> None:
    code = "import sys, prefixscope.replay, prefixscope.replay.fit; print('httpx' in sys.modules)"
    assert run(code) == "False"


def test_without_httpx_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["httpx"] = None
import prefixscope.replay
from prefixscope.errors import PrefixscopeError
try:
    prefixscope.replay.replay
except PrefixscopeError as error:
    print(error)
"""
    assert run(code) == "replay needs httpx: pip install 'prefixscope[replay]'"
