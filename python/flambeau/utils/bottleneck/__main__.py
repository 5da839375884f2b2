"""``python -m flambeau.utils.bottleneck script.py``."""

import sys

from flambeau.utils.bottleneck import main

sys.exit(main(sys.argv))
