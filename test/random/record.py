"""Writes recorded.json: what PyTorch draws and trains from the seeds in seeded_cases.py. Needs torch 2.13.

PyTorch's normal floats depend on the processor: the record is of one with AVX2, where 16 and more are
computed with fused polynomials. exponential_ and bernoulli_ of a number take Intel's library on Intel's
processors, with another stream, so record on another one.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import seeded_cases
import torch
import torch.utils.data

if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    record = {
        "torch": torch.__version__,
        "draws": seeded_cases.draws(torch),
        "samples": seeded_cases.samples(torch),
        "orders": seeded_cases.orders(torch),
        "training": seeded_cases.training(torch),
    }
    text = json.dumps(record)
    target = Path(__file__).with_name("recorded.json")
    # One line per entry keeps changes readable.
    target.write_text(text.replace("], ", "],\n").replace("}, ", "},\n") + "\n")
