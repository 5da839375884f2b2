"""An extension of one file: errors, memory, casters, indices, Functions."""

import gc
import threading
import weakref
from pathlib import Path

import flambeau as torch
import pytest
from flambeau.utils import cpp_extension


@pytest.fixture(scope="session")
def probe(build_root):
    source = Path(__file__).with_name("probe.cpp")
    return cpp_extension.load("probe", [source], build_directory=build_root / "probe")


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("runtime_error", RuntimeError, "from std"),
        ("out_of_range", IndexError, "from std"),
        ("bad_alloc", MemoryError, None),
        ("py_value", ValueError, "from pybind11"),
        ("py_key", KeyError, "from pybind11"),
        ("not_std", RuntimeError, "unknown"),
        ("check", RuntimeError, "check of check, 2 and 1.5"),
        ("index", IndexError, "index"),
        ("value", ValueError, "value"),
        ("type", TypeError, "type"),
        ("not_implemented", NotImplementedError, "not yet"),
        ("bare", RuntimeError, "Expected kind"),
        ("other", RuntimeError, "kind other"),
    ],
)
def test_errors_have_their_types(probe, kind, error, text):
    with pytest.raises(error, match=text):
        probe.raise_(kind)


def test_data_ptr_refuses_another_dtype(probe):
    assert probe.read_double(torch.tensor([2.5], dtype=torch.float64)) == 2.5
    with pytest.raises(RuntimeError, match="expected scalar type Double but found Float"):
        probe.read_double(torch.ones(1))


def test_memory_of_meta_tensors_is_refused(probe):
    with pytest.raises(RuntimeError):
        probe.read_double(torch.empty(2, dtype=torch.float64, device="meta"))


def test_accessors_check_rank_and_dtype(probe):
    x = torch.arange(6.0).reshape(2, 3)
    assert probe.read_accessor(x) == 3
    assert probe.read_accessor(x.t()) == 1  # by strides
    with pytest.raises(RuntimeError, match="TensorAccessor expected 2 dims but tensor has 3"):
        probe.read_accessor(torch.zeros(2, 2, 2))
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Long"):
        probe.read_accessor(torch.zeros(2, 2, dtype=torch.int64))
    assert probe.read_packed(torch.tensor([4, 5])) == 5


def test_writing_through_a_pointer_leaves_lazy_clones_alone(probe):
    x = torch.tensor([2.5], dtype=torch.float64)
    clone = x._lazy_clone()
    probe.read_double(clone)  # data_ptr<double> may write
    assert x.data_ptr() != clone.data_ptr()


def test_size_checks_its_dimension(probe):
    assert probe.size_of(torch.zeros(2, 3), -1) == 3
    with pytest.raises(IndexError, match=r"range of \[-2, 1\], but got 2"):
        probe.size_of(torch.zeros(2, 3), 2)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (torch.uint8, "Byte"),
        (torch.int8, "Char"),
        (torch.int16, "Short"),
        (torch.int32, "Int"),
        (torch.int64, "Long"),
        (torch.float16, "Half"),
        (torch.float32, "Float"),
        (torch.float64, "Double"),
        (torch.complex64, "ComplexFloat"),
        (torch.complex128, "ComplexDouble"),
        (torch.bool, "Bool"),
    ],
)
def test_dispatch_reaches_each_type(probe, dtype, name):
    assert probe.dispatched(torch.zeros(1, dtype=dtype)) == name


def test_dispatch_refuses_other_types(probe):
    with pytest.raises(NotImplementedError, match="\"dispatched\" not implemented for 'BFloat16'"):
        probe.dispatched(torch.zeros(1, dtype=torch.bfloat16))


def test_indices(probe):
    x = torch.arange(24).reshape(2, 3, 4)
    assert probe.indexed(x).equal(x[1:, ..., 0])
    with pytest.raises(IndexError, match="too many indices"):
        probe.indexed(torch.zeros(3))
    mask = torch.tensor([[True, False], [False, True]])
    assert probe.masked(torch.zeros(2, 2), mask).tolist() == [[-1, 0], [0, -1]]


