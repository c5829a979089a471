"""Start a real vLLM on the CPU for a test, wait until it answers, and stop exactly that process again.

The environment variable PREFIXSCOPE_ENGINE_VENV names a ready installation; without it one is made in .cache/engine
(2.5 GB, some minutes). PREFIXSCOPE_ENGINE=off skips every test that needs an engine.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
INSTALL_DEADLINE_S = 1800
START_DEADLINE_S = 300
STOP_DEADLINE_S = 30


class EngineUnavailableError(Exception):
    """No engine can be had here; the text says why."""


class EngineFailedError(Exception):
    """The engine was there but did not start."""


def engine_environment() -> Path:
    """The virtual environment of the engine, installed first where it is absent."""
    if os.environ.get("PREFIXSCOPE_ENGINE") == "off":
        raise EngineUnavailableError("PREFIXSCOPE_ENGINE=off")
    named = os.environ.get("PREFIXSCOPE_ENGINE_VENV")
    folder = Path(named) if named else REPOSITORY / ".cache" / "engine"
    if (folder / "bin" / "vllm").exists() and (named or (folder / "ready").exists()):
        return folder
    if named:
        raise EngineUnavailableError(f"PREFIXSCOPE_ENGINE_VENV={named} has no bin/vllm")
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = ["bash", str(HERE / "install.sh"), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_DEADLINE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise EngineUnavailableError(f"the engine was not installed within {INSTALL_DEADLINE_S} s") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EngineUnavailableError(f"the engine could not be installed: {last}")
    return folder


def make_model(environment: Path, folder: Path) -> Path:
    """A tiny model with the tokenizer and template of the sample logs, where they are here."""
    sample = REPOSITORY / "sample_logs" / "model"
    arguments = [str(folder)] + ([str(sample)] if (sample / "tokenizer.json").exists() else [])
    _run_with(environment, "make_model.py", *arguments)
    return folder


def make_adapter(environment: Path, folder: Path, seed: int) -> Path:
    """A random LoRA adapter for the tiny model."""
    _run_with(environment, "make_lora.py", str(folder), str(seed))
    return folder


def _run_with(environment: Path, script: str, *arguments: str) -> None:
    command = [str(environment / "bin" / "python"), str(HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineFailedError(f"{script} failed: {done.stderr.strip()[-500:]}")


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True)
class EngineConfiguration:
    """One way to start the server: options of `vllm serve`, environment variables, whether with adapters and events."""

    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    with_adapters: bool = False
    events: bool = False


@dataclass(frozen=True)
class RunningEngine:
    """A server that answers. Endpoints of KV events are None without `events`."""

    configuration: EngineConfiguration
    adapters: Mapping[str, Path]
    url: str
    pid: int
    log: Path
    events_endpoint: str | None
    replay_endpoint: str | None

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The decoded JSON answer to a POST."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.loads(answer.read() or b"null")

    def complete(self, tokens: list[int], **fields: Any) -> Any:
        """One completion of token ids; returns the whole answer."""
        body = {"model": "tiny", "prompt": tokens, "max_tokens": 1, "temperature": 0, **fields}
        return self.post("/v1/completions", body)


@contextmanager
def running_engine(
    environment: Path,
    model: Path,
    configuration: EngineConfiguration,
    folder: Path,
    adapters: Mapping[str, Path] | None = None,
) -> Iterator[RunningEngine]:
    """Starts one server, gives it when it is ready, and stops it by its own process id."""
    port = free_port()
    named = dict(adapters or {}) if configuration.with_adapters else {}
    options = list(configuration.options)
    if named:
        options += ["--enable-lora", "--max-lora-rank", "8", "--lora-modules"]
        options += [f"{name}={path}" for name, path in named.items()]
    events, replay = _event_endpoints() if configuration.events else (None, None)
    if events is not None and replay is not None:
        options += ["--kv-events-config", _events_config(events, replay)]
    log = folder / f"serve-{port}.log"
    command = ["bash", str(HERE / "serve.sh"), str(environment), str(model), str(port), *options]
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**inherited, **configuration.environment},
            start_new_session=True,
        )
    try:
        engine = RunningEngine(configuration, named, f"http://127.0.0.1:{port}", process.pid, log, events, replay)
        _wait_until_ready(engine, process)
        yield engine
    finally:
        _stop(process)


def _event_endpoints() -> tuple[str, str]:
    return f"tcp://127.0.0.1:{free_port()}", f"tcp://127.0.0.1:{free_port()}"


def _events_config(events: str, replay: str) -> str:
    """The publisher binds only where the host is a star; a concrete host would make it connect."""
    settings = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": events.replace("127.0.0.1", "*"),
        "replay_endpoint": replay.replace("127.0.0.1", "*"),
    }
    return json.dumps(settings)


def _wait_until_ready(engine: RunningEngine, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            tail = engine.log.read_text(errors="replace")[-1500:]
            raise EngineFailedError(f"the engine ended with {process.returncode} before it was ready:\n{tail}")
        try:
            with urllib.request.urlopen(engine.url + "/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise EngineFailedError(f"the engine did not answer within {START_DEADLINE_S} s; its log is {engine.log}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Asks the server to end, then its whole session, which only holds what it started."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_DEADLINE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
