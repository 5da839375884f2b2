"""How an operator on distributed tensors runs: choose placements, move parts, compute in each process."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau.distributed.tensor import _rules
from flambeau.distributed.tensor._labels import labelled
from flambeau.distributed.tensor._placements import Placement, Replicate, Shard
from flambeau.distributed.tensor._placing import Choice, chosen
from flambeau.distributed.tensor._redistribute import redistributed
from flambeau.distributed.tensor._spec import DTensorSpec, TensorMeta, local_shape, part_shapes
from flambeau.utils._python_dispatch import return_and_correct_aliasing
from flambeau.utils._pytree import tree_leaves, tree_map

_warned: set[str] = set()
_SIZES = ("size", "sizes")


class Given(threading.local):
    """The plain tensors among the arguments of the function that the thread runs."""

    plain: tuple[Tensor, ...] | None = None  # None: no function is known


given = Given()


def is_given(tensor: Tensor) -> bool:
    """Whether a plain tensor can come from the program, instead of from a function that runs."""
    return given.plain is None or any(t is tensor for t in given.plain)


class Call:
    """One call of an operator with distributed tensors among its arguments."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], kind: Any) -> None:
        self.func, self.name, self.kind = func, func.name().partition("::")[2], kind
        schema = func._schema
        names = [parameter.name for parameter in schema.parameters]
        self.values = {**schema.defaults, **dict(zip(names, args, strict=False)), **kwargs}
        self.writes = bool(schema.mutates)
        self.on_lists = self.writes and not schema.results
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
        # Formulas of gradients, which run without recording, and parts of functions make tensors that are
        # equal in all processes.
        if tensor.numel() != 1 and flambeau.is_grad_enabled() and is_given(tensor):
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
        rule = _rules.RULES.get(self.name)
        if self.writes and getattr(self.tensors[0], "_moved_from", None) is not None:
            return self._write_through()
        if rule is None:
            if any("Tensor" in kind for kind in self.func._schema.results):  # not item: it needs all elements
                self._warn()
            return self._write_whole() if self.writes else self._run_whole()
        outs = self._shapes()
        leaves = [out for out in tree_leaves(outs) if isinstance(out, Tensor)]
        kept = 0 if self.writes else None
        picked = chosen(self._labels(rule, leaves), self.specs, len(leaves), kept)
        if rule == ("view",) and not self._fits_parts(picked, leaves):
            picked = chosen(None, self.specs, len(leaves), kept)
        if not picked:
            return self._write_whole()
        columns = [tuple(c.inputs[i] for c in picked) for i in range(len(self.tensors))]
        result = self._wrapped(self._called(self._local(columns, picked, leaves)), outs, picked)
        if rule == ("view",) and self._moves(columns[0]):
            for number, view in enumerate(tree_leaves(result)):
                view._moved_from = (self, number)
        # Autograd knows views by their storage.
        is_view = rule == ("view",)
        return return_and_correct_aliasing(self.func, self.args, self.kwargs, result) if is_view else result

    def _moves(self, placements: tuple[Placement, ...]) -> bool:
        """Whether a view has other memory than what it shows."""
        source, spec = self.tensors[0], self.specs[0]
        is_moved = getattr(source, "_moved_from", None) is not None
        return is_moved or (spec is not None and placements != spec.placements)

    def _warn(self) -> None:
        if self.name not in _warned:
            _warned.add(self.name)
            warnings.warn(
                f"DTensor: aten.{self.name} has no sharding rule, so that each process computes the whole",
                UserWarning,
                stacklevel=5,
            )

    def _labels(self, rule: Any, leaves: list[Tensor]) -> Any:
        if not leaves or "stride" in self.values:
            return None
        shapes = [None if spec is None else spec.shape for spec in self.specs]
        if rule[0] in ("reduce", "view") and any(shape is None for shape in shapes):
            return None
        return labelled(rule, shapes, [tuple(leaf.shape) for leaf in leaves], self.values, self._view)

    def _view(self) -> list[tuple[Any, Any]]:
        """Return sizes, and strides in bytes, of a contiguous tensor and its views."""
        source = flambeau.empty(self.tensors[0].shape, dtype=self.tensors[0].dtype, device="meta")
        arguments = [source if isinstance(a, Tensor) else a for a in self.args]
        found = [source, *tree_leaves(self.func(*arguments, **self.kwargs))]
        return [(tuple(o.shape), [s * o.itemsize for s in o.stride()]) for o in found]

    def _fits_parts(self, picked: list[Choice], leaves: list[Tensor]) -> bool:
        """Whether the views of all processes' parts are the parts of the views."""
        placements = (
            tuple(c.inputs[0] for c in picked),
            *(tuple(c.outputs[i] for c in picked) for i in range(len(leaves))),
        )
        if not any(isinstance(p, Shard) for p in placements[0]):
            return True
        shapes = tuple(tuple(t.shape) for t in (self.tensors[0], *leaves))
        for source, *wanted in part_shapes(tuple(self.mesh.shape), placements, shapes):
            part = flambeau.empty(source, dtype=self.tensors[0].dtype, device="meta")
            values = self._with_tensors(itertools.chain([part], self.tensors[1:]))
            try:
                found = tree_leaves(self._called(self._sized(values, wanted)))
            except (RuntimeError, IndexError, ValueError):
                return False
            if [tuple(t.shape) for t in found] != wanted:
                return False
        return True

    def _sized(self, values: dict[str, Any], shapes: list[Any]) -> dict[str, Any]:
        """Replace sizes of the one result by those of a part."""
        for name in _SIZES if len(shapes) == 1 else ():
            given = values.get(name)
            if isinstance(given, list | tuple) and len(given) == len(shapes[0]):
                values[name] = list(shapes[0])
        return values

    def _shapes(self) -> Any:
        """Run the operator on tensors without elements."""
        if self.writes:
            return self.tensors[0]
        return self.func(*tree_map(_without_elements, self.args), **tree_map(_without_elements, self.kwargs))

    def _local(self, columns: list[Any], picked: list[Choice], leaves: list[Tensor]) -> dict[str, Any]:
        """Return the arguments of this process's call."""
        parts = iter(
            [
                tensor if spec is None else self._part(tensor, spec, placements)
                for tensor, spec, placements in zip(self.tensors, self.specs, columns, strict=True)
            ]
        )
        values = self._with_tensors(parts)
        placements = tuple(c.outputs[0] for c in picked) if len(leaves) == 1 and not self.writes else ()
        if any(isinstance(p, Shard) for p in placements):
            return self._sized(values, [local_shape(self.mesh, placements, tuple(leaves[0].shape))])
        return values

    def _with_tensors(self, given: Iterator[Any]) -> dict[str, Any]:
        """Return the arguments by name with other tensors, which come in the order of `self.tensors`."""
        values = dict(self.values)
        for parameter in self.func._schema.parameters:
            if parameter.type.startswith("Tensor"):
                value = values.get(parameter.name)
                if isinstance(value, list | tuple):
                    values[parameter.name] = [next(given) for _ in value]
                else:
                    values[parameter.name] = next(given)
        return values

    def _called(self, values: dict[str, Any]) -> Any:
        """Call the operator with arguments by name."""
        parameters = self.func._schema.parameters
        positional = [values.get(p.name) for p in parameters if not p.keyword_only]
        named = {p.name: values[p.name] for p in parameters if p.keyword_only and p.name in values}
        return self.func(*positional, **named)

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

    def _wholes(self) -> list[Any]:
        """Return the arguments as whole tensors in each process."""
        whole = (Replicate(),) * self.mesh.ndim
        pairs = zip(self.tensors, self.specs, strict=True)
        return [t if spec is None else self._part(t, spec, whole) for t, spec in pairs]

    def _run_whole(self) -> Any:
        """Compute the whole in each process."""
        whole = (Replicate(),) * self.mesh.ndim

        def wrap(value: Any) -> Any:
            is_plain = isinstance(value, Tensor) and value.layout is flambeau.strided
            return self.kind(value, DTensorSpec(self.mesh, whole, _meta_of(value))) if is_plain else value

        return tree_map(wrap, self._called(self._with_tensors(iter(self._wholes()))))

    def _write_whole(self) -> Any:
        """Write to the whole tensor in each process, and keep this process's part."""
        target, spec = self.tensors[0], self.specs[0]
        assert spec is not None
        values = self._wholes()
        if not isinstance(target, self.kind):  # made by a function that runs, in each process
            return self._called(self._with_tensors(iter(values)))
        values[0] = values[0].clone()
        self._called(self._with_tensors(iter(values)))
        if tuple(values[0].shape) != spec.shape:
            raise RuntimeError(
                f"aten.{self.name}: expected a result of the DTensor's shape {spec.shape}, got "
                f"{tuple(values[0].shape)}: a DTensor keeps its shape"
            )
        whole = spec.placed((Replicate(),) * self.mesh.ndim)
        target._local_tensor.copy_(redistributed(values[0], whole, spec.placements))
        return target

    def _write_through(self) -> Any:
        """Write to a view that got memory of its own because parts moved, and to the tensor that it shows."""
        target = self.tensors[0]
        viewing, number = target._moved_from
        shown = viewing.tensors[0]
        spec = shown._spec
        everywhere = (Replicate(),) * self.mesh.ndim
        whole = viewing._part(shown, spec, everywhere).clone()
        views = viewing._called(viewing._with_tensors(itertools.chain([whole], viewing.tensors[1:])))
        values = self._wholes()
        values[0] = tree_leaves(views)[number]
        self._called(self._with_tensors(iter(values)))
        placed = self.kind(whole, spec.placed(everywhere))
        Call(flambeau.ops.aten.copy_.default, (shown, placed), {}, self.kind).run()
        view_spec = target._spec.placed(everywhere)
        target._local_tensor.copy_(redistributed(values[0], view_spec, target._spec.placements))
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
