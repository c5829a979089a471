"""Every example in a docstring of the package is true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import prefixscope

MODULES = sorted(
    found.name
    for found in pkgutil.walk_packages(prefixscope.__path__, "prefixscope.")
    if not found.name.endswith(".__main__")  # importing one runs the program
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
