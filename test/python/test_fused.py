"""Fused groups: equal to single calls bit for bit, safe against what does not fit, from any thread."""

import threading

import flambeau
import fused_programs
import numpy as np
import pytest
from fused_programs import (
    DTYPES,
    MULTIPLE,
    Program,
    difference,
    is_even,
    operators,
    random_inputs,
    random_program,
)
from oracle import pytorch

aten = flambeau.ops.aten
Recorder = flambeau._C._FusedRecorder

SIZES = [
    [], [7], [0], [3, 0, 2], [5, 1, 9], [64, 65], [2, 3, 4, 5], [3, 130], [2100], [40, 33, 3], [1], [1, 1, 5],
    [9, 700],
]  # fmt: skip
WHOLE_SIZES = [[MULTIPLE], [MULTIPLE, MULTIPLE], [MULTIPLE, 1, 128], [4096], [192, MULTIPLE], [1, MULTIPLE]]
MIXES = [
    list(DTYPES), ["float32"], ["bfloat16", "float32"], ["int64", "bool", "int32"], ["complex64", "float32"],
    ["bfloat16"], ["float64", "float32"], ["float16"], ["uint8", "int8", "bfloat16"],
]  # fmt: skip


def checked(program):
    """Compare a program's fused group with its single calls."""
    group = program.record()
    assert difference(program, group(*program.inputs), program.run(program.inputs)) == ""
    return group


def group_of(function, *inputs):
    """The fused group of a function that returns a list of results."""
    recorder = Recorder(list(inputs))
    with recorder:
        outputs = function(*inputs)
    return recorder.group(outputs)


def same(fused, eager):
    return [fused_programs.bits(t) for t in fused] == [fused_programs.bits(t) for t in eager]


