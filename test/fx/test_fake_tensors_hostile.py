"""Fake tensors in faulty programs: real tensors, threads, copies, files, classes, code that raises."""

import copy
import gc
import io
import pickle
import threading
import weakref

import flambeau as fb
import pytest
from flambeau import nn
from flambeau._higher_order_ops import cond, scan, while_loop
from flambeau._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorConverter,
    FakeTensorDeviceMismatchError,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
    is_fake,
    maybe_get_fake_mode,
)
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.fx.passes.fake_tensor_prop import FakeTensorProp
from flambeau.utils._python_dispatch import TorchDispatchMode
from flambeau.utils.checkpoint import checkpoint


@pytest.fixture
def mode():
    yield FakeTensorMode()
    assert not isinstance(fb.ones(1), FakeTensor)  # the test left no mode active


def test_tensors_that_cannot_be_fake(mode):
    with pytest.raises(UnsupportedFakeTensorException, match="sparse_coo"):
        mode.from_tensor(fb.eye(2).to_sparse())
    with pytest.raises(UnsupportedFakeTensorException, match="function transform"):
        fb.func.vmap(mode.from_tensor)(fb.ones(2))
    found = []

    def note(x):
        with pytest.raises(UnsupportedFakeTensorException, match="functionalisation"):
            mode.from_tensor(x)
        found.append(1)
        return x

    fb.func.functionalize(note)(fb.ones(1))
    assert found


def test_wrong_constructions(mode):
    with pytest.raises(AssertionError, match="device meta"):
        FakeTensor(mode, fb.ones(2), "cpu")
    with pytest.raises(ValueError, match="shape_env"):
        FakeTensorMode(shape_env=object())
    with pytest.raises(ValueError, match="copy_data"):
        FakeTensorConverter(copy_data=True)
    made = FakeTensor(mode, fb.empty(2, 3, device="meta"), "cuda:1")
    assert (str(made.device), tuple((made + made).shape)) == ("cuda:1", (2, 3))
    with pytest.raises(AssertionError, match="Mixing fake modes"):
        FakeTensorMode().from_tensor(made)


def test_devices_that_the_build_does_not_support(mode):
    with mode:
        x = fb.ones(2, 3, device="cuda")
        rows = x[fb.tensor([0, 1])]
        x[0], x[[0, 1]] = 1, 0.0
        x[:, 1] = fb.tensor([1.0, 2.0], device="cuda")
        layer = nn.Linear(3, 2, device="cuda")
        layer(x).sum().backward()
        moved, other = nn.Linear(3, 2).cuda(), nn.Linear(3, 2).to("cuda:1")
        steps = nn.LSTM(3, 4, device="cuda")(fb.ones(5, 2, 3, device="cuda"))[0]
        many = [rows, layer.weight.grad, moved.weight, steps, fb.ones(2).cuda(), x.to("cuda:0")]
    assert [str(t.device) for t in many] == ["cuda:0"] * 6
    assert str(other.bias.device) == "cuda:1" and other.bias.is_leaf
    with pytest.raises(FakeTensorDeviceMismatchError, match="same device, got cuda:0 and cuda:1"):
        fb.cat([moved.bias, other.bias])


def test_real_tensors_of_one_number_are_accepted(mode):
    number = fb.tensor(2.0)
    x = mode.from_tensor(fb.ones(3))
    assert (x * number).shape == (3,) and number.item() == 2
    with mode:
        number.add_(1)  # the write goes to a fake tensor
    assert number.item() == 2


def test_writes_to_real_tensors_are_lost():
    real = fb.ones(2)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        real.mul_(5)
        y = real + 1
    assert real.tolist() == [1, 1] and y.fake_mode is mode


def test_data_of_another_tensor(mode):
    x = mode.from_tensor(fb.ones(2))
    x.data = mode.from_tensor(fb.ones(5, dtype=fb.float64))
    assert (x + 1).shape == (5,) and (x + 1).dtype == fb.float64 and x.data.shape == (5,)
    with pytest.raises(RuntimeError, match="set_data"):
        x.data = fb.ones(2)
    assert (x + 1).shape == (5,)
    y = mode.from_tensor(fb.ones(3))
    fb.utils.swap_tensors(x, y)
    assert (x * 2).shape == (3,) and (y * 2).shape == (5,)


