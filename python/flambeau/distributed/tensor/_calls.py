"""How an operator on distributed tensors runs: choose placements, move parts, compute in each process."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed.tensor import _rules
from flambeau.distributed.tensor._labels import labelled
from flambeau.distributed.tensor._placements import Placement, Replicate
from flambeau.distributed.tensor._placing import Choice, chosen
from flambeau.distributed.tensor._redistribute import redistributed
from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta, local_shape
from flambeau.utils._pytree import tree_leaves, tree_map

_warned: set[str] = set()
_SIZES = ("size", "sizes")


class Call:
    """One call of an operator with distributed tensors among its arguments."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kind: Any) -> None:
        self.func, self.name, self.kind = func, func.name().partition("::")[2], kind
        schema = func._schema
        names = [parameter.name for parameter in schema.parameters]
        self.values = {**schema.defaults, **dict(zip(names, args, strict=False)), **kwargs}
        self.writes = bool(schema.mutates)
        self.on_lists = self.writes and not schema.returns
        self.tensors = [leaf for name in names for leaf in self._tensors_of(schema, name)]
        self.mesh = next(t._spec.mesh for t in self.tensors if isinstance(t, kind))
        self.specs = [self._spec_of(t) for t in self.tensors]
        self.args, self.kwargs = args, kwargs

    def _tensors_of(self, schema: Any, name: str) -> list[Any]:
        kind = next(parameter.type for parameter in schema.parameters if parameter.name == name)
        if not kind.startswith("Tensor"):
            return []
        value = self.values.get(name)
        return list(value) if isinstance(value, list | tuple) else [value]

    def _spec_of(self, tensor: Any) -> DTensorSpec | None:
        if not isinstance(tensor, Tensor):
            return None
        if isinstance(tensor, self.kind):
            if tensor._spec.mesh != self.mesh and not self.on_lists:
                raise self._several_meshes()
            return tensor._spec
        # Formulas of gradients, which run without recording, make zeros that are equal in all processes.
        if tensor.numel() != 1 and flambeau.is_grad_enabled():
            raise RuntimeError(
                f"aten.{self.name}: got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to "
                "DTensor before calling distributed operators! expected DTensor, got Tensor of shape "
                f"{tuple(tensor.shape)}"
            )
        return DTensorSpec(self.mesh, (Replicate(),) * self.mesh.ndim, _meta_of(tensor))

    def _several_meshes(self) -> RuntimeError:
        return RuntimeError(f"aten.{self.name}: expected tensors of one mesh, got several")

    # --- one tensor for each argument -----------------------------------------------------------------

    def run(self) -> Any:
        """Return the result."""
        if self.on_lists:
            return self._run_lists()
        if self.func._schema.returns and not any("Tensor" in kind for kind in self.func._schema.returns):
            positional, named = self._wholes()  # such as item: a number depends on all elements
            return self.func(*positional, **named)
        outs = self._shapes()
        leaves = [out for out in tree_leaves(outs) if isinstance(out, Tensor)]
        kept = 0 if self.writes else None
        rule = _rules.RULES.get(self.name)
        picked = chosen(self._labels(rule, leaves), self.specs, len(leaves), kept)
        if rule is None:
            self._warn()
        if not picked:
            return self._write_whole()
        columns = [tuple(c.inputs[i] for c in picked) for i in range(len(self.tensors))]
        positional, named = self._local(columns, picked, leaves)
        result = self.func(*positional, **named)
        return self._wrapped(result, outs, picked)

    def _warn(self) -> None:
        if self.name not in _warned:
            _warned.add(self.name)
            warnings.warn(
                f"DTensor: aten.{self.name} has no sharding rule, so that each process computes the whole",
                UserWarning,
                stacklevel=5,
            )

    def _labels(self, rule: Any, leaves: list[Tensor]) -> Any:
        if rule is None or not leaves or "stride" in self.values:
            return None
        shapes = [None if spec is None else spec.shape for spec in self.specs]
        if rule[0] not in ("labels", "pointwise", "linear") and any(shape is None for shape in shapes):
            return None
        return labelled(rule, shapes, [tuple(leaf.shape) for leaf in leaves], self.values, self._view)

    def _view(self, shape: tuple[int, ...]) -> list[tuple[Any, Any]]:
        """Return sizes and strides of the views of a contiguous tensor."""
        source = flambeau.empty(shape, device="meta")
        arguments = [source if isinstance(a, Tensor) else a for a in self.args]
        return [(tuple(o.shape), o.stride()) for o in tree_leaves(self.func(*arguments, **self.kwargs))]

    def _shapes(self) -> Any:
        """Run the operator on tensors without elements."""
        if self.writes:
            return self.tensors[0]
        return self.func(*tree_map(_without_elements, self.args), **tree_map(_without_elements, self.kwargs))

    def _local(self, columns: list[Any], picked: list[Choice], leaves: list[Tensor]) -> Any:
        """Return the arguments of this process's call."""
        parts = {}
        for tensor, spec, placements in zip(self.tensors, self.specs, columns, strict=True):
            if spec is not None:
                parts[id(tensor)] = self._part(tensor, spec, placements)
        values = tree_map(lambda v: parts.get(id(v), v) if isinstance(v, Tensor) else v, self.values)
        if len(leaves) == 1 and not self.writes:
            placements = tuple(c.outputs[0] for c in picked)
            for name in _SIZES:
                given = values.get(name)
                if isinstance(given, list | tuple) and len(given) == leaves[0].dim():
                    values[name] = local_shape(self.mesh, placements, tuple(leaves[0].shape))
        parameters = self.func._schema.parameters
        positional = [values.get(p.name) for p in parameters if not p.keyword_only]
        return positional, {p.name: values[p.name] for p in parameters if p.keyword_only and p.name in values}

    def _part(self, tensor: Any, spec: DTensorSpec, placements: tuple[Placement, ...]) -> Tensor:
        local = tensor._local_tensor if isinstance(tensor, self.kind) else tensor
        if placements != spec.placements:
            return redistributed(local, spec, placements)
        is_view = _rules.RULES.get(self.name) == ("view",)
        return local.contiguous() if is_view and tensor.is_contiguous() else local

    def _wrapped(self, result: Any, outs: Any, picked: list[Choice]) -> Any:
        """Return the result as distributed tensors."""
        if self.writes:
            return self.tensors[0]
        number = iter(range(len(picked and picked[0].outputs)))

        def wrap(local: Any, whole: Any) -> Any:
            if not isinstance(local, Tensor):
                return local
            i = next(number)
            placements = tuple(choice.outputs[i] for choice in picked)
            return self.kind(local, DTensorSpec(self.mesh, placements, _meta_of(whole)))

        if isinstance(result, list | tuple):
            made = [wrap(a, b) for a, b in zip(result, outs, strict=True)]
            return made if isinstance(result, list) else tuple(made)
        return wrap(result, outs)

    # --- calls without placements ------------------------------------------------------------------------

    def _wholes(self) -> Any:
        """Return the arguments with whole tensors."""
        whole = (Replicate(),) * self.mesh.ndim
        pairs = zip(self.tensors, self.specs, strict=True)
        parts = {id(t): self._part(t, spec, whole) for t, spec in pairs if spec is not None}
        return tree_map(
            lambda v: parts.get(id(v), v) if isinstance(v, Tensor) else v, (self.args, self.kwargs)
        )

    def _write_whole(self) -> Any:
        """Write to the whole tensor in each process, and keep this process's part."""
        whole = (Replicate(),) * self.mesh.ndim
        parts = {}
        for tensor, spec in zip(self.tensors, self.specs, strict=True):
            if spec is not None:
                parts[id(tensor)] = self._part(tensor, spec, whole).clone()
        args, kwargs = tree_map(
            lambda v: parts.get(id(v), v) if isinstance(v, Tensor) else v, (self.args, self.kwargs)
        )
        self.func(*args, **kwargs)
        target, spec = self.tensors[0], self.specs[0]
        assert spec is not None
        result = redistributed(parts[id(target)], spec.placed(whole), spec.placements)
        target._local_tensor.copy_(result)
        return target

    def _run_lists(self) -> None:
        """Run an operator on lists: the tensors at one place of the lists get the placements of the first."""
        if _rules.RULES.get(self.name) not in (("pointwise",), ("linear",)):
            raise RuntimeError(
                f"aten.{self.name}: expected an operator with a sharding rule, got one without"
            )
        lists = [
            v for v in self.values.values() if isinstance(v, list | tuple) and v and isinstance(v[0], Tensor)
        ]
        parts: dict[int, Tensor] = {}
        for group in zip(*lists, strict=True):
            if len({tensor._spec.mesh for tensor in group if isinstance(tensor, self.kind)}) > 1:
                raise self._several_meshes()
            for tensor in group:
                if isinstance(tensor, self.kind):
                    parts[id(tensor)] = self._part(tensor, tensor._spec, group[0]._spec.placements)
        args, kwargs = tree_map(
            lambda v: parts.get(id(v), v) if isinstance(v, Tensor) else v, (self.args, self.kwargs)
        )
        self.func(*args, **kwargs)


def _meta_of(tensor: Tensor) -> TensorMeta:
    return TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)


def _without_elements(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return flambeau.device("meta") if isinstance(value, flambeau.device) else value
    return flambeau.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
