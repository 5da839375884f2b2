"""Operators of an author's YAML file: examples/extension_yaml, used with all parts of flambeau."""

import os
import re
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace

import flambeau as torch
import pytest
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.func import functionalize, hessian, jacfwd, jacrev, vmap
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.utils import cmake_prefix_path, cpp_extension
from flambeau.utils.cpp_extension import _operators
from flambeau.utils.operator_tests import OperatorTests

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "extension_yaml"
TWIN = """\
- extension: twin
- func: soft_clip(Tensor self) -> Tensor
  pointwise: self / (1 + abs(self))
  dtype: floating
  doc: An operator whose name another extension has as well.
"""


@pytest.fixture(scope="session")
def signals(build_root):
    files = (EXAMPLE / "signals.yaml", EXAMPLE / "derivatives.yaml")
    return cpp_extension.load_operators(*files, build_directory=build_root / "signals")


@pytest.fixture(scope="session")
def twin(build_root):
    folder = build_root / "a twin"  # a path with a space
    folder.mkdir(exist_ok=True)
    (folder / "twin.yaml").write_text(TWIN)
    return cpp_extension.load_operators(folder / "twin.yaml", build_directory=folder / "build")


def sample(*shape, requires_grad=True):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=requires_grad)


CALLS = {
    "soft_clip": lambda m, x: m.soft_clip(x, 1.5),
    "error_of": lambda m, x: m.error_of(x * x, x.flip(-1) + 3, kind="squared"),
    "power": lambda m, x: m.power(x, 1, True) if x.dim() > 1 else m.power(x),
    "decibels": lambda m, x: m.decibels(x, x.flip(-1) + 3),
    "smooth": lambda m, x: m.smooth(x, 0.3),
}
call = pytest.mark.parametrize("name", CALLS)


