"""The states of wrapped models: names without wrappers, and whole tensors or parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed._groups import get_rank
from flambeau.distributed.fsdp._exposure import Exposure
from flambeau.distributed.fsdp._flat import FlatParts
from flambeau.distributed.fsdp._layout import Layout
from flambeau.distributed.fsdp.api import StateDictType
from flambeau.distributed.tensor import DTensor, Replicate, Shard
from flambeau.distributed.tensor._placements import Placement
from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta

WRAPPED = "_fsdp_wrapped_module"


def clean(name: str) -> str:
    """Return a name without the parts that wrappers add."""
    return name.replace(f"{WRAPPED}.", "")


clean_tensor_name = clean  # PyTorch's name in ``_common_utils``


def divided(whole: Tensor, layout: Layout) -> Tensor:
    """Return this process's part of a tensor along the first dimension, as a DTensor."""
    size, begin = layout.part(whole.size(0))
    local = whole.narrow(0, begin, size).clone()
    single: list[Placement] = [Shard(0)]
    placements = single if layout.mesh.ndim == 1 else [Replicate(), *single]
    meta = TensorMeta(tuple(whole.shape), tuple(whole.stride()), whole.dtype)
    return DTensor(local, DTensorSpec(layout.mesh, tuple(placements), meta))


def presented(whole: Tensor, layout: Layout, kind: StateDictType) -> Tensor:
    """Return a whole tensor in the form of a kind of state."""
    is_divided = kind is not StateDictType.FULL_STATE_DICT and layout.size > 1 and whole.dim() > 0
    return divided(whole, layout) if is_divided else whole


def whole_of(value: Any) -> Any:
    """Return a value of a state as a whole tensor; all processes call this."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def places_of(wrapper: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yield each parameter that a wrapper divides, with its names inside the wrapper."""
    parts: FlatParts | None = wrapper._parts
    if parts is None:
        return
    names = {module: name for name, module in wrapper.module.named_modules(remove_duplicate=False)}
    for original in parts.originals:
        yield original, [clean(f"{names[m]}.{n}" if names[m] else n) for m, n in original.places]


class StateHooks:
    """What happens when the state of a wrapper is collected or loaded.

    Args:
        wrapper: the `FullyShardedDataParallel`.
    """

    def __init__(self, wrapper: Any) -> None:
        self._exposure: Exposure | None = None
        self.buffers: dict[str, flambeau.dtype] = {}  # those that were cast, with their own dtype
        wrapper.register_state_dict_pre_hook(self.before_saving)
        wrapper._register_state_dict_hook(self.after_saving)
        wrapper.register_load_state_dict_pre_hook(self.before_loading)
        wrapper.register_load_state_dict_post_hook(self.after_loading)

    def _expose(self, wrapper: Any, wholes: list[Tensor]) -> None:
        if self._exposure is not None:  # an earlier call has failed
            self._exposure.end(writes_back=False)
        self._exposure = Exposure(wrapper._parts, wholes)

    def _end(self, writes_back: bool) -> None:
        exposure, self._exposure = self._exposure, None
        if exposure is not None:
            exposure.end(writes_back)

    def before_saving(self, wrapper: Any, prefix: str, keep_vars: bool) -> None:
        """Give the module its whole parameters."""
        parts: FlatParts | None = wrapper._parts
        if parts is None:
            return
        wrapper._reshard()
        if wrapper._settings.state_dict_type is not StateDictType.LOCAL_STATE_DICT:
            self._expose(wrapper, parts.gather_values())

    def after_saving(self, wrapper: Any, state: dict[str, Any], prefix: str, metadata: Any) -> None:
        """Rename what was collected, and give it the form that was asked for."""
        self._end(writes_back=False)
        settings = wrapper._settings
        inside = f"{prefix}{WRAPPED}."
        drops = getattr(settings.state_dict_config, "rank0_only", False) and get_rank() > 0
        for key in [key for key in state if key.startswith(prefix)]:
            value = state.pop(key)
            name = key[len(inside) :] if key.startswith(inside) else key[len(prefix) :]
            if name in self.buffers and isinstance(value, Tensor):
                value = value.to(self.buffers[name])
            if not drops:
                state[prefix + name] = value
        if drops or wrapper._parts is None:
            return
        if settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            state[f"{prefix}_flat_param"] = wrapper._parts.part().detach()
            return
        for _, names in places_of(wrapper):
            keys = [prefix + name for name in names if prefix + name in state]
            if keys:
                value = presented(state[keys[0]], wrapper._parts.layout, settings.state_dict_type)
                state.update(dict.fromkeys(keys, value))

    def before_loading(
        self, wrapper: Any, state: dict[str, Any], prefix: str, metadata: Any, *rest: Any
    ) -> None:
        """Rename what is loaded, and give the module whole parameters to load into."""
        parts: FlatParts | None = wrapper._parts
        is_local = wrapper._settings.state_dict_type is StateDictType.LOCAL_STATE_DICT
        if parts is not None and not is_local:
            for _, names in places_of(wrapper):
                for key in (prefix + name for name in names):
                    if key in state:
                        state[key] = whole_of(state[key])
            wrapper._reshard()
            self._expose(wrapper, parts.gather_values())
        elif parts is not None and parts.keeps:
            state.pop(f"{prefix}_flat_param", None)  # the module has views of it
        for key in [key for key in state if key.startswith(prefix)]:
            state[f"{prefix}{WRAPPED}.{key[len(prefix) :]}"] = state.pop(key)

    def after_loading(self, wrapper: Any, keys: Any) -> None:
        """Take over what was loaded."""
        self._end(writes_back=True)
        for listed in keys:
            listed[:] = [clean(key) for key in listed]
