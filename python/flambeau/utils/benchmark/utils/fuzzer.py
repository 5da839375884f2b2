"""Random tensors for benchmarks and tests: parameters, tensors that they describe, and a generator of both.

Numbers are drawn from a `numpy.random.RandomState`, so that a seed gives the same cases as in PyTorch.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import flambeau

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]

Params = dict[str, Any]
_MOST_DRAWS = 1000  # for one case, until the constraints are called unsatisfiable
_SEED_BITS = 32


class ParameterAlias:
    """Value of a parameter that stands for the value of another one.

    Args:
        alias_to: the name of the other parameter.

    Example:
        >>> from flambeau.utils.benchmark import FuzzedParameter, ParameterAlias
        >>> either = FuzzedParameter("k", distribution={ParameterAlias("a"): 0.5, ParameterAlias("b"): 0.5})
        >>> ParameterAlias("a")
        ParameterAlias[alias_to: a]
    """

    def __init__(self, alias_to: str) -> None:
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """Random number or choice, by whose name tensors of a `Fuzzer` refer to it.

    Args:
        name: the name.
        minval: the smallest value, for distributions that are named.
        maxval: the largest value, included.
        distribution: "uniform", which draws integers unless a limit is a float; "loguniform", which draws
            integers whose logarithm is uniform; or a dict from values to probabilities.
        strict: whether a value is kept while the other parameters of a case are drawn again.
    Raises: ValueError for an unknown distribution, limits that are missing or out of order, and
        probabilities that are negative or do not sum to 1.

    Example:
        >>> import numpy
        >>> from flambeau.utils.benchmark import FuzzedParameter
        >>> FuzzedParameter("size", 1, 100, "loguniform").sample(numpy.random.RandomState(0))
        12
    """

    def __init__(
        self,
        name: str,
        minval: int | float | None = None,
        maxval: int | float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ) -> None:
        self._name, self._minval, self._maxval, self.strict = name, minval, maxval, strict
        self._distribution = self._check_distribution(distribution)

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def sample(self, state: Any) -> Any:
        """Draw a value from a `numpy.random.RandomState`."""
        if isinstance(self._distribution, dict):
            values = tuple(self._distribution)
            place = state.choice(len(values), p=tuple(self._distribution.values()))
            return values[int(place)]
        low, high = self._limits()
        if self._distribution == "loguniform":
            drawn = int(2 ** state.uniform(low=math.log2(low), high=math.log2(high)))
            return max(math.ceil(low), min(drawn, math.floor(high)))
        if isinstance(low, float) or isinstance(high, float):
            return state.uniform(low=low, high=high)
        return int(state.randint(low=low, high=high + 1, dtype="int64"))

    def _limits(self) -> tuple[int | float, int | float]:
        if self._minval is None or self._maxval is None:
            raise ValueError(
                f"FuzzedParameter: expected minval and maxval for {self._distribution!r}, got "
                f"{self._minval} and {self._maxval}"
            )
        return self._minval, self._maxval

    def _check_distribution(self, given: Any) -> str | dict[Any, float]:
        if isinstance(given, dict):
            shares = list(given.values())
            if not shares or not all(0 <= share <= 1 for share in shares) or abs(sum(shares) - 1) > 1e-6:
                raise ValueError(
                    "FuzzedParameter: expected probabilities that are not negative and sum to 1, got "
                    f"{shares[:8]}, which sum to {sum(shares)}"
                )
            return dict(given)
        if given not in ("uniform", "loguniform"):
            raise ValueError(
                f"FuzzedParameter: expected the distribution 'uniform', 'loguniform' or a dict, got {given!r}"
            )
        low, high = self._limits_of(given)
        if not low <= high or (given == "loguniform" and low <= 0):
            raise ValueError(
                f"FuzzedParameter: expected minval <= maxval, above 0 for 'loguniform', got {low} and {high}"
            )
        return str(given)

    def _limits_of(self, distribution: str) -> tuple[int | float, int | float]:
        self._distribution = distribution
        return self._limits()


class FuzzedTensor:
    """Random tensor whose sizes are parameters of a `Fuzzer`.

    Floating-point elements are uniform in [0, 1), integers in [1, 127).

    Args:
        name: the name by which a case has the tensor.
        size: the sizes; a string is the name of a parameter.
        steps: the distance of elements in a larger tensor, per dimension, as `size`. None means 1.
        probability_contiguous: the probability that the dimensions of the memory are in their order.
        min_elements: cases whose tensor is smaller are drawn again.
        max_elements: cases whose tensor is larger are drawn again.
        max_allocation_bytes: the same, for the memory with the steps.
        dim_parameter: the parameter that gives the number of dimensions; later ones are left out.
        roll_parameter: accepted, without effect.
        dtype: the dtype.
        cuda: whether the tensor is on a CUDA device.
        tensor_constructor: makes the tensor from the keywords `size`, `dtype` and all parameters.
    Raises: ValueError if `steps` has another length than `size`, or a name is no parameter.

    Example:
        >>> from flambeau.utils.benchmark import FuzzedParameter, FuzzedTensor, Fuzzer
        >>> case = Fuzzer([FuzzedParameter("n", 2, 9, "uniform")], [FuzzedTensor("x", ("n", 3))], seed=0)
        >>> [tuple(tensors["x"].shape) for tensors, facts, parameters in case.take(3)]
        [(7, 3), (6, 3), (2, 3)]
    """

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: flambeau.dtype = flambeau.float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Any] | None = None,
    ) -> None:
        if steps is not None and len(steps) != len(size):
            raise ValueError(
                f"FuzzedTensor: expected as many steps as sizes for {name!r}, got {steps} and {size}"
            )
        self._name, self._size, self._steps = name, size, steps
        self._probability_contiguous = probability_contiguous
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter, self._roll_parameter = dim_parameter, roll_parameter
        self._dtype, self._cuda, self._tensor_constructor = dtype, cuda, tensor_constructor

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @staticmethod
    def default_tensor_constructor(size: Sequence[int], dtype: flambeau.dtype, **kwargs: Any) -> Any:
        """Make a tensor of uniform elements: in [0, 1), or in [1, 127) for integers."""
        if dtype.is_floating_point or dtype.is_complex:
            return flambeau.rand(tuple(size), dtype=dtype, device="cpu")
        low, high = (0, 2) if dtype is flambeau.bool else (1, 127)
        return flambeau.randint(low, high, tuple(size), dtype=dtype, device="cpu")

    def _make_tensor(self, params: Params, state: Any) -> tuple[Any, dict[str, Any]]:
        size, steps, allocated, dtype = self._size_steps_allocated(params)
        constructor = self._tensor_constructor or self.default_tensor_constructor
        tensor = constructor(size=allocated, dtype=dtype, **params)
        if self._cuda:
            tensor = tensor.cuda()
        order = _order(len(size), self._probability_contiguous, state)
        if any(int(place) != i for i, place in enumerate(order)):
            tensor = tensor.permute(tuple(int(d) for d in order)).contiguous()
            tensor = tensor.permute(tuple(sorted(range(len(size)), key=lambda d: int(order[d]))))
        tensor = tensor[tuple(slice(None, n * step, step) for n, step in zip(size, steps, strict=True))]
        facts = {
            "numel": int(tensor.numel()),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(dtype),
        }
        return tensor, facts

    def _size_steps_allocated(self, params: Params) -> tuple[Any, Any, Any, flambeau.dtype]:
        size = tuple(_resolved(self._name, n, params) for n in self._size)
        steps = tuple(_resolved(self._name, n, params) for n in self._steps or (1,) * len(size))
        if self._dim_parameter:
            dim = params[self._dim_parameter]
            size, steps = size[:dim], steps[:dim]
        return size, steps, tuple(n * step for n, step in zip(size, steps, strict=True)), self._dtype

    def satisfies_constraints(self, params: Params) -> bool:
        """Return whether the tensor of these parameters has an allowed size."""
        size, _, allocated, dtype = self._size_steps_allocated(params)
        elements, bytes_ = math.prod(size), math.prod(allocated) * dtype.itemsize
        return not (
            (self._min_elements is not None and elements < self._min_elements)
            or (self._max_elements is not None and elements > self._max_elements)
            or (self._max_allocation_bytes is not None and bytes_ > self._max_allocation_bytes)
        )


def _order(dim: int, probability_contiguous: float, state: Any) -> Any:
    """Draw the order of dimensions in memory."""
    import numpy

    order = numpy.arange(dim)
    if state.rand() > probability_contiguous:
        while dim > 1 and (order == numpy.arange(dim)).all():
            order = state.permutation(order)
    return order


def _resolved(tensor: str, size: str | int, params: Params) -> int:
    if isinstance(size, str) and size not in params:
        raise ValueError(f"FuzzedTensor: expected a parameter as size of {tensor!r}, got {size!r}")
    return int(params[size] if isinstance(size, str) else size)


class Fuzzer:
    """Generator of cases: tensors, facts about them, and parameters.

    Args:
        parameters: the parameters; lists among them are unpacked.
        tensors: the tensors that are made of them; lists are unpacked.
        constraints: functions that each take the dict of all parameters. The fuzzer draws a case again if one
            of them returns False.
        seed: the seed of the cases and of the default generator. None means a random one.
    Raises: ValueError for equal names or cyclic aliases, RuntimeError if 1000 draws give no case.

    Example:
        >>> from flambeau.utils.benchmark import FuzzedParameter, FuzzedTensor, Fuzzer
        >>> sizes = [FuzzedParameter(name, 1, 64, "loguniform") for name in ("n", "m")]
        >>> wide = [lambda sizes: sizes["n"] < sizes["m"]]
        >>> fuzzer = Fuzzer(sizes, [FuzzedTensor("x", ("n", "m"))], constraints=wide, seed=3)
        >>> all(tensors["x"].shape[0] < tensors["x"].shape[1] for tensors, _, _ in fuzzer.take(4))
        True
    """

    def __init__(
        self,
        parameters: list[Any],
        tensors: list[Any],
        constraints: list[Callable[[Params], bool]] | None = None,
        seed: int | None = None,
    ) -> None:
        if seed is None:
            import secrets

            seed = secrets.randbits(_SEED_BITS)
        if not 0 <= seed < 2**_SEED_BITS:
            raise ValueError(f"Fuzzer: expected a seed from 0 to 2**32 - 1, got {seed}")
        self._seed = seed
        self._parameters = list(_unpacked(parameters, FuzzedParameter))
        self._tensors = list(_unpacked(tensors, FuzzedTensor))
        self._constraints = list(constraints or ())
        counts = Counter(one.name for one in (*self._parameters, *self._tensors))
        twice = sorted(name for name, count in counts.items() if count > 1)
        if twice:
            raise ValueError(f"Fuzzer: expected different names of parameters and tensors, got {twice} twice")
        self._rejections = self._total_generated = 0

    def take(self, n: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], Params]]:
        """Yield `n` cases; each call begins with the seed again.

        A case is the tensors by name, the facts of each (elements, order of dimensions, steps, whether it is
        contiguous, dtype), and the parameters.
        """
        import numpy

        state = numpy.random.RandomState(self._seed)
        flambeau.manual_seed(int(state.randint(low=0, high=2**63, dtype="int64")))
        for _ in range(n):
            params = self._generate(state)
            made = {one.name: one._make_tensor(params, state) for one in self._tensors}
            tensors = {name: tensor for name, (tensor, _) in made.items()}
            yield tensors, {name: facts for name, (_, facts) in made.items()}, params

    @property
    def rejection_rate(self) -> float:
        """The share of draws that did not give a case; 0 before the first."""
        return self._rejections / self._total_generated if self._total_generated else 0.0

    def _generate(self, state: Any) -> Params:
        strict: Params = {}
        for _ in range(_MOST_DRAWS):
            params: Params = {}
            for one in self._parameters:
                if one.strict and one.name in strict:
                    params[one.name] = strict[one.name]
                    continue
                params[one.name] = one.sample(state)
                if one.strict:
                    strict[one.name] = params[one.name]
            params = _without_aliases(params)
            self._total_generated += 1
            if all(f(params) for f in self._constraints) and all(
                t.satisfies_constraints(params) for t in self._tensors
            ):
                return params
            self._rejections += 1
        raise RuntimeError(
            f"Fuzzer: expected parameters that meet the constraints, got none in {_MOST_DRAWS} draws"
        )


def _unpacked(values: Iterable[Any], kind: type) -> Iterator[Any]:
    for value in values:
        for one in [value] if isinstance(value, kind) else value:
            if not isinstance(one, kind):
                raise TypeError(f"Fuzzer: expected {kind.__name__} objects, got {type(one).__name__}")
            yield one


def _without_aliases(params: Params) -> Params:
    """Replace aliases by the values that they stand for."""
    out = {}
    for name, value in params.items():
        seen = [name]
        while isinstance(value, ParameterAlias):
            if value.alias_to in seen:
                raise ValueError(
                    f"Fuzzer: expected aliases without a cycle, got {' -> '.join(seen)} -> {seen[0]}"
                )
            if value.alias_to not in params:
                raise ValueError(f"Fuzzer: expected an alias of a parameter, got {value.alias_to!r}")
            seen.append(value.alias_to)
            value = params[value.alias_to]
        out[name] = value
    return out
