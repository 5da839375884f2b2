"""Networks: layers, losses, initial values and the functions behind them."""

from flambeau.nn import functional, init
from flambeau.nn.modules.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Dropout,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
)
from flambeau.nn.modules.containers import ModuleDict, ModuleList, ParameterList, Sequential
from flambeau.nn.modules.conv import Conv1d, Conv2d, Conv3d
from flambeau.nn.modules.linear import Bilinear, Embedding, Flatten, Identity, Linear, Unflatten
from flambeau.nn.modules.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from flambeau.nn.modules.module import Module
from flambeau.nn.modules.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, LayerNorm
from flambeau.nn.modules.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from flambeau.nn.parameter import Parameter

__all__ = [name for name in dir() if not name.startswith("_")]
