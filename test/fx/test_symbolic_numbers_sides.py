"""Symbolic numbers and their environment: values and truth of guards, side by side with PyTorch's."""

import itertools
import math
import operator
from importlib import import_module

import flambeau as fb
import pytest

EXAMPLES = (5, 7)


@pytest.fixture(params=["flambeau", "torch"])
def fw(request):
    return fb if request.param == "flambeau" else pytest.importorskip("torch")


def shapes(framework):
    return import_module(f"{framework.__name__}.fx.experimental.symbolic_shapes")


def source_of(framework, name):
    if framework is fb:
        return name
    return import_module("torch._dynamo.source").ConstantSource(name)


def environment(framework, *examples):
    """Return an environment and a SymInt for each example."""
    env = shapes(framework).ShapeEnv()
    numbers = []
    for i, n in enumerate(examples):
        source = source_of(framework, f"n{i}")
        symbol = env.create_symbol(n, source, shapes(framework).DimDynamic.DYNAMIC)
        numbers.append(env.create_symintnode(symbol, hint=n, source=source))
    return env, numbers


def symbols_of(env):
    values = env.var_to_val if hasattr(env, "var_to_val") else env.backed_var_to_val
    return list(values)


PROGRAMS = {
    "sum": lambda a, b: 2 * a + b - 1,
    "reflected": lambda a, b: 20 - a + 3 * b,
    "quotient": lambda a, b: (a * b + 3) // 2,
    "reflected quotient": lambda a, b: 100 // a + b,
    "remainder": lambda a, b: (a * 3) % b,
    "power": lambda a, b: a**2 + b**3,
    "negative": lambda a, b: abs(-a) + -b,
    "division": lambda a, b: a / b,
    "mixed": lambda a, b: a * 0.5 + b,
    "floor": lambda a, b: math.floor(a / 2) + math.ceil(b / 2),
    "truncated": lambda a, b: math.trunc(a / b),
    "exact": lambda a, b: a * b // b,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_arithmetic_has_the_value_of_python_numbers(fw, program):
    _, (a, b) = environment(fw, *EXAMPLES)
    found, expected = program(a, b), program(*EXAMPLES)
    assert found.node.hint == pytest.approx(expected, rel=1e-12)
    kind = shapes(fw).SymFloat if isinstance(expected, float) else shapes(fw).SymInt
    assert isinstance(found, kind)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_expressions_hold_for_other_values(program):
    env, (a, b) = environment(fb, *EXAMPLES)
    expression, symbols = program(a, b).node.expr, symbols_of(env)
    for values in itertools.product(range(2, 12), repeat=2):
        found = env._e.evaluate(expression, dict(zip(symbols, values, strict=True)))
        assert found == pytest.approx(program(*values), rel=1e-12), values


def test_functions_for_symbolic_numbers(fw):
    _, (a, b) = environment(fw, *EXAMPLES)
    results = [
        (fw.sym_max(a, 3), 5),
        (fw.sym_max(2, a), 5),
        (fw.sym_min(b, a), 5),
        (fw.sym_float(a), 5.0),
        (fw.sym_int(b / a), 1),
        (fw.sym_not(a > 4), False),
        (fw.sym_ite(a > b, a, b), 7),
        (fw.sym_sum([a, b, b]), 19),
        (fw._sym_sqrt(a) if hasattr(fw, "_sym_sqrt") else fw.sym_sqrt(a), math.sqrt(5)),
    ]
    for found, expected in results:
        assert found.node.hint == pytest.approx(expected)


CONDITIONS = {
    "less": lambda a, b: a < b,
    "not less": lambda a, b: a > b,
    "at least": lambda a, b: a >= 4,
    "equal": lambda a, b: a == 5,
    "not equal": lambda a, b: a != b,
    "difference": lambda a, b: a + 2 == b,
    "divisible": lambda a, b: (a * b) % 5 == 0,
    "even": lambda a, b: a % 2 == 0,
    "half": lambda a, b: a // 2 < b // 3,
    "product": lambda a, b: a * b > 30,
    "both": lambda a, b: (a > 3) & (b > 6),
    "either": lambda a, b: (a > 6) | (b > 6),
    "known": lambda a, b: a + b > 3,
    "max": lambda a, b: fb.sym_max(a, b) > 6,
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_truth_of_guards_for_a_hundred_pairs(name):
    torch = pytest.importorskip("torch")
    condition = CONDITIONS[name]
    if name == "max":
        results = [
            _truths(framework, lambda a, b, f=framework: f.sym_max(a, b) > 6) for framework in (fb, torch)
        ]
    else:
        results = [_truths(framework, condition) for framework in (fb, torch)]
    assert results[0] == results[1]
    taken = bool(condition(*EXAMPLES))
    pairs = list(itertools.product(range(2, 12), repeat=2))
    assert results[0] == [bool(condition(*pair)) == taken for pair in pairs]


def _truths(framework, condition):
    """Return the truth of all guards for pairs of values."""
    env, numbers = environment(framework, *EXAMPLES)
    bool(condition(*numbers))
    symbols = symbols_of(env)
    found = []
    for pair in itertools.product(range(2, 12), repeat=2):
        values = dict(zip(symbols, pair, strict=True))
        found.append(all(bool(guard.expr.subs(values)) for guard in env.guards))
    return found


def test_conditions_that_bounds_prove_leave_no_guard(fw):
    env, (a, b) = environment(fw, *EXAMPLES)
    assert a > 1 and a != 0 and not a < 2 and a * b >= 4 and a + b > 3 and bool(a)
    assert not env.guards
    assert a > 3 and len(env.guards) == 1
    assert a > 3 and a > 2 and not a <= 3 and len(env.guards) == 1


def test_int_specialises(fw):
    env, (a, b) = environment(fw, *EXAMPLES)
    assert int(a) == 5 and list(range(10))[b] == 7
    assert len(env.guards) == 2
    assert a + b == 12 and shapes(fw).is_concrete_int(5)


def test_numbers_are_not_keys(fw):
    _, (a, _) = environment(fw, *EXAMPLES)
    with pytest.raises(TypeError, match="unhashable"):
        hash(a)


def test_texts(fw):
    env, (a, b) = environment(fw, *EXAMPLES)
    first, second = map(str, symbols_of(env))

    def text(value):
        return str(value).replace(first, "x").replace(second, "y")

    found = [a, 2 * a + 1, a // 2, a % 2, a / 2, a**2, a > 3, 3 < a, a == 5, fw.sym_max(a, 3)]
    assert [text(value) for value in found] == [
        "x", "2*x + 1", "(x//2)", "Mod(x, 2)", "IntTrueDiv(x, 2)", "x**2", "x > 3", "x > 3", "Eq(x, 5)",
        "Max(3, x)",
    ]  # fmt: skip


def test_equal_examples_share_a_symbol_and_small_ones_are_constants(fw):
    env = shapes(fw).ShapeEnv()
    kinds = shapes(fw).DimDynamic

    def symbol(n, i, kind=kinds.DUCK):
        return env.create_symbol(n, source_of(fw, f"n{i}"), kind)

    assert symbol(5, 0) == symbol(5, 1) and symbol(5, 2, kinds.DYNAMIC) != symbol(5, 3)
    assert symbol(0, 4) == 0 and symbol(1, 5) == 1 and symbol(6, 6, kinds.STATIC) == 6


def test_numbers_that_depend_on_elements(fw):
    module = shapes(fw)
    env = module.ShapeEnv()
    u = env.create_unbacked_symint()
    assert str(u) == "u0" and module.free_unbacked_symbols(u) and not u.node.has_hint()
    with pytest.raises(module.GuardOnDataDependentSymNode, match="Could not guard on data-dependent"):
        bool(u > 3)
    with pytest.raises(module.GuardOnDataDependentSymNode):
        int(u)
    assert module.guard_or_true(u > 3) and not module.guard_or_false(u > 3)
    assert not module.statically_known_true(u >= 0)
    fw._check_is_size(u)
    assert module.statically_known_true(u >= 0) and not module.statically_known_true(u > 3)
    assert not module.guard_size_oblivious(u == 0) and module.guard_size_oblivious(u != 1)
    fw._check(u > 3)
    assert bool(u > 3) and bool(u >= 3) and bool(u != 2) and not env.guards
    fw._check(u <= 10)
    assert module.statically_known_true(u < 11) and not module.statically_known_true(u < 10)


def test_a_false_check_raises(fw):
    _, (a, _) = environment(fw, *EXAMPLES)
    with pytest.raises(RuntimeError, match="own text"):
        fw._check(a > 100, lambda: "own text")
    fw._check(a > 4)


def test_suppressed_guards_are_not_recorded(fw):
    env, (a, _) = environment(fw, *EXAMPLES)
    with env.suppress_guards():
        assert a > 4
    assert not env.guards


def test_guards_of_tensors():
    env = shapes(fb).ShapeEnv()
    sizes, strides, offset = env.create_symbolic_sizes_strides_storage_offset(fb.ones(5, 7).t(), "x")
    assert offset == 0 and str(strides) == "(1, s0)" and str(sizes) == "(s0, s1)"
    assert sizes[0] > 4 and sizes[1] % 5 == 0
    code = env.produce_guards_expression([])
    assert env.evaluate_guards_expression(code, [7, 10])
    assert not env.evaluate_guards_expression(code, [3, 10])
    assert not env.evaluate_guards_expression(code, [7, 11])


def test_operations_with_other_objects_are_refused():
    _, (a, _) = environment(fb, *EXAMPLES)
    _, (other, _) = environment(fb, *EXAMPLES)
    for bad in ("1", None, [1], other):
        with pytest.raises(TypeError):
            operator.add(a, bad)
    with pytest.raises(ZeroDivisionError):
        operator.floordiv(a, a - a)


def test_a_frozen_environment_refuses_guards():
    module = shapes(fb)
    env, (a, _) = environment(fb, *EXAMPLES)
    env.freeze()
    assert a > 1
    with pytest.raises(module.ConstraintViolationError, match="expected no guard"):
        bool(a > 4)


def test_marks_of_dimensions():
    dynamo = import_module("flambeau._dynamo")
    x = fb.ones(4, 4, 4, 4)
    dynamo.mark_dynamic(x, 1)
    dynamo.mark_static(x, -2)
    dynamo.mark_unbacked(x, [3])
    env = shapes(fb).ShapeEnv()
    sizes, strides, _ = env.create_symbolic_sizes_strides_storage_offset(x, "x")
    assert str(sizes) == "(s0, s1, 4, u0)" and strides[3] == 1 and str(strides[2]) == "u0"
    for mark in (dynamo.mark_dynamic, dynamo.mark_static, dynamo.mark_unbacked):
        with pytest.raises(IndexError, match="range"):
            mark(x, 4)
    dynamo.mark_static(x)
    static, _, _ = env.create_symbolic_sizes_strides_storage_offset(x, "y")
    assert static == (4, 4, 4, 4)


def test_guards_evaluated_for_inputs(fw):
    env, (a, b) = environment(fw, *EXAMPLES)
    assert a < b and a * b > 10
    for first, second in itertools.product(range(2, 12), repeat=2):
        expected = first < second and first * second > 10
        if fw is fb:
            assert env.evaluate_guards_for_args([a, b], [first, second]) == expected
        values = dict(zip(symbols_of(env), (first, second), strict=True))
        assert all(bool(guard.expr.subs(values)) for guard in env.guards) == expected


def test_an_equality_replaces_a_symbol(fw):
    env, (a, b) = environment(fw, *EXAMPLES)
    assert b == a + 2
    assert b - a == 2 and not shapes(fw).free_symbols(b - a) and len(env.guards) == 1
    if fw is fb:
        assert env.evaluate_guards_for_args([a, b], [8, 10])
        assert not env.evaluate_guards_for_args([a, b], [8, 9])
