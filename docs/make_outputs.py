"""Refreshes the command outputs shown in the documentation: python docs/make_outputs.py (a test finds stale ones).

A shown output is a code block behind the comment `<!-- output: prefixscope ... -->`. Only the first lines are shown
where the comment says `<!-- output 20: ... -->`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "sample_logs/README.md", "docs/breaks.md", "docs/capacity.md", "docs/hashes.md")
BLOCK = re.compile(r"(<!-- output ?(\d*): (prefixscope [^\n]*?) -->\n```[a-z]*\n)(.*?)(```)", re.DOTALL)


def output_of(command: str) -> str:
    """What the command prints on a page of 80 columns without colours; both streams, as a terminal shows them."""
    arguments = [sys.executable, "-m", *shlex.split(command)]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout.rstrip("\n") + "\n"


def refreshed(page: str) -> str:
    """The page with every shown output made anew."""

    def renew(match: re.Match[str]) -> str:
        lines = output_of(match[3]).splitlines()
        if match[2] and int(match[2]) < len(lines):
            lines = [*lines[: int(match[2])], "..."]
        return match[1] + "\n".join(line.rstrip() for line in lines) + "\n" + match[5]

    return BLOCK.sub(renew, page)


if __name__ == "__main__":
    for name in PAGES:
        path = ROOT / name
        if path.exists():
            path.write_text(refreshed(path.read_text(encoding="utf-8")), encoding="utf-8")
