"""Predicts time and memory of distributed training steps, without data (docs/simulate.md)."""

from __future__ import annotations

from flambeau.distributed.simulate._costs import collective_time
from flambeau.distributed.simulate._hardware import Cluster, Device, Link, preset
from flambeau.distributed.simulate._measure import measure
from flambeau.distributed.simulate._plan import Plan
from flambeau.distributed.simulate._report import Event, RankReport
from flambeau.distributed.simulate._result import Result
from flambeau.distributed.simulate._simulation import simulate_step
from flambeau.distributed.simulate._transformer import transformer
from flambeau.distributed.simulate._work import Amount, Layer, Model, Weight

__all__ = [
    "Amount",
    "Cluster",
    "Device",
    "Event",
    "Layer",
    "Link",
    "Model",
    "Plan",
    "RankReport",
    "Result",
    "Weight",
    "collective_time",
    "measure",
    "preset",
    "simulate_step",
    "transformer",
]
