"""Constants of the value types: dtypes with their short names, layouts, memory formats."""

from flambeau import _C

_KINDS = (_C.dtype, _C.layout, _C.memory_format)
globals().update({name: value for name, value in vars(_C).items() if isinstance(value, _KINDS)})

__all__ = [name for name, value in globals().items() if isinstance(value, _KINDS)]
