"""Fixtures for a real engine: installed once, one server per configuration, stopped before the next one starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.serving import (
    EngineUnavailableError,
    RunningEngine,
    engine_environment,
    make_adapter,
    make_model,
    running_engine,
)


@pytest.fixture(scope="session")
def engine_venv() -> Path:
    try:
        return engine_environment()
    except EngineUnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def tiny_model(engine_venv: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(engine_venv, tmp_path_factory.mktemp("engine") / "model")


@pytest.fixture(scope="session")
def adapters(engine_venv: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("adapters")
    return {name: make_adapter(engine_venv, folder / name, seed) for seed, name in enumerate(("la", "lb"), start=1)}


@pytest.fixture(scope="module")
def engine(
    request: pytest.FixtureRequest,
    engine_venv: Path,
    tiny_model: Path,
    adapters: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningEngine]:
    """The server of one configuration: parametrise with `indirect=True` and an EngineConfiguration."""
    folder = tmp_path_factory.mktemp("server")
    with running_engine(engine_venv, tiny_model, request.param, folder, adapters) as running:
        yield running
