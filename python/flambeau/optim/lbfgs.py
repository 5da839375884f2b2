"""L-BFGS: quasi-Newton steps from the last changes of parameters and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import flambeau
from flambeau import Tensor
from flambeau._loading.lazy import attributes
from flambeau.optim.optimizer import Optimizer

# Loss and gradient at a step length along the search direction.
Slope = Callable[[float], tuple[float, Tensor]]


@dataclass
class _Trial:
    """A point of the line search: step length, loss, gradient, and its slope along the direction."""

    t: float
    loss: float
    grad: Tensor
    slope: float


def _cubic_minimum(a: _Trial, b: _Trial, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic with the losses and slopes of two points is lowest, within bounds.

    Source: Nocedal and Wright 2006, "Numerical Optimization", eq. 3.59.
    """
    low, high = bounds or (min(a.t, b.t), max(a.t, b.t))
    if a.t > b.t:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    d2 = square**0.5
    position = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    return min(max(position, low), high)


class _StrongWolfe:
    """Line search for a step that lowers the loss enough (c1) and flattens the slope enough (c2).

    Source: Nocedal and Wright 2006, algorithms 3.5 and 3.6, with the safeguards of minFunc (Schmidt 2005).
    """

    c1, c2, most = 1e-4, 0.9, 25

    def __init__(self, evaluate: Slope, start: _Trial, direction: Tensor, tolerance: float) -> None:
        self.evaluate, self.start, self.direction = evaluate, start, direction
        self.tolerance = tolerance
        self.evaluations = 0

    def at(self, t: float) -> _Trial:
        loss, grad = self.evaluate(t)
        self.evaluations += 1
        return _Trial(t, loss, grad, float(grad.dot(self.direction)))

    def _too_high(self, point: _Trial) -> bool:
        return point.loss > self.start.loss + self.c1 * point.t * self.start.slope

    def _flat(self, point: _Trial) -> bool:
        return abs(point.slope) <= -self.c2 * self.start.slope

    def search(self, t: float) -> _Trial:
        """Widen the interval until it holds a good step, then close in on that."""
        before, point = self.start, self.at(t)
        tries = 0
        bracket: tuple[_Trial, ...] = ()
        while tries < self.most:
            if self._too_high(point) or (tries > 1 and point.loss >= before.loss):
                bracket = (before, point)
                break
            if self._flat(point):
                return point
            if point.slope >= 0:
                bracket = (before, point)
                break
            low = point.t + 0.01 * (point.t - before.t)
            t = _cubic_minimum(before, point, (low, point.t * 10))
            before, point = point, self.at(t)
            tries += 1
        if not bracket:
            bracket = (self.start, point)
        return self._close_in(list(bracket), tries)

    def _close_in(self, ends: list[_Trial], tries: int) -> _Trial:
        ends.sort(key=lambda e: e.loss)
        stuck = False
        while tries < self.most:
            low, high = sorted(e.t for e in ends)
            if (high - low) * float(self.direction.abs().max()) < self.tolerance:
                break
            t = _cubic_minimum(ends[0], ends[1])
            margin = 0.1 * (high - low)
            if min(high - t, t - low) < margin:
                if stuck or t >= high or t <= low:
                    t = high - margin if abs(t - high) < abs(t - low) else low + margin
                    stuck = False
                else:
                    stuck = True
            else:
                stuck = False
            point = self.at(t)
            tries += 1
            if self._too_high(point) or point.loss >= ends[0].loss:
                ends = sorted((ends[0], point), key=lambda e: e.loss)
                continue
            if self._flat(point):
                return point
            ends = [point, ends[0] if point.slope * (ends[1].t - ends[0].t) >= 0 else ends[1]]
        return ends[0]


