"""Code that a compiled function reaches by no variable of its own: getters, methods of classes, hooks.

Each case reads a list in a closure; a later change of the list must be seen.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as fb
import pytest
from flambeau import nn

Case = Callable[[Any], Any]


def named_of(numbers: list[float]) -> Any:
    """Return a class whose named members read `numbers` in their closures."""

    class Named:
        def __init__(self) -> None:
            self.__dict__["kept"] = 2

        @property
        def current(self) -> float:
            return numbers[0]

        @property
        def same(self) -> Any:
            return self

        @classmethod
        def by_class(cls, x: Any) -> Any:
            return x * numbers[0]

        @staticmethod
        def static(x: Any) -> Any:
            return x * numbers[0]

        def method(self, x: Any) -> Any:
            return x * numbers[0]

    return Named


def class_of(numbers: list[float]) -> Any:
    """Return a class whose special methods do so as well."""

    class Reader(named_of(numbers)):  # type: ignore[misc]
        def __getattr__(self, name: str) -> float:
            if name != "missing":
                raise AttributeError(name)
            return numbers[0]

        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, value * numbers[0])

        def __iter__(self) -> Iterator[float]:
            return iter([numbers[0], 2.0])

        def __len__(self) -> int:
            return int(numbers[0])

        def __bool__(self) -> bool:
            return numbers[0] > 2

        def __getitem__(self, key: Any) -> float:
            return numbers[0] + key

        def __call__(self, x: Any) -> Any:
            return x * numbers[0]

    return Reader


def _written(reader: Any, x: Any) -> Any:
    reader.made = x
    return reader.made


def _through(reader: Any, x: Any) -> Any:
    for number in reader:
        x = x * number
    return x


CASES: dict[str, Callable[[Any], Case]] = {
    "property": lambda r: lambda x: x * r.current,
    "getattr": lambda r: lambda x: x * getattr(r, "current"),  # noqa: B009 - what is tested
    "class method": lambda r: lambda x: type(r).by_class(x),
    "static method": lambda r: lambda x: r.static(x),
    "__getattr__": lambda r: lambda x: x * r.missing,
    "__setattr__": lambda r: lambda x: _written(r, x),
    "__iter__": lambda r: lambda x: _through(r, x),
    "__len__": lambda r: lambda x: x * len(r),
    "__bool__": lambda r: lambda x: x if r else x + 1,
    "__getitem__": lambda r: lambda x: x * r[3],
    "__call__": lambda r: lambda x: r(x),
    "attrgetter": lambda r: lambda x: x * operator.attrgetter("same.current")(r),
    "attrgetter of two": lambda r: lambda x: x * operator.attrgetter("kept", "current")(r)[1],
    "itemgetter": lambda r: lambda x: x * operator.itemgetter(0)(r),
    "itemgetter of two": lambda r: lambda x: x * sum(operator.itemgetter(2, 0)(r)),
    "key of a sort": lambda r: lambda x: x * sorted([1, 2], key=lambda n: n if r else -n)[0],
    "compiled method": lambda r: (lambda inner: lambda x: inner(x) + 1)(fb.compile(r.method)),
    "compiled object": lambda r: (lambda inner: lambda x: inner(x) + 1)(fb.compile(r.static)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_change_of_what_its_closure_holds_is_seen(name: str, backend: str) -> None:
    numbers = [1.0]
    plain = CASES[name](class_of(numbers)())
    compiled = fb.compile(plain, backend=backend)
    x = fb.arange(3.0)
    for change in (None, 3.0, 1.0, 4.0):
        if change is not None:
            numbers[0] = change
        assert fb.equal(compiled(x), plain(x)), change
    numbers.insert(0, 7.0)
    assert fb.equal(compiled(x), plain(x))


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_compiled_function_inside_another_reads_its_closure_anew(backend: str) -> None:
    numbers, other = [1.0], {"k": 2.0}

    def scaled(x: Any, by: Any = numbers) -> Any:
        return x * numbers[0] + by[-1] * other["k"]

    inner = fb.compile(scaled, backend=backend)
    outer = fb.compile(lambda x: inner(x) + inner(x * 2), backend=backend)
    x = fb.arange(3.0)
    for change in (lambda: None, lambda: numbers.append(5.0), lambda: other.update(k=9.0)):
        change()
        assert fb.equal(outer(x), scaled(x) + scaled(x * 2))


def test_effects_of_getters_are_repeated_by_each_call() -> None:
    calls = 0
    seen: list[int] = []

    class Counter:
        @property
        def count(self) -> int:
            nonlocal calls
            calls += 1
            seen.append(calls)
            return calls

    counter = Counter()
    compiled = fb.compile(lambda x: x * counter.count, backend="eager")
    for i in range(1, 5):
        assert fb.equal(compiled(fb.ones(2)), fb.full((2,), float(i)))
        assert calls == i and seen == list(range(1, i + 1))


def test_a_function_made_inside_needs_no_second_recording() -> None:
    def program(x: Any, n: int) -> Any:
        total = [0.0]

        def add(y: Any) -> Any:
            total[0] += n
            return y + total[0]

        @functools.wraps(add)
        def twice(y: Any) -> Any:
            return add(add(y))

        return twice(x)

    fb._dynamo.utils.counters.clear()
    compiled = fb.compile(program, backend="eager")
    for _ in range(4):
        assert fb.equal(compiled(fb.ones(2), 3), program(fb.ones(2), 3))
    assert fb._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_hooks_of_all_modules_are_seen(backend: str) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = fb.compile(lambda x: model(x), backend=backend)
    x, hooks = fb.randn(5, 4), nn.modules.module

    def check() -> None:
        assert fb.allclose(compiled(x), model(x))

    check()
    makers = (
        lambda: hooks.register_module_forward_hook(lambda m, given, result: result + 1),
        lambda: hooks.register_module_forward_pre_hook(lambda m, given: (given[0] * 2,)),
    )
    for register in makers:
        with contextlib.closing(_Handle(register())):
            check()
            with contextlib.closing(_Handle(makers[0]())):
                check()
        check()


class _Handle:
    def __init__(self, handle: Any) -> None:
        self.close = handle.remove


def test_the_cache_of_parametrizations_is_read_and_filled() -> None:
    from flambeau.nn.utils import parametrizations, parametrize

    results = []
    for wrap in (lambda f: f, lambda f: fb.compile(f, backend="eager")):
        fb.manual_seed(0)
        model = parametrizations.weight_norm(nn.Linear(4, 4))
        run, x, found = wrap(lambda x, m=model: m(x)), fb.ones(2, 4), []
        length = model.parametrizations.weight.original0.data
        for _ in range(2):
            found.append(run(x))
            with parametrize.cached():
                found.append(run(x))
                length.mul_(2)
                found += [run(x), run(x)]
            found.append(run(x))
        results.append(found)
    for plain, compiled in zip(*results, strict=True):
        assert fb.equal(plain, compiled)


def test_the_default_of_checks_of_distributions_is_seen() -> None:
    distributions = fb.distributions
    compiled = fb.compile(lambda x, s: distributions.Normal(x, s).log_prob(x), backend="eager")
    x, bad = fb.zeros(3), -fb.ones(3)
    assert compiled(x, -bad).isfinite().all()
    with pytest.raises(ValueError, match="scale"):
        compiled(x, bad)
    distributions.Distribution.set_default_validate_args(False)
    try:
        assert compiled(x, bad).isnan().all()
    finally:
        distributions.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="scale"):
        compiled(x, bad)


@pytest.mark.parametrize(("owner", "name"), [(fb, "sin"), (nn.functional, "relu"), (fb.nn, "functional")])
def test_functions_of_the_package_that_a_program_replaces(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(x: Any) -> Any:
        return fb.sin(x) + fb.nn.functional.relu(x)

    class Other:
        relu = staticmethod(fb.cos)

    compiled, x = fb.compile(program, backend="eager"), fb.randn(8)
    assert fb.equal(compiled(x), program(x))
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, Other if name == "functional" else fb.cos)
        assert fb.equal(compiled(x), program(x))
    assert fb.equal(compiled(x), program(x))


@pytest.mark.parametrize("rule", [fb.optim.SGD, fb.optim.AdamW])
def test_parameters_that_lose_and_regain_gradients(rule: Any) -> None:
    results = []
    for wrap in (lambda f: f, lambda f: fb.compile(f, backend="eager")):
        parameters = [fb.ones(4, requires_grad=True), fb.ones(2, requires_grad=True)]
        options = {"lr": 0.1, **({"momentum": 0.9} if rule is fb.optim.SGD else {})}
        step, found = wrap(rule(parameters, **options).step), []
        for present in ((1, 1), (1, 0), (0, 1), (1, 1), (0, 0), (1, 0)):
            for p, is_there in zip(parameters, present, strict=True):
                p.grad = fb.ones_like(p) if is_there else None
            step()
            found += [p.detach().clone() for p in parameters]
        results.append(found)
    for plain, compiled in zip(*results, strict=True):
        assert fb.equal(plain, compiled)
