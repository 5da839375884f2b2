"""Names that the specification and the handwritten C++ share."""

from __future__ import annotations

from enum import Enum

# Enumerators that PyTorch's schemas write by name though the argument is an int.
ENUM_INTS = {"Mean": 1, "Sum": 2}
# PyTorch's Python functions do not know these names: there such an argument left out is 0, no reduction.
PYTHON_ENUM_DEFAULT = "0"
# What autocast does to floating point arguments of an operator. lower_precision: casts to the dtype of the
# region. float32: to float32. float32_result: asks for it by `dtype` where that is None. promote: to the
# widest dtype among them. keep: none are cast, also by the parts of a composite. refuse: an error.
CAST_POLICIES = ("lower_precision", "float32", "float32_result", "promote", "keep", "refuse")
AUTOCAST_DEVICES = ("CPU", "CUDA")


class BatchMethod(Enum):
    """How an operator runs on tensors with a hidden batch dimension."""

    POINTWISE = "pointwise"  # ranks are aligned, dtypes follow from the logical operands
    PLACE = "place"  # the operator itself, on whole tensors
    PARTS = "parts"  # the operators of a composite, each by its own rules
    LOOP = "loop"  # once per entry of the batch


class BatchRole(Enum):
    """How a rule treats one argument or result."""

    PLAIN = "plain"  # is passed as it is; no tensor with a batch
    OPERAND = "operand"  # broadcasts behind the batch dimension
    MASK = "mask"  # an operand that does not take part in promotion
    FRONT = "front"  # its batch dimension goes first
    ALIGN = "align"  # the same where ranks differ
    FOLD = "fold"  # the batch is merged into a dimension
    FOLLOW = "follow"  # of a result: into the dimension that an argument names
    DIM = "dim"  # names dimensions; see DimKind
    SIZE = "size"  # a list with an entry for each dimension
    STRIDE = "stride"  # a list of strides
    OFFSET = "offset"  # counts elements from the beginning of memory
    TIMES = "times"  # is multiplied by the size of the batch


class DimKind(Enum):
    """Which dimensions an argument of role DIM names."""

    ONE_DIM = "one_dim"
    DIMS = "dims"
    DIMS_OR_ALL = "dims_or_all"  # none means all
    ORDER = "order"  # all of them, in another order
    NEW_DIM = "new_dim"  # one of a result with more dimensions
    NEW_DIMS = "new_dims"
