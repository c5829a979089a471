"""`python -m prefixscope`."""

import sys

from prefixscope.cli.main import main

sys.exit(main())
