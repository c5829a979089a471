"""Foreign engines in environments of their own, installed into the cache folder before the tests begin.

A test that needs one is skipped, with the reason, only where it could not be installed (or PREFIXSCOPE_ENGINE=off says
that no engine is wanted).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.engine.serving import EngineUnavailableError, engine_environment

DYNAMO = Path(__file__).resolve().parents[1] / ".cache" / "dynamo"
DYNAMO_REQUIREMENT = "ai-dynamo-runtime==1.6.1"


def prepare() -> None:
    """Installs what is missing, and says what could not be installed."""
    try:
        print(f"engine: {engine_environment().name} is installed", flush=True)
    except EngineUnavailableError as error:
        print(f"engine: {error}; tests that need it are skipped", flush=True)
    if os.environ.get("PREFIXSCOPE_ENGINE") == "off" or (DYNAMO / "ready").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", str(DYNAMO)], check=True)
    install = [str(DYNAMO / "bin" / "python"), "-m", "pip", "install", "-q", DYNAMO_REQUIREMENT]
    if subprocess.run(install, check=False).returncode == 0:
        (DYNAMO / "ready").touch()
    else:
        print(f"{DYNAMO_REQUIREMENT} could not be installed; tests that need it are skipped", flush=True)
