"""The live engine's fixtures, for the tests that replay on it."""

from tests.engine.conftest import adapters, engine, engine_venv, tiny_model

__all__ = ["adapters", "engine", "engine_venv", "tiny_model"]
