"""Optimizers as functions of lists: ``adam(params, grads, exp_avgs, ..., lr=0.1, ...)``, one step in place.

Each line of `_TEXT` is a function: its class, then its lists, its options with their defaults and its
hyperparameters, in PyTorch's order and by PyTorch's names. ``list=slot`` names the state of the class that a
list holds, ``parameter=place`` the entry of the group, or of a tuple in it, that a hyperparameter becomes.
A function does not switch gradients off; callers do that, as with any operator that works in place.
"""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from flambeau import Tensor
from flambeau.optim._rule import Group, RuleOptimizer, is_skipped

_TEXT = """
adam adam.Adam
  exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step
  foreach=None capturable=False differentiable=False fused=None grad_scale=None found_inf=None
  has_complex=False decoupled_weight_decay=False
  amsgrad beta1=betas.0 beta2=betas.1 lr weight_decay eps maximize
adamw adam.AdamW
  exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step
  foreach=None capturable=False differentiable=False fused=None grad_scale=None found_inf=None
  has_complex=False
  amsgrad beta1=betas.0 beta2=betas.1 lr weight_decay eps maximize
sgd sgd.SGD
  momentum_buffer_list=momentum_buffer
  has_sparse_grad=False foreach=None fused=None grad_scale=None found_inf=None
  weight_decay momentum lr dampening nesterov maximize
adagrad adaptive.Adagrad
  state_sums=sum state_steps=step
  fused=None grad_scale=None found_inf=None has_sparse_grad=False foreach=None differentiable=False
  has_complex=False
  lr weight_decay lr_decay eps maximize
adadelta adaptive.Adadelta
  square_avgs=square_avg acc_deltas=acc_delta state_steps=step
  capturable=False foreach=None differentiable=False has_complex=False
  lr rho eps weight_decay maximize
rmsprop adaptive.RMSprop
  square_avgs=square_avg grad_avgs=grad_avg momentum_buffer_list=momentum_buffer state_steps=step
  foreach=None maximize=False differentiable=False capturable=False has_complex=False
  lr alpha eps weight_decay momentum centered
rprop sgd.Rprop
  prevs=prev step_sizes=step_size state_steps=step
  foreach=None capturable=False maximize=False differentiable=False has_complex=False
  step_size_min=step_sizes.0 step_size_max=step_sizes.1 etaminus=etas.0 etaplus=etas.1
asgd sgd.ASGD
  axs=ax mus=mu etas=eta state_steps=step
  foreach=None maximize=False differentiable=False capturable=False has_complex=False
  lambd lr t0 alpha weight_decay
adamax adam.Adamax
  exp_avgs=exp_avg exp_infs=exp_inf state_steps=step
  foreach=None maximize=False differentiable=False capturable=False has_complex=False
  eps beta1=betas.0 beta2=betas.1 lr weight_decay
nadam adam.NAdam
  exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq mu_products=mu_product state_steps=step
  decoupled_weight_decay=False foreach=None capturable=False differentiable=False has_complex=False
  maximize=False
  beta1=betas.0 beta2=betas.1 lr weight_decay momentum_decay eps
radam adam.RAdam
  exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq state_steps=step
  decoupled_weight_decay=False foreach=None differentiable=False capturable=False has_complex=False
  maximize=False
  beta1=betas.0 beta2=betas.1 lr weight_decay eps
"""
# Parameters that make no group: tensors say themselves whether they are complex or sparse.
_NOT_OPTIONS = {"has_complex", "has_sparse_grad", "grad_scale", "found_inf"}


@dataclass(frozen=True, slots=True)
class _Row:
    """A function: its name, its class, and its parameters with the places that they belong to."""

    name: str
    kind: str
    lists: dict[str, str]
    options: dict[str, Any]
    places: dict[str, str]

    @classmethod
    def of(cls, text: str) -> _Row:
        head, *words = text.split()
        equal = dict(word.split("=") for word in words[1:] if "=" in word)
        lists = {k: v for k, v in equal.items() if v[0].islower() and "." not in v}
        options = {k: literal_eval(v) for k, v in equal.items() if v[0].isupper()}
        named = [word for word in words[1:] if word.partition("=")[0] not in {*lists, *options}]
        places = {word.partition("=")[0]: word.rpartition("=")[2] for word in named}
        return cls(head, words[0], lists, options, places)

    def signature(self) -> inspect.Signature:
        kind = inspect.Parameter
        names = ("params", "d_p_list" if self.name == "sgd" else "grads", *self.lists)
        lists = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in names]
        options = [kind(k, kind.POSITIONAL_OR_KEYWORD, default=v) for k, v in self.options.items()]
        return inspect.Signature([*lists, *options, *(kind(k, kind.KEYWORD_ONLY) for k in self.places)])

    def group(self, values: dict[str, Any]) -> Group:
        """The parameter group that arguments make."""
        group: Group = {k: values[k] for k in self.options if k not in _NOT_OPTIONS}
        for name, place in self.places.items():
            key, _, index = place.partition(".")
            group[key] = (*group.get(key, ()), values[name]) if index else values[name]
        group.setdefault("decoupled_weight_decay", self.name == "adamw")
        return group

    def step(self, values: dict[str, Any]) -> None:
        module, _, kind = self.kind.partition(".")
        optimizer: type[RuleOptimizer] = getattr(import_module(f"flambeau.optim.{module}"), kind)
        tensors, grads = list(values.values())[:2]
        if "state_steps" in self.lists:
            _check_steps(self.name, values["state_steps"])
        if _is_skipped(self.name, grads, values):
            return
        lists = {slot: values[given] for given, slot in self.lists.items()}
        optimizer.step_lists(self.name, tensors, grads, lists, self.group(values))

    def function(self) -> Callable[..., None]:
        signature = self.signature()

        def function(*args: Any, **kwargs: Any) -> None:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(
                    f"{self.name}: expected its own arguments, got a call that does not fit: {error}"
                ) from None
            bound.apply_defaults()
            self.step(bound.arguments)

        function.__name__ = function.__qualname__ = self.name
        function.__module__ = f"flambeau.optim.{self.name}"
        kind = self.kind.rpartition(".")[2]
        function.__doc__ = f"Make one step of `{kind}` in place on lists of tensors and of their states."
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function


def _check_steps(name: str, steps: list[Any]) -> None:
    others = {type(step).__name__ for step in steps if not isinstance(step, Tensor)}
    if others:
        raise RuntimeError(
            f"{name}: `state_steps` argument must contain a list of singleton tensors: expected tensors, got "
            f"{sorted(others)}"
        )


def _is_skipped(name: str, grads: list[Tensor], values: dict[str, Any]) -> bool:
    scale, found = values.get("grad_scale"), values.get("found_inf")
    if (scale is not None or found is not None) and not values["fused"]:
        raise AssertionError(
            f"{name}: expected fused=True with grad_scale or found_inf, got {values['fused']}"
        )
    return is_skipped(grads, scale, found)


_ROWS = [_Row.of(text) for text in _TEXT.strip().replace("\n  ", " ").splitlines()]
vars().update({row.name: row.function() for row in _ROWS})
__all__ = [row.name for row in _ROWS]
