"""All checks in one command: `python -m tests`. Style, types and tests all run; any failure is the result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.environments import prepare

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("pytest", "-n", "2", "--dist", "loadfile"),
)


def main() -> int:
    root = Path(__file__).resolve().parents[1]
    failed = []
    for check in CHECKS:
        print("==", *check, flush=True)
        if check[0] == "pytest":
            prepare()
        more = sys.argv[1:] if check[0] == "pytest" else []
        code = subprocess.run([sys.executable, "-m", *check, *more], cwd=root, check=False).returncode
        if code:
            failed.append(check[0])
    if failed:
        print("failed:", ", ".join(failed), flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