@call
def test_gradients_of_both_modes_and_orders(signals, name):
    def function(x):
        return CALLS[name](signals, x)

    x = sample(3, 4)
    assert gradcheck(function, (x,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(function, (x,))
    assert torch.allclose(jacrev(function)(x), jacfwd(function)(x))
    assert torch.allclose(
        hessian(lambda t: function(t).sum())(x), hessian(lambda t: function(t).sum())(x.clone())
    )


@call
def test_vmap_is_the_loop(signals, name):
    x = sample(4, 3, 5, requires_grad=False)
    for dim in (0, 2):
        mapped = vmap(lambda t: CALLS[name](signals, t), in_dims=dim)(x)
        looped = torch.stack([CALLS[name](signals, t) for t in x.unbind(dim)])
        assert torch.allclose(mapped, looped), dim


@call
def test_meta_tensors_have_the_shape_and_dtype(signals, name):
    x = torch.randn(3, 4)
    made, meta = CALLS[name](signals, x), CALLS[name](signals, x.to("meta"))
    assert meta.device.type == "meta"
    assert (made.shape, made.dtype, made.stride()) == (meta.shape, meta.dtype, meta.stride())


@call
def test_compile_agrees(signals, name):
    def function(x):
        return (CALLS[name](signals, x * 2) + 1).relu()

    x = torch.randn(3, 4, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    compiled = torch.compile(function)
    function(x).sum().backward()
    result = compiled(y)
    result.sum().backward()
    assert torch.allclose(result, function(x)) and torch.allclose(x.grad, y.grad)


@call
def test_strided_and_empty_tensors(signals, name):
    x = sample(4, 6, 2, requires_grad=False)
    for view in (x.transpose(0, 2), x[:, ::2], x[:, :, 1], x.flip(0)):
        assert torch.allclose(CALLS[name](signals, view), CALLS[name](signals, view.contiguous()))
    assert CALLS[name](signals, torch.zeros(0, 3)).shape[0] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_values_in_every_floating_dtype(signals, dtype):
    x = torch.randn(3, 40, dtype=dtype)
    wide = x.double()
    for name in CALLS:
        made = CALLS[name](signals, x)
        assert made.dtype == dtype
        tolerance = 64 * torch.finfo(dtype).eps
        assert torch.allclose(made.double(), CALLS[name](signals, wide), rtol=tolerance, atol=tolerance)


def test_nan_and_infinity(signals):
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0])
    assert signals.soft_clip(x).nan_to_num(7.0).tolist() == [7.0, 1.0, -1.0, 0.0]
    assert signals.smooth(torch.tensor([1.0, float("nan"), 1.0]), 0.5).isnan().tolist() == [False, True, True]
    assert signals.power(torch.zeros(0)).isnan()


def test_in_place_and_out_forms(signals):
    x = torch.randn(3, 4)
    expected = signals.soft_clip(x, 2)
    out = torch.empty(0)
    assert signals.soft_clip(x, 2, out=out) is out and out.equal(expected)
    assert torch.ops.signals.soft_clip(x, 2, out=out.zero_()).equal(expected)
    y = x.clone()
    version = y._version
    assert signals.soft_clip_(y, 2) is y and y.equal(expected)
    assert y._version == version + 1
    part = torch.zeros(4, 3)
    signals.smooth(x, 0.5, out=part.t())
    assert part.t().equal(signals.smooth(x, 0.5))
    signals.smooth(x, 0.5, out=x)  # reads what it writes
    with pytest.raises(RuntimeError, match="can't be cast to out's type Int"):
        signals.soft_clip(x, out=torch.zeros(3, 4, dtype=torch.int32))
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        signals.soft_clip_(leaf)
    with pytest.raises(RuntimeError):
        signals.soft_clip_(torch.zeros(2).expand(3, 2))
    squares = (x * 1).requires_grad_() * 1
    kept = squares.exp()
    signals.soft_clip_(kept)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


def test_numbers_for_tensors_and_cases(signals):
    x = torch.tensor([3.0, 5.0])
    assert signals.error_of(x, 1).tolist() == [1.0, 2.0]
    assert signals.error_of(x, torch.tensor(1.0), kind="squared").tolist() == [4.0, 16.0]
    assert signals.error_of(torch.tensor([3]), torch.tensor([1])).dtype == torch.float32


ONES = torch.ones(3)
WRONG = [
    (lambda m: m.smooth(ONES, 1.0), RuntimeError, "smooth: expected a decay of 0 or more, below 1, got 1.0"),
    (lambda m: m.smooth(ONES.sum(), 0.5), RuntimeError, r"dimension or more, got float32\[\]"),
    (lambda m: m.smooth(ONES), TypeError, "missing 1 required positional argument: 'decay'"),
    (lambda m: m.smooth(ONES, "a"), RuntimeError, "type 'float' for argument 'decay', got type 'str'"),
    (lambda m: m.smooth("a", 0.5), RuntimeError, "type 'Tensor' for argument 'self', got type 'str'"),
    (lambda m: m.smooth(ONES.long(), 0.5), NotImplementedError, "not implemented for 'Long'"),
    (lambda m: m.error_of(ONES, ONES[:2]), RuntimeError, "error_of: shapes do not broadcast"),
    (lambda m: m.error_of(ONES, 1, kind="odd"), RuntimeError, "'relative', 'squared', got 'odd'"),
    (lambda m: m.power(ONES, 4), IndexError, "range of"),
    (lambda m: m.power(ONES.to_sparse()), NotImplementedError, "sparse"),
    (lambda m: torch.ops.signals.nothing, AttributeError, "no attribute 'nothing'"),
]


@pytest.mark.parametrize(("wrong", "error", "words"), WRONG)
def test_wrong_calls(signals, wrong, error, words):
    with pytest.raises(error, match=words):
        wrong(signals)


def test_autocast_casts_as_the_entry_says(signals):
    x = torch.randn(4, dtype=torch.bfloat16)
    with torch.autocast("cpu"):
        assert signals.soft_clip(x).dtype == torch.float32
        assert signals.smooth(x, 0.5).dtype == torch.bfloat16
    assert signals.soft_clip(x).dtype == torch.bfloat16


def test_graphs_hold_the_operators_and_functionalise_in_place_forms(signals):
    x = torch.randn(3, 4)
    text = make_fx(functionalize(lambda t: signals.soft_clip_(t.clone())))(x).code
    assert "ops.signals.soft_clip.default" in text and "soft_clip_" not in text
    text = make_fx(lambda t: signals.decibels(signals.soft_clip(t), t))(x).code
    assert "ops.signals.power.default" in text and "ops.aten.log10.default" in text
    graph = make_fx(lambda t: signals.smooth(t, 0.5))(x)
    assert graph(x).equal(signals.smooth(x, 0.5))


def test_names_schemas_and_documentation(signals):
    ops = torch.ops.signals
    assert str(ops.soft_clip.default._schema) == "signals::soft_clip(Tensor self, Scalar limit=1) -> Tensor"
    assert set(ops.soft_clip.overloads()) == {"default", "out"}
    assert {"soft_clip", "soft_clip_", "error_of", "_smooth_backward"} <= set(dir(ops))
    assert (
        "approach `limit`" in signals.soft_clip.__doc__
        and "signals.yaml, soft_clip." in signals.soft_clip.__doc__
    )
    assert "_smooth_backward" not in signals.__all__ and "soft_clip" in signals.__all__
    assert "soft_clip" not in dir(torch.Tensor) and not hasattr(torch, "soft_clip")
    assert all("::" not in schema for schema in torch._C._operator_schemas())
    x = torch.ones(2, requires_grad=True)
    assert signals.soft_clip(x).grad_fn.name() == "SoftClipBackward0"
    assert torch.ops.signals.soft_clip.default.is_view is False
    assert torch.ops.signals.soft_clip_.default._schema.is_mutable


def test_overrides_and_modes_see_the_operators(signals):
    from flambeau.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with Recorder():
        signals.soft_clip(torch.ones(2))
    assert seen[-1] == "signals.soft_clip.default"

    class Mine(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function)
            return super().__torch_function__(function, types, args, kwargs or {})

    signals.soft_clip(torch.ones(2).as_subclass(Mine))
    assert torch.ops.signals.soft_clip.default in seen


def test_two_extensions_have_an_operator_of_one_name(signals, twin):
    x = torch.tensor([1.0], requires_grad=True)
    assert twin.soft_clip(x).item() == 0.5
    assert signals.soft_clip(x).item() == pytest.approx(0.7615942)
    (one,), (other,) = (torch.autograd.grad(m.soft_clip(x), x) for m in (twin, signals))
    assert one.item() == 0.25 and other.item() == pytest.approx(0.4199743)
    assert torch.ops.twin.soft_clip is not torch.ops.signals.soft_clip


def test_threads_call_operators_at_once(signals):
    x, wrong = torch.randn(64, 1000), []
    expected = signals.smooth(x, 0.9)

    def work():
        for _ in range(20):
            if not signals.smooth(x, 0.9).equal(expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_names_are_taken_once(signals):
    with pytest.raises(RuntimeError, match=r"signals::soft_clip"):
        torch.library.define("signals::soft_clip", "(Tensor x) -> Tensor")


def test_the_generated_tests_pass(signals, build_root, run_python):
    """Each kind of test is there, and they find a wrong gradient, value and shape."""
    tests = build_root / "signals" / "generated" / "tests"
    out = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", tests, path=[build_root / "signals"])
    assert re.search(r"^\d+ passed in", out, re.MULTILINE), out
    kinds = set(re.findall(r"def (test_\w+)", (tests / "test_signals.py").read_text()))
    assert kinds == {
        f"test_{kind}" for kind in "values strides inplace out meta gradients batching errors".split()
    }


def is_batched(x):
    try:
        x.sum().item()
    except RuntimeError:
        return x.device.type != "meta"
    return False


WRONG_OPERATORS = {
    "values": lambda m, x: m.soft_clip(x) + 1,
    "gradients": lambda m, x: m.soft_clip(x.detach()) + (x - x.detach()) * 3,
    "meta": lambda m, x: m.soft_clip(x).double() if x.device.type == "meta" else m.soft_clip(x),
    "strides": lambda m, x: m.soft_clip(x) + (not x.is_contiguous()),
    "batching": lambda m, x: m.soft_clip(x) + is_batched(x),
    "out": lambda m, x, out=None: m.soft_clip(x),
    "inplace": lambda m, x: m.soft_clip(x),
}


@pytest.mark.parametrize("kind", WRONG_OPERATORS)
def test_generated_tests_find_a_wrong_operator(signals, build_root, kind):
    def wrong(*args, **kwargs):
        return WRONG_OPERATORS[kind](signals, *args, **kwargs)

    records = build_root / "signals" / "generated" / "tests" / "signals.json"
    name = "soft_clip_" if kind == "inplace" else "soft_clip"
    module = SimpleNamespace(**{**vars(signals), name: wrong})
    check = f"check_{kind}"
    getattr(OperatorTests(signals, records), check)("soft_clip")
    with pytest.raises((AssertionError, RuntimeError)):
        getattr(OperatorTests(module, records), check)("soft_clip")


def test_generated_tests_find_a_missing_check(signals, build_root):
    records = build_root / "signals" / "generated" / "tests" / "signals.json"
    module = SimpleNamespace(**{**vars(signals), "smooth": lambda x, decay: x * 1})
    tests = OperatorTests(module, records)
    assert tests.errors() == [("power", 0), ("smooth", 0), ("smooth", 1)]
    with pytest.raises(AssertionError, match=r"smooth\(t\(3\), 1.0\): expected an exception"):
        tests.check_error("smooth", 0)


# --- building ------------------------------------------------------------------------------------


def test_a_second_call_builds_nothing(signals, build_root):
    before = (build_root / "signals" / "_native.so").stat().st_mtime_ns
    files = (EXAMPLE / "signals.yaml", EXAMPLE / "derivatives.yaml")
    assert cpp_extension.load_operators(*files, build_directory=build_root / "signals") is signals
    assert (build_root / "signals" / "_native.so").stat().st_mtime_ns == before


def test_other_operators_of_a_loaded_name_are_refused(twin, build_root, tmp_path):
    (tmp_path / "twin.yaml").write_text(TWIN.replace("1 + abs", "2 + abs"))
    with pytest.raises(RuntimeError, match="start a new process"):
        cpp_extension.load_operators(tmp_path / "twin.yaml", build_directory=tmp_path / "build")


def test_mistakes_and_absent_files_are_reported(tmp_path, build_root):
    (tmp_path / "bad.yaml").write_text(TWIN.replace("abs(self)", "abz(self)"))
    with pytest.raises(RuntimeError, match=r"(?s)bad.yaml:3:.*FB0303.*did you mean 'abs'"):
        cpp_extension.load_operators(tmp_path / "bad.yaml", build_directory=tmp_path / "build")
    with pytest.raises(FileNotFoundError, match="absent.yaml"):
        cpp_extension.load_operators(tmp_path / "absent.yaml")


def test_an_extension_of_another_version_is_refused(twin, build_root, tmp_path, run_python):
    library = (build_root / "a twin" / "build" / "twin" / "_native.so").read_bytes()
    marker = re.search(rb"flambeau operators built for: flambeau ([\d.]+), specification (\w+)", library)
    assert marker is not None
    (tmp_path / "_native.so").write_bytes(library.replace(marker[2], b"0123456789abcdef"))
    (tmp_path / "_operators.py").write_text(
        (build_root / "a twin" / "build" / "twin" / "_operators.py").read_text()
    )
    code = "try: import _operators\nexcept ImportError as e: print(e)"
    text = run_python("-c", code, path=[tmp_path])
    assert "specification 0123456789abcdef: build the extension again" in text
    (tmp_path / "_native.so").unlink()
    assert "got none: build the extension" in run_python("-c", code, path=[tmp_path])


def test_a_damaged_library_is_an_ordinary_error(tmp_path):
    for content in (b"", b"\x7fELF", b"flambeau operators built for: "):
        (tmp_path / "_native.so").write_bytes(content)
        with pytest.raises((OSError, ImportError)):
            torch.ops.load_library(tmp_path / "_native.so")


def test_every_instruction_set_computes_the_same(signals, build_root):
    """A capped processor runs the other loops of the same file."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import flambeau, _operators\n"
        "x = flambeau.linspace(-3, 3, 1001)\n"
        "clipped = _operators.soft_clip(x)[::100].tolist()\n"
        "print(flambeau._C._cpu_capability(), [f'{v:.5f}' for v in clipped])\n"
        "print(f'{_operators.power(x).item():.4f}')\n"
    )
    answers = set()
    names = torch._C._cpu_capabilities()
    for cap in names[: names.index(torch._C._cpu_capability()) + 1]:
        env = {**os.environ, "FLAMBEAU_CPU_ISA": cap, "PYTHONPATH": str(Path(torch.__file__).parents[1])}
        result = subprocess.run(
            [sys.executable, "-c", code, str(build_root / "signals" / "signals")],
            env=env,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        answers.add(result.stdout.partition(" ")[2])
    assert len(answers) == 1


def test_compiled_files_include_public_headers_alone(signals, build_root):
    """No header of the extension's dependencies lies outside the installed folders."""
    folders = [str(Path(p).resolve()) for p in cpp_extension.include_paths()]
    made = _operators.read(build_root / "signals" / "generated")
    command = [cpp_extension.get_cxx_compiler(), "-std=c++20", "-M", f"-I{made.folder}", *made.flags]
    command += [f"-I{folder}" for folder in folders]
    result = subprocess.run([*command, made.sources[0]], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    private = re.findall(
        r"\S*(?:aten/ops|aten/transforms|python/csrc|torchgen_out/autograd)/\S*", result.stdout
    )
    assert not private


# --- packages ------------------------------------------------------------------------------------

USE = (
    "import flambeau as torch, signals\n"
    "x = torch.tensor([0.0, 4.0, 4.0], requires_grad=True)\n"
    "y = signals.smooth(x, 0.5)\n"
    "y.sum().backward()\n"
    "print(y.tolist(), x.grad.tolist(), torch.ops.signals.soft_clip(x).shape)\n"
)
ANSWER = "[0.0, 2.0, 3.0] [1.75, 0.75, 0.5] flambeau.Size([3])"


def test_a_package_of_setuptools(build_root, run_python, tmp_path):
    pytest.importorskip("setuptools")
    project = tmp_path / "a project"
    shutil.copytree(EXAMPLE, project)
    run_python("setup.py", "-q", "build_ext", "--inplace", cwd=project)
    assert run_python("-c", USE, path=[project], cwd=tmp_path).strip() == ANSWER
    built = {path.name.partition(".")[0] for path in (project / "signals").iterdir() if path.is_file()}
    assert {"_native", "_operators", "__init__"} <= built
    text = (project / "signals.yaml").read_text()
    (project / "signals.yaml").write_text(text.replace("decay >= 0 and", "decay >= 0.25 and"))
    run_python("setup.py", "-q", "bdist_wheel", cwd=project)
    (wheel,) = (project / "dist").glob("signals-0.1.0-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert {"signals/__init__.py", "signals/_operators.py", "signals/_operators.pyi"} <= names
        assert not [name for name in names if name.endswith((".yaml", ".cpp", ".h"))]
        archive.extractall(tmp_path / "installed")
    refused = USE.replace("0.5)", "0.2)")
    with pytest.raises(AssertionError, match=r"expected a decay of 0 or more, below 1, got 0\.2"):
        run_python("-c", refused, path=[tmp_path / "installed"], cwd=tmp_path)


def test_a_package_of_cmake(build_root, run_python, tmp_path):
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed")
    options = [
        f"-DCMAKE_PREFIX_PATH={cmake_prefix_path}",
        f"-DPython_EXECUTABLE={sys.executable}",
        "-G",
        "Ninja",
    ]
    subprocess.run([cmake, "-S", EXAMPLE, "-B", tmp_path, *options], check=True, capture_output=True)
    subprocess.run([cmake, "--build", tmp_path], check=True, capture_output=True)
    commands = [cmake, "--build", tmp_path, "--", "-t", "commands"]
    lines = subprocess.run(commands, check=True, capture_output=True, text=True).stdout.splitlines()
    compiled = [line for line in lines if " -c " in line]
    assert compiled and all(re.search(r" -O[2s] ", line) for line in compiled)  # without a build type, too
    shutil.copy(EXAMPLE / "signals" / "__init__.py", tmp_path / "signals")
    assert run_python("-c", USE, path=[tmp_path], cwd=tmp_path).strip() == ANSWER


def test_cmake_reports_mistakes_of_the_generator(build_root, tmp_path):
    cmake = shutil.which("cmake")
    if cmake is None:
        pytest.skip("cmake is not installed")
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    text = (project / "signals.yaml").read_text()
    (project / "signals.yaml").write_text(text.replace("limit * tanh(", "limit * tanhh("))
    options = [f"-DCMAKE_PREFIX_PATH={cmake_prefix_path}", f"-DPython_EXECUTABLE={sys.executable}"]
    result = subprocess.run(
        [cmake, "-S", project, "-B", tmp_path / "build", *options], capture_output=True, text=True
    )
    assert result.returncode != 0
    assert "did you mean 'tanh'" in result.stderr