def random_case(seed):
    """A program over any sizes, of operators that are even, or over whole vectors, of any operators."""
    rng = np.random.default_rng(seed)
    is_whole = seed % 3 == 0
    sizes = (WHOLE_SIZES if is_whole else SIZES)[
        int(rng.integers(0, len(WHOLE_SIZES if is_whole else SIZES)))
    ]
    mix = MIXES[int(rng.integers(0, len(MIXES)))]
    inputs = random_inputs(rng, sizes, mix, int(rng.integers(1, 6)))
    first = operators()[seed // 3 % len(operators())]
    allowed = (lambda operator: True) if is_whole else is_even
    return random_program(rng, inputs, int(rng.integers(1, 16)), first if allowed(first) else None, allowed)


@pytest.mark.parametrize("part", range(4))
def test_random_programs(part):
    seen = 0
    for seed in range(part, 400, 4):
        program = random_case(seed)
        if program.steps:
            checked(program)
            seen += len(program.steps)
    assert seen > 300


def test_all_pointwise_operators_are_found():
    names = {operator.name for operator in operators()}
    assert len(names) > 450
    assert {"add.Tensor", "where.self", "gelu", "_relu_grad_self", "lerp.Tensor"} <= names
    for name in ("add_.Tensor", "add.out", "sum", "matmul", "relu_", "copy_", "clone"):
        assert not flambeau._C._operator_facts(name)[0]
    assert flambeau._C._operator_facts("no_such") is None
    with pytest.raises(TypeError, match="expected a str, got int"):
        flambeau._C._operator_facts(3)


@pytest.mark.parametrize("count", [1, 2])
def test_threads_of_one_call(count):
    rng = np.random.default_rng(count)
    before = flambeau.get_num_threads()
    flambeau.set_num_threads(count)
    try:
        for sizes in ([300_032], [700, 512], [16, 64, 16, 16]):
            inputs = random_inputs(rng, sizes, ["float32", "bfloat16"], 4)
            checked(random_program(rng, inputs, 8, allowed=is_even))
    finally:
        flambeau.set_num_threads(before)


def test_one_group_in_many_threads():
    def chain(a, b):
        r = aten.mul.Tensor(aten.add.Tensor(a, b), a)
        return [r, aten.sigmoid.default(r)]

    inputs = [(flambeau.randn(n, 64), flambeau.randn(64)) for n in (1, 3, 700, 64)]
    group = group_of(chain, *inputs[0])
    wanted = [chain(*pair) for pair in inputs]
    failures = []

    def work(at):
        for i in range(200):
            which = (at + i) % len(inputs)
            if not same(group(*inputs[which]), wanted[which]):
                failures.append(which)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_geometry_may_change():
    def chain(a, b):
        r = aten.add.Tensor(a, b)
        return [aten.mul.Tensor(r, 3), r]

    group = group_of(chain, flambeau.randn(4, 5), flambeau.randn(5))
    for a, b in [
        (flambeau.randn(4, 5), flambeau.randn(5)),
        (flambeau.randn(5, 4).t(), flambeau.randn(4, 1)),
        (flambeau.randn(0, 5), flambeau.randn(5)),
        (flambeau.randn(7), flambeau.randn(2, 3, 7)),
        (flambeau.randn(2, 3, 4, 4).to(memory_format=flambeau.channels_last), flambeau.randn(1, 3, 1, 1)),
        (flambeau.randn(1).expand(33), flambeau.randn(70)[::2][:33]),
        (flambeau.randn(()), flambeau.randn(())),
    ]:
        assert same(group(a, b), chain(a, b))
    with pytest.raises(RuntimeError, match="add: "):
        group(flambeau.randn(3), flambeau.randn(4))


def test_steps_of_smaller_sizes():
    """Values of several sizes: smaller ones feed larger ones and are results themselves."""

    def tree(column, row, number):
        a = aten.exp.default(column)  # [50, 1]
        b = aten.mul.Tensor(row, 2)  # [1, 300]
        c = aten.add.Tensor(a, b)  # [50, 300]
        d = aten.neg.default(number)  # []
        e = aten.mul.Tensor(c, d)
        return [e, a, d, aten.sub.Tensor(e, a), aten.relu.default(b)]

    inputs = (flambeau.randn(50, 1), flambeau.randn(1, 300), flambeau.randn(()))
    group = group_of(tree, *inputs)
    assert same(group(*inputs), tree(*inputs))
    other = (flambeau.randn(1, 1), flambeau.randn(1, 0), flambeau.randn(()))
    assert same(group(*other), tree(*other))


def test_against_pytorch():
    torch = pytorch()

    def update(torch, p, g, m, v):
        m2 = torch.ops.aten.lerp.Scalar(m, g, 0.1)
        v2 = torch.ops.aten.add.Tensor(
            torch.ops.aten.mul.Tensor(v, 0.999), torch.ops.aten.mul.Tensor(g, g), alpha=0.001
        )
        d = torch.ops.aten.add.Tensor(torch.ops.aten.sqrt.default(v2), 1e-8)
        return [torch.ops.aten.sub.Tensor(p, torch.ops.aten.div.Tensor(m2, d), alpha=0.01), m2, v2]

    rng = np.random.default_rng(5)
    arrays = [rng.random((37, 1100)).astype(np.float32) for _ in range(4)]
    inputs = [flambeau.from_numpy(a) for a in arrays]
    group = group_of(lambda *given: update(flambeau, *given), *inputs)
    wanted = update(torch, *map(torch.from_numpy, arrays))
    for ours, theirs in zip(group(*inputs), wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


# --- what a group holds ----------------------------------------------------------------------------------


def test_repeated_inputs_and_outputs():
    x = flambeau.randn(100)

    def chain(a, b):
        r = aten.add.Tensor(a, b)
        s = aten.mul.Tensor(r, r)
        return [r, s, r, s]

    group = group_of(chain, x, x)
    first = group(x, x)
    assert same(first, chain(x, x))
    assert first[0] is first[2] and first[1] is first[3]
    # One tensor given twice is its first place.
    y = flambeau.randn(100)
    assert same(group(x, y), chain(x, x))


def test_long_chains():
    def chain(a, b):
        known = [a, b]
        for i in range(300):
            known.append(aten.add.Tensor(aten.mul.Tensor(known[-1], 0.5), known[i // 2]))
        return known[-1:] + known[40:44]

    inputs = (flambeau.randn(5000), flambeau.randn(5000))
    assert same(group_of(chain, *inputs)(*inputs), chain(*inputs))


def test_many_inputs_and_values_at_once():
    inputs = [flambeau.randn(3000) for _ in range(90)]

    def tree(*given):
        values = [aten.mul.Tensor(t, i) for i, t in enumerate(given)]
        total = values[0]
        for value in values[1:]:
            total = aten.add.Tensor(total, value)
        return [*values[::9], total]

    assert same(group_of(tree, *inputs)(*inputs), tree(*inputs))


def test_inputs_freed_after_recording():
    a, b = flambeau.randn(64), flambeau.randn(64)
    recorder = Recorder([a, b])
    with recorder:
        r = aten.add.Tensor(a, b)
        s = aten.mul.Tensor(r, b)
        del r
    group = recorder.group([s])
    del a, b, recorder, s
    x = flambeau.randn(64)
    assert same(group(x, x), [(x + x) * x])


def test_steps_without_use_are_dropped():
    a = flambeau.randn(8)
    recorder = Recorder([a])
    with recorder:
        aten.exp.default(a)
        r = aten.add.Tensor(a, 2)
        s = aten.relu.default(r)
    assert recorder.steps == 3
    group = recorder.group([s])
    lines = group.describe().splitlines()
    assert lines == ["s0 = add(i0, 2; 1): float32", "s1 = relu(s0): float32"]


def test_bytes_of_bool():
    odd = flambeau.tensor([0, 1, 2, 255, 128, 3] * 50, dtype=flambeau.uint8).view(flambeau.bool)
    other = flambeau.tensor([True, False, True] * 100)

    def chain(a, b):
        r = aten.logical_xor.default(a, b)
        return [r, aten.add.Tensor(r, a), aten.where.self(a, b, r), aten.mul.Tensor(a, 3)]

    group = group_of(chain, odd, other)
    assert same(group(odd, other), chain(odd, other))
    assert same(group(odd[::2], other[:150]), chain(odd[::2], other[:150]))


def test_division_by_zero():
    a, b = flambeau.arange(10_000), flambeau.ones(10_000, dtype=flambeau.int64)
    group = group_of(lambda x, y: [aten.add.Tensor(aten.floor_divide.default(x, y), 1)], a, b)
    assert same(group(a, b), [a + 1])
    b[7777] = 0
    with pytest.raises(RuntimeError, match="^ZeroDivisionError$"):
        group(a, b)
    assert same(group(a, b.clamp(min=1)), [a + 1])


def test_numbers_as_tensors():
    number = flambeau.ops.aten.add.Tensor  # a Python number becomes a tensor of its own
    x = flambeau.randn(70, dtype=flambeau.bfloat16)
    group = group_of(lambda a: [aten.mul.Tensor(number(a, 2.5), 3)], x)
    assert same(group(x), [(x + 2.5) * 3])


def test_results_never_require_grad():
    a = flambeau.randn(10, requires_grad=True)
    recorder = Recorder([a])
    with recorder:
        assert not flambeau.is_grad_enabled()
        r = aten.exp.default(aten.neg.default(a))
        assert not r.requires_grad
    assert flambeau.is_grad_enabled()
    (out,) = recorder.group([r])(a)
    assert not out.requires_grad
    assert same([out], [(-a).exp().detach()])


# --- what a group refuses --------------------------------------------------------------------------------


@pytest.fixture
def pair():
    a, b = flambeau.randn(6), flambeau.randn(6)
    return group_of(lambda x, y: [aten.mul.Tensor(aten.add.Tensor(x, y), x)], a, b), a, b


def test_wrong_arguments(pair):
    group, a, b = pair
    with pytest.raises(TypeError, match="expected 2 inputs, got 1"):
        group(a)
    with pytest.raises(TypeError, match="expected tensors, got float"):
        group(a, 2.0)
    with pytest.raises(TypeError, match="no keyword"):
        group(a, b=b)
    with pytest.raises(RuntimeError, match=r"expected input 1 of float32, got float64\[6\]"):
        group(a, b.double())
    with pytest.raises(RuntimeError, match="expected dense inputs on the CPU"):
        group(a, b.to("meta"))
    with pytest.raises(RuntimeError, match="expected dense inputs on the CPU"):
        group(a, b.to_sparse())
    with pytest.raises(RuntimeError, match="expected dense inputs on the CPU"):
        flambeau.vmap(lambda row: group(row, row)[0])(flambeau.randn(2, 6))


def test_views_that_stand_for_other_elements():
    z = flambeau.randn(5, dtype=flambeau.complex64)
    group = group_of(lambda x: [aten.mul.Tensor(aten.add.Tensor(x, 1), x)], z)
    with pytest.raises(RuntimeError, match="expected dense inputs on the CPU"):
        group(z.conj())
    with pytest.raises(RuntimeError, match="expected dense inputs on the CPU"):
        Recorder([z.conj()])


def test_dtypes_that_follow_from_sizes():
    """Tensors without dimensions do not take part in promotion beside others."""
    a, b = flambeau.randn(6), flambeau.tensor(2.0, dtype=flambeau.float64)
    group = group_of(lambda x, y: [aten.neg.default(aten.add.Tensor(x, y))], a, b)
    assert group(a, b)[0].dtype == flambeau.float32
    with pytest.raises(RuntimeError, match="dtypes promote to float64"):
        group(a, b.reshape(1))
    assert group(a, b)[0].dtype == flambeau.float32


def test_default_dtype_is_part_of_the_plan():
    x = flambeau.arange(6)
    group = group_of(lambda a: [aten.neg.default(aten.exp.default(a))], x)
    assert same(group(x), [-x.exp()])
    flambeau.set_default_dtype(flambeau.float64)
    try:
        with pytest.raises(RuntimeError, match="expected step 0"):
            group(x)
    finally:
        flambeau.set_default_dtype(flambeau.float32)


def test_other_tensors_while_recording():
    a, stranger = flambeau.randn(6), flambeau.randn(6)
    recorder = Recorder([a])
    with recorder, pytest.raises(RuntimeError, match="add: expected inputs of the fused group"):
        aten.add.Tensor(a, stranger)
    with recorder, pytest.raises(RuntimeError, match="writes to an argument"):
        aten.add_.Tensor(a, 1)
    with recorder, pytest.raises(RuntimeError, match="writes to an argument"):
        aten.add.out(a, 1, out=stranger)
    with recorder:
        r = aten.neg.default(a)
        with pytest.raises(RuntimeError, match="mul: expected inputs of the fused group"):
            aten.mul.Tensor(r.view(2, 3), 2)
        with pytest.raises(RuntimeError, match="storage"):
            r.sum()
    with pytest.raises(RuntimeError, match="storage"):
        r.tolist()
    with pytest.raises(RuntimeError, match="expected results of recorded steps"):
        recorder.group([a])
    with pytest.raises(TypeError, match="expected a list of tensors, got flambeau.Tensor"):
        recorder.group(r)


def test_a_thread_is_left_clean():
    a = flambeau.randn(6)
    recorder = Recorder([a])
    with pytest.raises(KeyError), recorder:
        raise KeyError
    assert same([a + a], [aten.mul.Tensor(a, 2)])
    with recorder:
        with pytest.raises(RuntimeError, match="without a recorder"), Recorder([a]):
            pass
        r = aten.neg.default(a)
    assert same(recorder.group([r])(a), [-a])
    with pytest.raises(RuntimeError, match="expected __exit__ in the thread of __enter__"):
        recorder.__exit__(None, None, None)


def test_other_threads_compute_while_one_records():
    a = flambeau.randn(6)
    seen = []
    with Recorder([a]):
        thread = threading.Thread(target=lambda: seen.append((a + 1).tolist()))
        thread.start()
        thread.join()
    assert seen == [(a + 1).tolist()]


def test_groups_inside_of_recordings(pair):
    group, a, b = pair
    with (
        Recorder([a, b]),
        pytest.raises(RuntimeError, match="expected a thread without a recorder, got one that records"),
    ):
        group(a, b)


def test_empty_groups():
    a = flambeau.randn(6)
    recorder = Recorder([a])
    assert recorder.group([])(a) == []
    assert recorder.group([]).describe() == ""


def test_one_step():
    a = flambeau.randn(6, 7).t()
    group = group_of(lambda x: [aten.gelu.default(x)], a)
    assert same(group(a), [aten.gelu.default(a)])


def test_program_class_compares():
    """The comparison itself notices a difference."""
    x = flambeau.randn(5)
    add = next(o for o in operators() if o.name == "exp")
    step = fused_programs.Step(add, [None], [0])
    program = Program([x], [step], [1])
    assert difference(program, [x], program.run([x])).startswith("exp")


# --- results in given tensors ---------------------------------------------------------------------------


def scaled(x, y):
    z = x * 2 + y
    return [z, z.tanh()]


def test_results_in_given_tensors():
    x, y = flambeau.randn(6, 64), flambeau.randn(64)
    group = group_of(scaled, x, y)
    expected = group(x, y)
    whole = flambeau.zeros(4, 6, 64)
    versions = whole._version
    one, two = group.into([whole[1], None], x, y)
    assert one.data_ptr() == whole[1].data_ptr() and same([one, two], expected) and whole._version > versions
    assert same([whole[1]], expected[:1]) and not whole[[0, 2, 3]].any()
    turned = flambeau.zeros(64, 6).t()  # another memory order
    one, two = group.into([None, turned], x, y)
    assert two is turned and same([one, turned.contiguous()], expected)
    single = group_of(lambda x, y: [x * y], x, y)
    assert same(single.into([whole[2]], x, y), [x * y]) and same([whole[2]], [x * y])


def test_given_tensors_that_are_inputs():
    x, y = flambeau.randn(6, 64), flambeau.randn(64)
    group = group_of(scaled, x, y)
    expected = group(x, y)
    for place in (0, 1):
        own = x.clone()
        given = [own if i == place else None for i in range(2)]
        assert same(group.into(given, own, y), expected)
    base = flambeau.randn(7, 64)
    expected = group(base[:6].clone(), y)
    assert same(group.into([base[1:], None], base[:6], y), expected)


def test_given_tensors_share_no_memory_with_lazy_clones():
    x, y = flambeau.randn(6, 64), flambeau.randn(64)
    given = flambeau.zeros(6, 64)
    clone = flambeau._lazy_clone(given)
    group_of(scaled, x, y).into([given, None], x, y)
    assert given.any() and not clone.any()


def test_given_tensors_that_do_not_fit():
    x, y = flambeau.randn(6, 64), flambeau.randn(64)
    group = group_of(scaled, x, y)
    fits = flambeau.zeros(6, 64)
    wrong = {
        "like float32": flambeau.zeros(6, 64, dtype=flambeau.float64),
        r"got float32\[6, 63\]": flambeau.zeros(6, 63),
        "do not share memory": flambeau.zeros(1, 64).expand(6, 64),
        "on the CPU": flambeau.empty(6, 64, device="meta"),
    }
    for message, tensor in wrong.items():
        with pytest.raises(RuntimeError, match=message):
            group.into([tensor, None], x, y)
    with pytest.raises(RuntimeError, match="outputs 0 and 1 that overlap"):
        group.into([fits, fits], x, y)
    with pytest.raises(TypeError, match="expected 2 outputs, got 1"):
        group.into([fits], x, y)
    with pytest.raises(TypeError, match="expected a list of tensors and None, got flambeau.Tensor"):
        group.into(fits, x, y)
    with pytest.raises(TypeError, match="expected a list of tensors and None, got nothing"):
        group.into()
    with pytest.raises(TypeError, match="expected tensors, got int"):
        group.into([3, None], x, y)
    assert not fits.any()
