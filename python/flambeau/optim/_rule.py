"""What optimizers with an update rule share: checks, states, grouping of parameters, options.

A rule changes a parameter `p` by its gradient `g`, a state and hyperparameters. It is written once, for
tensors, and runs on each parameter alone, or with foreach=True on lists of all parameters alike (see
`flambeau.optim._lists`), or, differentiable=True, so that gradients flow through it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import flambeau
from flambeau import _C, Tensor
from flambeau.optim._lists import Tensors, Value, each
from flambeau.optim.optimizer import Optimizer

Group = dict[str, Any]
Initial = Callable[[Tensor, Group], Tensor]

_AT_LEAST_ZERO = {
    "lr": "learning rate",
    "eps": "epsilon value",
    "momentum": "momentum value",
    "weight_decay": "weight_decay value",
    "lr_decay": "lr_decay value",
    "initial_accumulator_value": "initial_accumulator_value value",
    "alpha": "alpha value",
    "rho": "rho value",
    "momentum_decay": "momentum_decay value",
}


def zeros(p: Tensor, group: Group) -> Tensor:
    """A state like the parameter, of zeros."""
    return flambeau.zeros_like(p, memory_format=flambeau.preserve_format)


def count(p: Tensor, group: Group) -> Tensor:
    """A state of one number, 0: what counts steps stays exact whatever the parameter's dtype."""
    return scalar(0.0)


def scalar(value: float) -> Tensor:
    """A state of one number."""
    double = flambeau.get_default_dtype() == flambeau.float64
    return flambeau.tensor(value, dtype=flambeau.float64 if double else flambeau.float32)


def _check_lists_take(who: str, name: str, given: Group) -> None:
    """Adam and AdamW over lists take numbers only, as in PyTorch; others take tensors as well."""
    if "amsgrad" in given and given.get("foreach") and not given.get("capturable"):
        raise ValueError(
            f"{who}: {name} as a Tensor needs foreach=False or capturable=True: expected a number, "
            "got a Tensor"
        )


def _check_betas(who: str, given: Group) -> None:
    tensors = [isinstance(beta, Tensor) for beta in given.get("betas", ())]
    if any(tensors) and not all(tensors):
        raise ValueError(f"{who}: expected betas of two floats or two Tensors, got one of each")
    for i, is_tensor in enumerate(tensors):
        if is_tensor:
            _check_lists_take(who, f"betas[{i}]", given)
            if given["betas"][i].numel() != 1:
                raise ValueError(
                    f"{who}: Tensor betas[{i}] must be 1-element: expected one element, got "
                    f"{given['betas'][i].numel()}"
                )


def check_hyperparameters(who: str, given: Group) -> None:
    """Raise ValueError that names the optimizer `who` for values out of range."""
    lr = given.get("lr")
    if isinstance(lr, Tensor):
        _check_lists_take(who, "lr", given)
        if lr.numel() != 1:
            raise ValueError(
                f"{who}: expected lr to be a number or a Tensor of one element, got {lr.numel()}"
            )
    for name, label in _AT_LEAST_ZERO.items():
        if name in given and not isinstance(given[name], tuple) and not given[name] >= 0.0:
            raise ValueError(
                f"{who}: expected {name} >= 0, got {given[name]} (Invalid {label}: {given[name]})"
            )
    _check_betas(who, given)
    for i, beta in enumerate(given.get("betas", ())):
        if not 0.0 <= beta < 1.0:
            raise ValueError(
                f"{who}: expected betas from 0 to below 1, got {beta} (Invalid beta parameter at index "
                f"{i}: {beta})"
            )
    if given.get("fused"):
        if given.get("differentiable"):
            raise RuntimeError(
                f"{who}: `fused` does not support `differentiable`: expected one of them, got both"
            )
        if given.get("foreach"):
            raise RuntimeError(f"{who}: expected `fused` or `foreach`, got both")


def descend(p: Value, rate: Any, direction: Value, over: Value = None) -> None:
    """P -= rate * direction / over; `rate` may be a tensor through which gradients flow."""
    if isinstance(rate, Tensor):
        p.sub_((direction if over is None else direction.div(over)).mul(rate))
    elif over is None:
        p.add_(direction, alpha=-rate)
    else:
        p.addcdiv_(direction, over, value=-rate)


def with_values(entries: Tensor, values: Tensor) -> Tensor:
    """Return a coalesced tensor with other values in its entries."""
    return flambeau.sparse_coo_tensor(entries._indices(), values, entries.shape, is_coalesced=True)


def average_(mean: Value, beta: Any, a: Value, b: Value) -> Value:
    """Mean = beta * mean + (1 - beta) * a * b, in place."""
    if isinstance(beta, Tensor):
        return mean.mul_(beta).add_(a.mul(b).mul(1 - beta))
    return mean.mul_(beta).addcmul_(a, b, value=1 - beta)


def largest_(so_far: Value, other: Value) -> Value:
    """Elementwise maximum, in place."""
    return each(_largest_, so_far, other)


