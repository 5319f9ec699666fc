"""`python -m schema.cli`."""

import sys

from schema.cli.app import run

sys.exit(run())
