"""`python -m prefixscope`, and the installed command."""

from __future__ import annotations

import sys


def run() -> int:
    """Runs the command line; Ctrl-C while it is still being imported ends quietly as well."""
    try:
        from prefixscope.cli.main import main
    except KeyboardInterrupt:
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
