"""`python -m prefixscope.cli`."""

import sys

from prefixscope.cli.main import main

sys.exit(main())
