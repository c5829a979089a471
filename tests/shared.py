"""Where the shared inputs lie: a folder beside the repository that may be absent."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder ../shared is not here")
