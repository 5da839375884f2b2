"""Write the handwritten digits of scikit-learn as text: 64 pixels (0 to 16) and the label per line."""

import sys
from pathlib import Path

from sklearn.datasets import load_digits

digits = load_digits()
rows = zip(digits.data.astype(int).tolist(), digits.target.tolist(), strict=True)
Path(sys.argv[1]).write_text("".join(" ".join(map(str, [*row, label])) + "\n" for row, label in rows))
