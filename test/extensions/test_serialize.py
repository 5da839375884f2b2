"""torch::save and torch::load in C++: files of Python and of PyTorch, both ways."""

import io
import os
import signal
import time
from pathlib import Path

import flambeau
import numpy as np
import pytest
from flambeau.utils import cpp_extension

pytorch = pytest.importorskip("torch")
FRAMEWORKS = pytest.mark.parametrize("torch", [flambeau, pytorch], ids=["flambeau", "pytorch"])


@pytest.fixture(scope="session")
def native(build_root):
    source = Path(__file__).with_name("serialize.cpp")
    return cpp_extension.load("serialize", [source], build_directory=build_root / "serialize")


def net_of(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
            self.features.add_module("pool", nn.MaxPool2d(2))
            self.head = nn.Linear(16, 3, bias=False)
            self.scale = nn.Parameter(torch.full((3,), 2.0))
            self.register_buffer("shift", torch.arange(3.0))

        def forward(self, x):
            return self.head(self.features(x).flatten(1)) * self.scale + self.shift

    torch.manual_seed(8)
    return Net()


X = np.random.default_rng(0).standard_normal((5, 1, 4, 4), dtype=np.float32)


@FRAMEWORKS
def test_python_loads_a_module_of_cpp(native, tmp_path, torch):
    path = str(tmp_path / "net.pt")
    expected = native.save_net(path, flambeau.from_numpy(X), 2)
    state = torch.load(path, weights_only=True)
    net = net_of(torch)
    assert list(state) == list(net.state_dict())
    assert not any(value.requires_grad for value in state.values())
    net.load_state_dict(state)
    found = net.eval()(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert state["features.1.num_batches_tracked"].item() == 2


@FRAMEWORKS
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("plain", [False, True])
def test_cpp_loads_a_module_of_python(native, tmp_path, torch, protocol, plain):
    net = net_of(torch)
    net(torch.tensor(X))  # moves the running mean
    path = str(tmp_path / "net.pt")
    # The parameters themselves, in a plain dict, are files too.
    state = dict([*net.named_parameters(), *net.named_buffers()]) if plain else net.state_dict()
    torch.save(state, path, pickle_protocol=protocol)
    found = native.load_net(path, flambeau.from_numpy(X))
    expected = net.eval()(torch.tensor(X)).detach().numpy()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_module_takes_the_dtype_of_the_file(native, tmp_path):
    path = str(tmp_path / "net.pt")
    assert native.load_doubles(path) == flambeau.float64
    state = flambeau.load(path)
    assert {str(v.dtype) for v in state.values()} == {"flambeau.float64", "flambeau.int64"}


OPTIMIZERS = {
    "SGD": ("SGD", {}),
    "Momentum": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "Adam": ("Adam", {"amsgrad": True}),
    "AdamW": ("AdamW", {"betas": (0.8, 0.9)}),
    "RMSprop": ("RMSprop", {"momentum": 0.5, "centered": True}),
    "Adagrad": ("Adagrad", {"initial_accumulator_value": 0.5}),
}
A, B = np.array([0.5, -0.7, 0.2]), np.array([1.0, -2.0])


class Descent:
    """The optimizer of a name over two groups, in Python."""

    def __init__(self, torch, name, a, b):
        kind, options = OPTIMIZERS[name]
        self.a, self.b = (torch.tensor(v.tolist(), dtype=torch.float64, requires_grad=True) for v in (a, b))
        groups = [{"params": [self.a]}, {"params": [self.b], "lr": 0.02}]
        self.optimizer = getattr(torch.optim, kind)(groups, lr=0.1, **options)

    def steps(self, count):
        for _ in range(count):
            self.optimizer.zero_grad()
            ((self.a**4).sum() + (self.b**2).sum()).backward()
            self.optimizer.step()
        return self.a.detach().numpy(), self.b.detach().numpy()


def assert_close(found, expected):
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)


@FRAMEWORKS
@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_python_continues_an_optimizer_of_cpp(native, tmp_path, torch, name, steps):
    path = str(tmp_path / "optimizer.pt")
    start = (flambeau.tensor(A), flambeau.tensor(B))
    expected = [t.numpy() for t in native.continued(name, *start, steps + 2, "", "")]
    a, b = (t.numpy() for t in native.continued(name, *start, steps, "", path))
    own = Descent(torch, name, a, b)
    state = torch.load(path, weights_only=True)
    if steps:
        reference = Descent(torch, name, A, B)
        reference.steps(steps)
        wanted = reference.optimizer.state_dict()
        assert {k: set(v) for k, v in state["state"].items()} == {
            k: {n for n, value in v.items() if value is not None} for k, v in wanted["state"].items()
        }
        assert set(state["param_groups"][0]) <= set(wanted["param_groups"][0])
    own.optimizer.load_state_dict(state)
    assert_close(own.steps(2), expected)


@FRAMEWORKS
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_cpp_continues_an_optimizer_of_python(native, tmp_path, torch, name):
    path = str(tmp_path / "optimizer.pt")
    own = Descent(torch, name, A, B)
    own.steps(3)
    own.optimizer.param_groups[0]["lr"] = 0.07
    torch.save(own.optimizer.state_dict(), path)
    start = [flambeau.tensor(t.detach().numpy()) for t in (own.a, own.b)]
    found = native.continued(name, *start, 2, path, "")
    assert_close([t.numpy() for t in found], own.steps(2))


@FRAMEWORKS
def test_checkpoints_have_dicts_and_values(native, tmp_path, torch):
    path = str(tmp_path / "checkpoint.pt")
    native.save_checkpoint(path)
    found = torch.load(path, weights_only=True)
    net = net_of(torch)
    net.load_state_dict(found["model"])
    assert (found["epoch"], found["loss"], found["name"]) == (3, 0.25, "net")
    assert found["done"] is True and found["nothing"] is None
    assert found["sizes"] == [1, 1 << 20, 1 << 40, -1] and found["rates"] == [0.5, 1e300]
    assert [t.tolist() for t in found["weights"]] == [[1.0, 1.0], 0.0]

    keys = list(found)
    found["model"] = net.state_dict()
    torch.save(found, path)
    out, names = native.load_checkpoint(path, flambeau.from_numpy(X))
    assert names == sorted(keys)
    np.testing.assert_allclose(out.numpy(), net.eval()(torch.tensor(X)).detach().numpy(), rtol=1e-5)


def tensors_of(torch):
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    yield from (base, base.permute(2, 0, 1), base[:, 1:, ::2], base[0, 0, 0], base[:0], torch.tensor(7))
    yield torch.zeros(2, 0, 3)
    yield torch.ones(1).expand(3, 4)
    yield torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
    yield torch.tensor([1.0, 2.0], requires_grad=True)
    yield torch.tensor([1 + 2j, 3 - 1j]).conj()
    yield torch.tensor([1 + 2j, 3 - 1j]).conj().imag
    yield torch.full((2,), 7).to(torch.uint16)
    for dtype in (torch.bool, torch.uint8, torch.float16, torch.bfloat16, torch.float64, torch.complex128):
        yield torch.tensor([0, 1, 1]).to(dtype)


def assert_same(found, expected):
    assert (tuple(found.shape), found.requires_grad) == (tuple(expected.shape), expected.requires_grad)
    assert str(found.dtype).partition(".")[2] == str(expected.dtype).partition(".")[2]
    assert found.detach().resolve_conj().resolve_neg().tolist().__repr__() == (
        expected.detach().resolve_conj().resolve_neg().tolist().__repr__()
    )


@FRAMEWORKS
def test_tensors_of_python_are_read(native, tmp_path, torch):
    path = str(tmp_path / "x.pt")
    for tensor in tensors_of(torch):
        torch.save(tensor, path)
        assert_same(native.load_tensor(path), tensor)
        assert_same(native.unpickled(Path(path).read_bytes()), tensor)
    torch.save(list(tensors_of(torch)), path)
    for found, tensor in zip(native.load_tensors(path), tensors_of(torch), strict=True):
        assert_same(found, tensor)
    torch.save(torch.nn.Parameter(torch.ones(2)), path)
    assert native.load_tensor(path).requires_grad


@FRAMEWORKS
def test_tensors_of_cpp_are_read(native, tmp_path, torch):
    path = str(tmp_path / "x.pt")
    for tensor in tensors_of(flambeau):
        native.save_tensor(tensor, path)
        assert_same(torch.load(path, weights_only=True), tensor)
        assert_same(torch.load(io.BytesIO(native.pickled(tensor)), weights_only=True), tensor)
    native.save_tensors(list(tensors_of(flambeau)), path)
    for found, tensor in zip(torch.load(path, weights_only=True), tensors_of(flambeau), strict=True):
        assert_same(found, tensor)
    native.save_tensors([], path)
    assert torch.load(path, weights_only=True) == [] and native.load_tensors(path) == []


def test_equal_contents_are_equal_files(native, tmp_path):
    for name in ("a.pt", "b.pt"):
        native.save_net(str(tmp_path / name), flambeau.from_numpy(X), 1)
    assert (tmp_path / "a.pt").read_bytes() == (tmp_path / "b.pt").read_bytes()


def test_a_tensor_that_is_there_takes_over_the_values(native, tmp_path):
    path = str(tmp_path / "x.pt")
    native.save_tensor(flambeau.arange(4.0), path)
    target = flambeau.zeros(2, 2, dtype=flambeau.float64, requires_grad=True)
    found = native.load_over(path, target)
    assert found is target and target.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert target.requires_grad and target.dtype == flambeau.float32
    (target * 2).sum().backward()
    assert target.grad.tolist() == [2.0] * 4


def test_a_name_without_a_folder_is_a_file_here(native, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = flambeau.arange(3.0)
    native.save_tensor(x, "x.pt")
    assert native.load_tensor("x.pt").equal(x) and [file.name for file in tmp_path.iterdir()] == ["x.pt"]


def test_functions_and_bytes_stand_for_files(native):
    x = flambeau.arange(10.0).reshape(2, 5)
    assert native.through_functions(x).equal(x)


def test_threads_replace_a_file_as_a_whole(native, tmp_path):
    assert native.written_at_once(str(tmp_path / "x.pt"), 4) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["x.pt"]


def test_a_killed_process_leaves_a_whole_file(native, tmp_path, start_python):
    path = tmp_path / "x.pt"
    native.save_tensor(flambeau.zeros(1_000_000), str(path))
    code = (
        "import sys, flambeau; from importlib import machinery, util\n"
        "loader = machinery.ExtensionFileLoader('serialize', sys.argv[1])\n"
        "m = util.module_from_spec(util.spec_from_loader('serialize', loader)); loader.exec_module(m)\n"
        "print('ready', flush=True)\n"
        "while True: m.save_tensor(flambeau.ones(1_000_000), sys.argv[2])\n"
    )
    for delay in (0.01, 0.05, 0.2):
        process = start_python("-c", code, native.__file__, path)
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = native.load_tensor(str(path))
        assert found.numel() == 1_000_000 and found.eq(found[0]).all()


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("undefined", RuntimeError, "got an undefined one"),
        ("meta", RuntimeError, "expected a strided tensor with values"),
        ("twice", RuntimeError, "expected a new key, got 'a' again"),
        ("both", RuntimeError, "expected keys or one value, got both"),
        ("folder", RuntimeError, "Parent directory .* does not exist"),
        ("no file", RuntimeError, "cannot open"),
        ("complex", RuntimeError, "expected a real number as 'a'"),
        ("device", RuntimeError, "got a value of another type"),
        ("null", RuntimeError, "got nullptr"),
        ("empty holder", RuntimeError, "got an empty holder"),
        ("stream", RuntimeError, "the stream cannot be written"),
        ("empty archive", RuntimeError, "expected a tensor as 'a', got a file without it"),
        ("no value", RuntimeError, "expected a value as 'a'"),
    ],
)
def test_mistakes_are_refused(native, tmp_path, what, error, text):
    with pytest.raises(error, match=text):
        native.refuse(what, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_sparse_tensor_is_refused(native, tmp_path):
    with pytest.raises(RuntimeError, match="expected a strided tensor"):
        native.save_tensor(flambeau.eye(2).to_sparse(), str(tmp_path / "x.pt"))
    flambeau.save(flambeau.eye(2).to_sparse(), tmp_path / "x.pt")
    with pytest.raises(RuntimeError, match="got a call of"):
        native.load_tensor(str(tmp_path / "x.pt"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda s: s.pop("head.weight"), "expected a tensor as 'head.weight', got a file without it"),
        (lambda s: s.update(scale=flambeau.ones(4)), r"expected sizes \[3\] for 'scale'"),
        (lambda s: s.update(scale=3), "expected a tensor as 'scale', got an integer"),
        (lambda s: s.update({"features.1.weight": "x"}), "tensor as 'features.1.weight', got text"),
        (lambda s: s.update(scale=flambeau.ones(3, dtype=flambeau.int64)), "floating or complex dtype"),
        (lambda s: s.clear(), "got a file without it"),
    ],
)
def test_files_that_do_not_fit_a_module_are_refused(native, tmp_path, change, text):
    state = net_of(flambeau).state_dict()
    change(state)
    flambeau.save(state, tmp_path / "net.pt")
    with pytest.raises(RuntimeError, match=text):
        native.refuse_net(str(tmp_path / "net.pt"))


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda s: s.pop("state"), RuntimeError, "expected the file of an optimizer"),
        (lambda s: s["param_groups"].pop(), ValueError, "expected 2 parameter groups, got 1"),
        (lambda s: s["param_groups"][1]["params"].append(2), ValueError, "expected 1 parameters in group 1"),
        (lambda s: s["param_groups"][0].update(lr=-1), ValueError, "learning rate of 0 or more"),
        (lambda s: s["param_groups"][0].update(lr="x"), RuntimeError, "expected a number as 'lr', got text"),
        (lambda s: s["param_groups"][0].update(lr=flambeau.ones(2)), RuntimeError, "."),
        (lambda s: s["param_groups"][0].update(betas=(1, 2, 3)), RuntimeError, "expected two numbers"),
        (lambda s: s["param_groups"][0].update(amsgrad=1), RuntimeError, "expected a bool as 'amsgrad'"),
        (lambda s: s["param_groups"][0].update(maximize=True), RuntimeError, "expected maximize=False"),
        (lambda s: s["param_groups"].__setitem__(0, 3), RuntimeError, "expected a list as 'params'"),
        (lambda s: s["state"].__setitem__(0, 3), RuntimeError, "expected a dict as the state"),
        (lambda s: s["state"][0].update(exp_avg=flambeau.ones(7)), RuntimeError, "expected sizes"),
        (lambda s: s["state"][0].update(step=-1), ValueError, "expected a count of steps"),
        (lambda s: s["state"][0].update(step=float("nan")), ValueError, "expected a count of steps"),
        (lambda s: s["state"][0].update(exp_avg="x"), RuntimeError, "expected a tensor as 'exp_avg'"),
    ],
)
def test_files_that_do_not_fit_an_optimizer_are_refused(native, tmp_path, change, error, text):
    own = Descent(flambeau, "Adam", A, B)
    own.steps(1)
    state = own.optimizer.state_dict()
    path = str(tmp_path / "optimizer.pt")
    flambeau.save(state, path)
    native.load_optimizer("Adam", path, 3)
    change(state)
    flambeau.save(state, path)
    with pytest.raises(error, match=text):
        native.load_optimizer("Adam", path, 3)


def test_a_file_of_code_is_refused(native, tmp_path):
    path = str(tmp_path / "x.pt")
    pytorch.save(pytorch.nn.Linear(2, 2), path)
    with pytest.raises(RuntimeError, match="expected the opcodes|got a call of"):
        native.load_tensor(path)
    Path(path).write_bytes(Path(path).read_bytes()[:100])
    with pytest.raises(RuntimeError, match="not a sound zip archive"):
        native.load_tensor(path)
