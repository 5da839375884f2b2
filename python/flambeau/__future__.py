"""Choices about how modules convert their parameters."""

_overwrite = False
_swap = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Choose whether `Module.to`, `double` and similar methods make new parameters.

    Args:
        value: False: parameters stay the same objects, with other memory. True: they are replaced.
    """
    global _overwrite
    _overwrite = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return whether conversions of a module make new parameters."""
    return _overwrite


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions and `load_state_dict` exchange parameters by `utils.swap_tensors`.

    Args:
        value: True: the objects stay and become what the new tensors were, class and attributes included.
            A parameter that a graph holds cannot be exchanged.
    """
    global _swap
    _swap = value


def get_swap_module_params_on_conversion() -> bool:
    """Return whether conversions of a module exchange its parameters by `utils.swap_tensors`."""
    return _swap
