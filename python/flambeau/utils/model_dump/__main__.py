"""``python -m flambeau.utils.model_dump model.pt``."""

import sys

from flambeau.utils.model_dump import main

main(sys.argv)