def _largest_(so_far: Tensor, other: Tensor) -> Tensor:
    before = so_far.clone() if flambeau.is_grad_enabled() else so_far  # backward needs it as it was
    return so_far.copy_(flambeau.maximum(before, other))


class State:
    """The state that a rule sees: tensors (or lists of them) and numbers, by name."""

    first: bool  # whether this is the parameter's first step
    step: float  # from 1

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...


class RuleOptimizer(Optimizer):
    """An optimizer that is a rule for one parameter.

    Subclasses define `slots`, the names and initial values of the state, `scalars`, which of them are
    numbers, and `rule`. The gradient that a rule gets is negated for maximize=True and has the
    weight decay in it, unless that is decoupled.
    """

    scalars: tuple[str, ...] = ("step",)
    decoupled = False
    takes_sparse = False  # whether the rule is for sparse gradients as well

    def __init__(self, params: Iterable[Any], given: Group) -> None:
        defaults = {k: v for k, v in given.items() if k not in ("self", "params", "__class__")}
        check_hyperparameters(type(self).__name__, defaults)
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Add the options that a state saved by an older version does not have."""
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)
        for values in self.state.values():
            for name in self.scalars:
                if name in values and not isinstance(values[name], Tensor):
                    values[name] = scalar(float(values[name]))

    def slots(self, group: Group) -> dict[str, Initial]:
        """Return the initial value of each state."""
        return {}

    def rule(self, p: Value, g: Value, s: State, group: Group) -> None:
        """Move `p`, one tensor or several, in place."""
        raise NotImplementedError(f"{type(self).__name__} must define rule()")

    def fused(
        self,
        tensors: list[Tensor],
        grads: list[Tensor],
        states: list[dict[str, Any]],
        group: Group,
        first: bool,
    ) -> None:
        """Move all tensors by one operator; `quick` says whether there is one."""
        raise NotImplementedError(f"{type(self).__name__} has no fused operator")

    # --- one step ------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move every parameter that has a gradient.

        Args:
            closure: recomputes the loss, its gradients too, and returns it.
        """
        loss = self._loss(closure)
        with flambeau.set_grad_enabled(bool(self.defaults.get("differentiable"))):
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group: Group) -> None:
        tensors, grads, any_sparse, fusible = _C._with_gradients(group["params"])
        if not tensors:
            return
        self._step_tensors(tensors, grads, group, any_sparse, fusible)

    @classmethod
    def step_lists(
        cls, name: str, tensors: list[Tensor], grads: list[Tensor], lists: dict[str, list[Any]], group: Group
    ) -> None:
        """Make one step of tensors whose gradients and states are in lists, for the function `name`."""
        if not tensors:
            return
        self = cls.__new__(cls)
        self.state = defaultdict(dict)
        slots = self.slots(group)
        for what, items in {"gradients": grads, **{k: lists[k] for k in slots}}.items():
            if len(items) < len(tensors):
                raise IndexError(f"{name}: expected {len(tensors)} {what}, got {len(items)}")
        for i, p in enumerate(tensors):
            self.state[p] = {slot: lists[slot][i] for slot in slots}
        given = grads[: len(tensors)]
        any_sparse = any(g.is_sparse for g in given)
        fusible = not any_sparse and all(_fits(p, g) for p, g in zip(tensors, given, strict=True))
        self._step_tensors(tensors, given, group, any_sparse, fusible)
        for i, p in enumerate(tensors):
            for slot in slots:
                lists[slot][i] = self.state[p][slot]

    def _step_tensors(
        self, tensors: list[Tensor], grads: list[Tensor], group: Group, any_sparse: bool, fusible: bool
    ) -> None:
        """Move tensors of one group by their gradients; `fusible`: whether an operator can do it."""
        if any_sparse and not self.takes_sparse:
            raise RuntimeError(
                f"{type(self).__name__}: {type(self).__name__} does not support sparse gradients; use "
                "SGD, Adagrad or SparseAdam"
            )
        if group.get("capturable") and not all(p.is_cuda for p in tensors):
            raise AssertionError(
                f"{type(self).__name__}: capturable=True needs parameters on supported devices: cuda; "
                f"got {tensors[0].device}"
            )
        numbers = group if group.get("differentiable") else _numbers(group)
        slots = self.slots(group)
        first = self._first_steps(tensors, slots, group)
        if self._is_fused(tensors, any_sparse, fusible, group):
            # Scalers of gradients leave these on optimizers that were asked for fused steps.
            given = vars(self) if group["fused"] else {}
            if is_skipped(grads, given.get("grad_scale"), given.get("found_inf")):
                return
            if True not in first:
                states = [self.state[p] for p in tensors] if slots else []
                self.fused(tensors, grads, states, numbers, False)
                return
            for new in set(first):
                places = [i for i, is_first in enumerate(first) if is_first is new]
                states = [self.state[tensors[i]] if slots else {} for i in places]
                self.fused([tensors[i] for i in places], [grads[i] for i in places], states, numbers, new)
        elif group.get("foreach") and not group.get("differentiable") and not any_sparse:
            for key, places in self._buckets(tensors, first).items():
                members, theirs = [tensors[i] for i in places], [grads[i] for i in places]
                self._move(members, theirs, key[-1], numbers)
        else:
            for p, g, is_first in zip(tensors, grads, first, strict=True):
                self._move([p], [g], is_first, numbers)

    def _first_steps(self, tensors: list[Tensor], slots: dict[str, Initial], group: Group) -> list[bool]:
        """Make the states that are missing; for each tensor, whether there were any."""
        return [self._initialize(p, slots, group) for p in tensors] if slots else [False] * len(tensors)

    def _initialize(self, p: Tensor, slots: dict[str, Initial], group: Group) -> bool:
        """The same for one tensor."""
        state = self.state[p]
        missing = [name for name in slots if state.get(name) is None]
        for name in missing:
            state[name] = slots[name](p, group)
        return bool(missing)

    def _is_fused(self, tensors: list[Tensor], any_sparse: bool, fusible: bool, group: Group) -> bool:
        """Whether one operator does the step: when asked for, or when left open and possible."""
        if "fused" not in group or group.get("differentiable") or group.get("foreach"):
            return False
        if flambeau.is_grad_enabled() and any(p.requires_grad for p in tensors):
            return False  # the rule's operators record the step or refuse it
        if group["fused"] and any_sparse:
            raise RuntimeError(
                f"{type(self).__name__}: expected strided gradients for `fused=True`, got a sparse one"
            )
        if group["fused"] and not fusible:
            raise RuntimeError(
                f"{type(self).__name__}: expected parameters for which `fused=True` works, got "
                f"{tensors[0].dtype} on {tensors[0].device}: `fused=True` needs floating params on the cpu"
            )
        return fusible and group["fused"] is not False

    def _buckets(self, tensors: list[Tensor], first: list[bool]) -> dict[Any, list[int]]:
        """Places of tensors that one call over lists can serve: of one dtype and with equal numbers."""
        out: dict[Any, list[int]] = {}
        for i, (p, is_first) in enumerate(zip(tensors, first, strict=True)):
            numbers = tuple(float(self.state[p][k]) for k in self.scalars if k in self.state.get(p, {}))
            out.setdefault((p.dtype, p.device, numbers, is_first), []).append(i)
        return out

    def _move(self, tensors: list[Tensor], grads: list[Tensor], first: bool, group: Group) -> None:
        states = [self.state[p] if p in self.state else {} for p in tensors]
        if group.get("differentiable"):  # what backward needs is not written to by the next step
            for state in states:
                state.update({k: v.clone() for k, v in state.items() if k not in self.scalars})
        names = list(self.slots(group))
        s = State({name: self._packed(name, states) for name in names})
        s.first = first
        if "step" in names:
            s.step += 1
        p, g = _packed(tensors), _packed(grads)
        if group.get("maximize"):
            g = g.neg()
        g = self._decay(p, g, group)
        self.rule(p, g, s, group)
        for name in self.scalars:
            if name in names:
                for state in states:
                    state[name].fill_(getattr(s, name))

    def _packed(self, name: str, states: list[dict[str, Any]]) -> Value:
        if name in self.scalars:
            return states[0][name].item()
        return _packed([state[name] for state in states])

    def _decay(self, p: Value, g: Value, group: Group) -> Value:
        """Weight decay: p shrinks where it is decoupled, else it is part of the gradient that is returned."""
        weight_decay = group.get("weight_decay", 0)
        if not isinstance(weight_decay, Tensor) and weight_decay == 0:
            return g
        if self.decoupled or group.get("decoupled_weight_decay"):
            p.mul_(1 - group["lr"] * weight_decay)
            return g
        if getattr(g, "is_sparse", False):
            raise RuntimeError(
                f"{type(self).__name__}: weight_decay is not compatible with sparse gradients, since it "
                "changes every element"
            )
        if isinstance(weight_decay, Tensor):
            return g.add(p.mul(weight_decay))
        return g.add(p, alpha=weight_decay)


def is_skipped(grads: list[Tensor], scale: Any, found: Any) -> bool:
    """Whether a gradient was found infinite; otherwise remove the scale from the gradients, in place."""
    if found is not None and found.item():
        return True
    if scale is not None:
        flambeau._foreach_div_(grads, scale.item())
    return False


def _fits(p: Tensor, g: Tensor) -> bool:
    """Whether the operator of a fused step takes the two."""
    return p.is_cpu and p.dtype.is_floating_point and p.dtype == g.dtype


def _packed(tensors: list[Tensor]) -> Value:
    """The tensor, or a list of several; complex numbers as pairs of real ones."""
    real = [flambeau.view_as_real(t) if t.is_complex() else t for t in tensors]
    return real[0] if len(real) == 1 else Tensors(real)


_REPLACED = (Tensor, tuple)


def _numbers(group: Group) -> Group:
    """The group with numbers in place of tensors."""
    return {k: _number(v) if isinstance(v, _REPLACED) else v for k, v in group.items()}


def _number(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.item()
    if isinstance(value, tuple):
        return tuple(_number(v) for v in value)
    return value