def test_geometry_changes_in_place(mode):
    with mode:
        x = fb.ones(2, 3)
        view = x.t_()
        assert view is x and x.shape == (3, 2) and (x + 0).stride() == (1, 3)
        x.resize_(4, 4)
        assert (x @ x).shape == (4, 4)
        y = fb.ones(6, dtype=fb.float64).float()
        x.set_(y)
        y.add_(1)
        assert x.shape == (6,) and x._version == y._version
        out = fb.empty(0)
        fb.add(x, 1, out=out)
        assert (out * 2).shape == (6,)


def test_views_have_gradients_through_writes(mode):
    with mode:
        base = fb.ones(4, requires_grad=True)
        y = base * 2
        part = y[:2]
        part.mul_(3)
        assert part._base is y and type(y.grad_fn).__name__ == "CopySlices"
        (grad,) = fb.autograd.grad(y.sum(), base)
        first, _ = (base * 1).split(2)
        with pytest.raises(RuntimeError, match="multiple views"):
            first.add_(1)
    assert isinstance(grad, FakeTensor) and grad.shape == (4,)


def test_autograd_checks_what_it_saved(mode):
    x = mode.from_tensor(fb.ones(2, requires_grad=True))
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)


def test_functions_hooks_and_checkpoints(mode):
    class Twice(fb.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.saved_tensors[0]

    x = mode.from_tensor(fb.ones(3, 3, requires_grad=True))
    seen = []
    x.register_hook(lambda grad: seen.append(grad))
    y = checkpoint(lambda a: Twice.apply(a @ a).sin(), x, use_reentrant=False)
    y.sum().backward()
    assert [type(t) for t in (x.grad, *seen)] == [FakeTensor] * 2 and x.grad.shape == (3, 3)


def test_compiled_functions_take_fake_tensors(mode):
    compiled = fb.compile(lambda x: (x * 2 + 1).sin())
    x = mode.from_tensor(fb.ones(2, 3))
    for _ in range(3):
        assert isinstance(compiled(x), FakeTensor) and not isinstance(compiled(fb.ones(2, 3)), FakeTensor)
    with mode:
        assert compiled(x).shape == (2, 3)
    fb.compiler.reset()


def test_threads_have_their_own_modes(mode):
    found, start = [], threading.Barrier(3)

    def work(is_inside):
        for _ in range(50):
            start.wait()
            if is_inside:
                with mode:
                    found.append(is_fake(fb.ones(2) + 1))
            else:
                found.append(not is_fake(fb.ones(2) + 1))

    threads = [threading.Thread(target=work, args=(i < 2,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 150


def test_backward_in_another_thread(mode):
    with mode:
        x = fb.ones(3, requires_grad=True)
        y = (x * x).sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    assert isinstance(x.grad, FakeTensor)


def test_exceptions_leave_the_mode_in_force(mode):
    with mode:
        for wrong in (lambda: fb.ones(2) @ fb.ones(3), lambda: fb.ones(2).item(), lambda: fb.ones(2).view(5)):
            with pytest.raises(RuntimeError):
                wrong()
            assert is_fake(fb.ones(1))

        @fb.library.custom_op("hostile_fakes::failing", mutates_args=())
        def failing(x: fb.Tensor) -> fb.Tensor:
            return x.clone()

        @failing.register_fake
        def _(x):
            assert is_fake(x) and is_fake(fb.ones(1))
            raise KeyError("own")

        with pytest.raises(KeyError, match="own"):
            failing(fb.ones(2))
        assert is_fake(fb.ones(1))


def test_operators_of_programs_without_a_rule(mode):
    @fb.library.custom_op("hostile_fakes::unknown", mutates_args=("y",))
    def unknown(x: fb.Tensor, y: fb.Tensor) -> fb.Tensor:
        return y.add_(x).clone()

    with mode:
        x, y = fb.ones(2), fb.ones(2)
        with pytest.raises(UnsupportedOperatorException, match="register_fake"):
            unknown(x, y)
        unknown.register_fake(lambda x, y: x.new_empty(x.shape))
        before = y._version
        assert unknown(x, y).shape == (2,) and y._version == before + 1


def test_modes_of_users_see_the_operators_first(mode):
    names = []

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(func._packet.__name__)
            return func(*args, **(kwargs or {}))

    with mode, Log():
        x = fb.ones(2).exp()
    with Log():
        y = x.sin()
    assert names == ["ones", "exp", "sin"] and is_fake(x) and is_fake(y)


def test_classes_that_wrap_fake_tensors(mode):
    class Boxed(fb.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return fb.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

        def __init__(self, inner):
            self.inner = inner

        def __tensor_flatten__(self):
            return ["inner"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Boxed(inner["inner"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            args = [a.inner if isinstance(a, Boxed) else a for a in args]
            return Boxed(func(*args, **(kwargs or {})))

    real = Boxed(fb.ones(2, 3))
    fake = mode.from_tensor(real)
    assert type(fake) is Boxed and is_fake(fake) and not is_fake(real) and maybe_get_fake_mode(fake) is mode
    assert type(fake.sin()) is Boxed and is_fake(fake.sin().inner)
    with mode:
        assert is_fake((fake * 2).inner)


def test_pickles_and_files(mode):
    with mode:
        x = fb.ones(4, 3, device="cuda", dtype=fb.float16).t()[1:]
        p = nn.Parameter(fb.ones(2))
    text = pickle.dumps([x, p])
    with pytest.raises(RuntimeError, match="under a FakeTensorMode"):
        pickle.loads(text)
    with FakeTensorMode() as other:
        y, q = pickle.loads(text)
    assert (y.shape, y.stride(), y.storage_offset(), y.dtype, y.device) == (
        x.shape, x.stride(), x.storage_offset(), x.dtype, x.device)  # fmt: skip
    assert y.fake_mode is other and isinstance(q, nn.Parameter) and q.requires_grad
    with pytest.raises((RuntimeError, NotImplementedError)):
        fb.save(x, io.BytesIO())


def test_deep_copies(mode):
    with mode:
        x = fb.ones(2, requires_grad=True)
        x.grad = fb.ones(2)
        pair = copy.deepcopy([x, x])
        assert pair[0] is pair[1] and pair[0] is not x
        assert is_fake(pair[0].grad) and pair[0].grad is not x.grad
        with pytest.raises(RuntimeError, match="deepcopy"):
            copy.deepcopy(x * 2)
    assert copy.copy(x).shape == (2,) and is_fake(copy.copy(x) + 1)


def test_states_of_modules(mode):
    real = nn.Linear(3, 2)
    with mode:
        fake = nn.Linear(3, 2)
    with pytest.raises(RuntimeError, match="convert all Tensors"):
        fake.load_state_dict(real.state_dict())
    fake.load_state_dict({name: mode.from_tensor(t) for name, t in real.state_dict().items()})
    assert is_fake(fake.weight)
    fake.load_state_dict(real.state_dict(), assign=True)
    assert not is_fake(fake.weight) and fb.equal(fake.weight, real.weight)


def test_nothing_is_kept_alive(mode):
    real = fb.ones(3)
    fake, view = mode.from_tensor(real), mode.from_tensor(real[1:])
    ends = [weakref.ref(t) for t in (real, fake, view)]
    converter = mode.fake_tensor_converter
    del real, fake, view
    gc.collect()
    assert [end() for end in ends] == [None] * 3
    assert len(converter.tensor_memo) == len(converter._memories) == 0


def test_reused_memory_is_a_new_storage(mode):
    fakes = []
    for _ in range(20):  # the allocator returns the same block
        fakes.append(mode.from_tensor(fb.ones(1000)))
    fakes[0].add_(1)
    assert [f._version for f in fakes] == [1] + [0] * 19


def test_zero_sizes_scalars_and_wide_dtypes(mode):
    with mode:
        for shape in ((0,), (0, 3), (2, 0, 3), ()):
            x = fb.empty(shape)
            assert (x + 1).shape == shape and x.sum().shape == () and x.reshape(-1).dim() == 1
        for dtype in (fb.bool, fb.uint8, fb.int64, fb.bfloat16, fb.complex128, fb.float8_e4m3fn):
            assert fb.empty(2, dtype=dtype).clone().dtype == dtype
        assert fb.empty(3, dtype=fb.complex64).conj().mul(2).imag.dtype == fb.float32
        assert fb.empty(4, 2, 5, 6).to(memory_format=fb.channels_last).relu().stride() == (60, 1, 12, 2)


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.numpy(),
        lambda x: x.__dlpack__(),
        lambda x: memoryview(x),
        lambda x: 1.0 in x,
        lambda x: x.tolist(),
        lambda x: list(map(float, x)),
        lambda x: range(10)[x.long()[0]],
        lambda x: fb.equal(x, x + 1),
        lambda x: x.tensor_split(fb.tensor([1]) + x.long()),
        lambda x: fb.distributions.Normal(x, x),
    ],
)
def test_elements_cannot_be_read(mode, read):
    with mode, pytest.raises((RuntimeError, BufferError, TypeError)):
        read(fb.ones(3))


def test_masks(mode):
    with mode:
        x = fb.ones(3, 2)
        x[x > 0] = 5  # in-place fill by a mask
        assert x.masked_fill(x > 0, 1.0).shape == (3, 2)
        for refused in (lambda: x[x > 0], lambda: x.nonzero(), lambda: fb.unique(x)):
            with pytest.raises(DynamicOutputShapeException):
                refused()
        with pytest.raises(DataDependentOutputException) as caught:
            bool(x.sum())
        assert caught.value.func is fb.ops.aten._local_scalar_dense.default
        assert isinstance(pickle.loads(pickle.dumps(caught.value)), RuntimeError)


def test_constants_follow_writes_through_views(mode):
    with mode:
        pair = fb.tensor([1, 2])
        second = pair[1]
        assert (second.item(), pair.tolist(), (second * 3).item()) == (2, [1, 2], 6)
        second.add_(5)
        assert second.item() == 7
        with pytest.raises(RuntimeError):
            pair.tolist()  # written through a view
        number = fb.tensor(1)
        number.add_(fb.ones((), dtype=fb.int64))
        with pytest.raises(DataDependentOutputException):
            number.item()
        with pytest.raises(DataDependentOutputException):
            fb.tensor(3.0).uniform_().item()


def test_random_numbers_are_not_drawn(mode):
    fb.manual_seed(0)
    expected = fb.rand(2)
    fb.manual_seed(0)
    with mode:
        fb.rand(1000), fb.ones(5).uniform_(), nn.functional.dropout(fb.ones(3)), nn.Linear(3, 3)
    assert fb.equal(fb.rand(2), expected)


def test_models_and_optimizers(mode):
    with mode:
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        parameters = list(layer.parameters())
        for kind in (fb.optim.SGD, fb.optim.Adam, fb.optim.AdamW, fb.optim.RMSprop, fb.optim.Adagrad):
            optimizer = kind(parameters, lr=0.1)
            layer(fb.randn(2, 3, 8)).sum().backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
    assert all(is_fake(p) and is_fake(p.grad) and p.grad.stride() == p.stride() for p in parameters)


def test_branches_and_loops_on_unknown_conditions(mode):
    with mode:
        x = fb.ones(3, requires_grad=True)
        y = cond(x.sum() > 0, lambda a: a.detach() * 2, lambda a: a.sin(), (x,))
        assert is_fake(y) and y.requires_grad
        y.sum().backward()
        assert is_fake(x.grad)
        assert cond(fb.tensor(False), lambda: 1, lambda: 2) == 2  # the condition is known
        with pytest.raises(RuntimeError, match="cond: expected results of both branches"):
            cond(x.sum() > 0, lambda: fb.ones(2), lambda: fb.ones(3))
        with pytest.raises(RuntimeError, match="one element"):
            cond(x > 0, lambda: 1, lambda: 2)
        calls = []
        last = while_loop(lambda i, a: a.sum() < 9, lambda i, a: (calls.append(i) or i + 1, a * 2), (0, x))
        assert len(calls) == 1 and last[1].shape == (3,)
        known = while_loop(lambda i: i < 3, lambda i: (i + 1,), (fb.tensor(0),))
        assert known[0].item() == 3
        with pytest.raises(RuntimeError, match="same metadata"):
            while_loop(lambda a: a.sum() < 9, lambda a: (fb.cat([a, a]),), (x,))
        carry, rows = scan(lambda c, r: (c + r, c * r), fb.zeros(2), fb.ones(4, 2))
        assert (carry.shape, rows.shape) == ((2,), (4, 2))
    with pytest.raises(DataDependentOutputException):  # a graph cannot hold one of two branches
        make_fx(lambda a: cond(a.sum() > 0, fb.sin, fb.cos, (a,)), tracing_mode="fake")(fb.ones(2))


def test_compiled_graphs_with_branches_run_on_fake_tensors(mode):
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def program(x):
        y = cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))
        return while_loop(lambda a: a.sum() < 50, lambda a: (a + 1,), (y,))[0]

    x = fb.ones(3)
    fb.compile(program, backend=keep, fullgraph=True)(x)
    result = FakeTensorProp(graphs[0], mode).propagate(x)
    assert is_fake(result[0]) and result[0].shape == (3,)
    fb.compiler.reset()