class LBFGS(Optimizer):
    """Limited-memory BFGS: quasi-Newton steps from the last changes of parameters and gradients.

    The loss must be deterministic. Call ``step(closure)`` with a function that clears the gradients, computes
    the loss, calls ``backward`` and returns the loss.

    Args:
        params: the parameters, in one group only.
        lr: the length of a step without line search, or of its first trial, 0 or more.
        max_iter: the largest number of iterations in a call of `step`.
        max_eval: the largest number of calls of the closure in a call of `step`. None means ``1.25 *
            max_iter``.
        tolerance_grad: `step` ends when no element of the gradient is larger in magnitude.
        tolerance_change: `step` ends when neither the loss nor any parameter changes by more.
        history_size: the number of changes that are stored.
        line_search_fn: "strong_wolfe", or None for no line search.
    Raises: ValueError for several groups or a negative `lr`.
    Source: Liu & Nocedal 1989, "On the Limited Memory BFGS Method for Large Scale Optimization"; Nocedal &
        Wright 2006, "Numerical Optimization", algorithms 3.5 and 3.6, for the line search.

    Example:
        >>> w = flambeau.tensor([1.0, -2.0], requires_grad=True)
        >>> optimizer = flambeau.optim.LBFGS([w], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (w - 3).square().sum()
        ...     loss.backward()
        ...     return loss
        >>> optimizer.step(closure)
        tensor(29., grad_fn=<SumBackward0>)
        >>> w.detach()
        tensor([3.0000, 3.0000])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError(
                f"LBFGS: expected lr to be a number or a Tensor of one element, got {lr.numel()}"
            )
        if not lr >= 0.0:
            raise ValueError(f"LBFGS: expected lr >= 0, got {lr} (Invalid learning rate: {lr})")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError(f"LBFGS: expected a single parameter group, got {len(self.param_groups)}")
        self._params = self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        flat = [flambeau.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return flambeau.cat([_real(g.to_dense()).reshape(-1) for g in flat])

    def _move(self, t: float, direction: Tensor) -> None:
        at = 0
        for p in map(_real, self._params):
            p.add_(direction[at : at + p.numel()].view_as(p), alpha=t)
            at += p.numel()

    def _evaluator(self, closure: Callable[[], Any], direction: Tensor) -> Slope:
        start = [p.clone() for p in self._params]

        def evaluate(t: float) -> tuple[float, Tensor]:
            self._move(t, direction)
            loss, grad = float(closure()), self._gradient()
            for p, origin in zip(self._params, start, strict=True):
                p.copy_(origin)
            return loss, grad

        return evaluate

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Make up to max_iter iterations.

        Args:
            closure: clears the gradients, computes the loss and its gradients, and returns the loss.
        """
        with flambeau.no_grad():
            return self._step(lambda: self._loss(closure))

    def _step(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, grad, evaluations = float(first_loss), self._gradient(), 1
        state["func_evals"] += 1
        iterations = 0
        while grad.abs().max() > group["tolerance_grad"] and iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction = self._direction(state, grad, group["history_size"])
            lr = float(group["lr"])
            t = min(1.0, 1.0 / float(grad.abs().sum())) * lr if state["n_iter"] == 1 else lr
            state["prev_flat_grad"], state["prev_loss"] = grad.clone(), loss
            slope = float(grad.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            last = iterations == group["max_iter"]
            point = self._line(closure, _Trial(0, loss, grad, slope), t, direction, last)
            t, spent = point[0].t, point[1]
            change = abs(point[0].loss - loss)
            loss, grad = point[0].loss, point[0].grad
            evaluations += spent
            state["func_evals"] += spent
            state["d"], state["t"] = direction, t
            small = float(direction.mul(t).abs().max()) <= group["tolerance_change"]
            if evaluations >= group["max_eval"] or small or change < group["tolerance_change"]:
                break
        return first_loss

    def _line(
        self, closure: Callable[[], Any], start: _Trial, t: float, direction: Tensor, last: bool
    ) -> tuple[_Trial, int]:
        """Move along the direction; the point reached and the number of evaluations."""
        group = self.param_groups[0]
        if group["line_search_fn"] is None:
            self._move(t, direction)
            if last:  # nobody will look at the loss there
                return _Trial(t, start.loss + float("inf"), start.grad, start.slope), 0
            return _Trial(t, float(closure()), self._gradient(), 0.0), 1
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError(
                "LBFGS: only 'strong_wolfe' is supported: expected it or None as line_search_fn, got "
                f"{group['line_search_fn']!r}"
            )
        search = _StrongWolfe(
            self._evaluator(closure, direction), start, direction, group["tolerance_change"]
        )
        point = search.search(t)
        self._move(point.t, direction)
        return point, search.evaluations

    def _direction(self, state: dict[str, Any], grad: Tensor, history: int) -> Tensor:
        """Minus the inverse Hessian's estimate times the gradient, by the two-loop recursion."""
        if state["n_iter"] == 1:
            state["old_dirs"], state["old_stps"], state["ro"], state["H_diag"] = [], [], [], 1
            return grad.neg()
        y, s = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = float(y.dot(s))
        changes, moves, inverse = state["old_dirs"], state["old_stps"], state["ro"]
        if curvature > 1e-10:
            if len(changes) == history:
                for memory in (changes, moves, inverse):
                    memory.pop(0)
            changes.append(y)
            moves.append(s)
            inverse.append(1.0 / curvature)
            state["H_diag"] = curvature / float(y.dot(y))
        q = grad.neg()
        weights = []
        for y, s, rho in zip(reversed(changes), reversed(moves), reversed(inverse), strict=True):
            weights.append(float(s.dot(q)) * rho)
            q.add_(y, alpha=-weights[-1])
        r = q.mul(state["H_diag"])
        for y, s, rho, weight in zip(changes, moves, inverse, reversed(weights), strict=True):
            r.add_(s, alpha=weight - float(y.dot(r)) * rho)
        return r


def _real(tensor: Tensor) -> Tensor:
    return flambeau.view_as_real(tensor) if tensor.is_complex() else tensor


__getattr__, __dir__ = attributes(__name__)
