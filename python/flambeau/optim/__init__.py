"""Optimizers: they move parameters against their gradients."""

from flambeau.optim import lr_scheduler
from flambeau.optim.adam import Adam, AdamW
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
