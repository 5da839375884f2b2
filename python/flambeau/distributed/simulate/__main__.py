"""Runs the command line of this package."""

import sys

from flambeau.distributed.simulate._command import main

sys.exit(main())
