"""Optimizers: they move parameters against their gradients."""

from flambeau._loading.lazy import attributes
from flambeau.optim import lr_scheduler, swa_utils
from flambeau.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from flambeau.optim.adaptive import Adadelta, Adafactor, Adagrad, RMSprop
from flambeau.optim.lbfgs import LBFGS
from flambeau.optim.muon import Muon
from flambeau.optim.optimizer import Optimizer
from flambeau.optim.sgd import ASGD, SGD, Rprop
from flambeau.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]

__getattr__, __dir__ = attributes(__name__)
