"""All checks in one command: `python -m tests`. Style, types, then the tests; the first failure decides the exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKS = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("mypy",),
    ("pytest", "-n", "2", "--dist", "loadfile"),
)


def main() -> int:
    root = Path(__file__).resolve().parents[1]
    for check in CHECKS:
        print("==", *check, flush=True)
        more = sys.argv[1:] if check[0] == "pytest" else []
        code = subprocess.run([sys.executable, "-m", *check, *more], cwd=root, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