def test_values_pass_both_ways(probe):
    t, list_, dtype, device, number, maybe = probe.echo(
        torch.ones(2), [torch.zeros(1), torch.ones(1)], torch.int16, torch.device("cpu"), 3, None
    )
    assert t.tolist() == [1, 1] and [x.item() for x in list_] == [0, 1]
    assert dtype is torch.int16 and device == torch.device("cpu") and number == 3 and maybe is None
    number = probe.echo(t, [], torch.bool, "meta", 2.5j, t)[4]
    assert number == 2.5j
    assert probe.summed([1, 2, 3]) == 6 and probe.summed(torch.Size([4])) == 4 and probe.summed(7) == 7
    assert probe.joined([torch.ones(1), torch.zeros(2)]).tolist() == [1, 0, 0]
    assert probe.undefined() is None


def test_the_same_object_comes_back(probe):
    x = torch.ones(2)
    x.note = "kept"
    assert probe.echo(x, [], torch.bool, "cpu", 1, None)[0] is x


@pytest.mark.parametrize("given", [None, 3, "text", [1.0]])
def test_what_is_not_a_tensor_is_a_type_error(probe, given):
    with pytest.raises(TypeError):
        probe.read_double(given)


def test_a_tensor_outlives_its_python_object(probe):
    x = torch.arange(4.0)
    alive = weakref.ref(x)
    x.note = "kept"
    probe.keep(x)
    del x
    gc.collect()
    assert alive() is not None  # C++ owns the tensor, and the tensor its object
    back = probe.give_back()
    assert back.tolist() == [0, 1, 2, 3] and back.note == "kept"
    del back
    gc.collect()
    assert alive() is None


def test_a_tensor_dies_in_a_thread(probe):
    probe.keep(torch.ones(3))
    thread = threading.Thread(target=probe.keep, args=(torch.zeros(3),))
    thread.start()
    thread.join()
    assert probe.give_back().tolist() == [0, 0, 0]


def test_functions_in_cpp(probe):
    a = torch.tensor([1.0, -2.0], requires_grad=True)
    b = torch.tensor([3.0, 4.0], requires_grad=True)
    squares, next_ = probe.scale(a, 3.0, b)
    assert squares.tolist() == [3, 12] and next_.tolist() == [4, 5]
    assert "Scale" in type(squares.grad_fn).__name__ or "Scale" in squares.grad_fn.name()
    (squares.sum() + (next_ * torch.tensor([1.0, 10.0])).sum()).backward()
    assert a.grad.tolist() == [6, -12] and b.grad.tolist() == [1, 10]


def test_functions_in_cpp_are_differentiable_twice(probe):
    a = torch.tensor([1.5, -2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: probe.scale(x, 3.0, None)[0], (a,))
    assert torch.autograd.gradgradcheck(lambda x: probe.scale(x, 3.0, None)[0], (a,))


def test_backward_twice_needs_the_graph(probe):
    a = torch.ones(2, requires_grad=True)
    y = probe.scale(a, 3.0, None)[0].sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_number_of_gradients_is_checked(probe, count):
    a = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=rf"incorrect number of gradients \(expected 2, got {count}\)"):
        probe.miscounts(a, count).sum().backward()


def test_a_gradient_for_a_number_is_refused(probe):
    a = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="expected no gradient at position 2"):
        probe.miscounts(a, 2).sum().backward()


def test_errors_in_backward_keep_their_type(probe):
    a = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="count is -1"):
        probe.miscounts(a, -1).sum().backward()


def test_options_guards_and_gradients(probe):
    x = probe.made(3)
    assert x.dtype is torch.float64 and x.requires_grad and x.shape == (3, 2) and (x == 3).all()
    assert probe.records(x) is False and (x * 2).requires_grad
    assert probe.grad_of_square(x).equal(2 * x)


def test_arithmetic(probe):
    a = torch.tensor([0.5, -2.0, 7.0])
    expected = (2 - a) / 4 + a % 3 - 1.5 * a * a + (a > 1).float()
    assert torch.allclose(probe.arithmetic(a), expected)


def test_warnings_are_those_of_python(probe):
    with pytest.warns(UserWarning, match="careful with 3"):
        probe.warn()


def test_a_warning_that_is_an_error(probe):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="careful with 3"):
            probe.warn()


def test_other_threads_run_while_the_gil_is_released(probe):
    x = torch.rand(400, 400)
    results = []
    threads = [threading.Thread(target=lambda: results.append(probe.multiply(x, x))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(torch.allclose(r, x @ x) for r in results)
    with pytest.raises(RuntimeError):
        probe.multiply(x, torch.zeros(3, 3))
