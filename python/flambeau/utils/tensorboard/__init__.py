"""Write scalars, histograms, images, text and figures for TensorBoard, through the package tensorboard.

The package is imported when a file is opened: ``pip install tensorboard``. Images need pillow, figures
matplotlib.
"""

from __future__ import annotations

from flambeau.utils.tensorboard._writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
