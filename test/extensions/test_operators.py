"""Operators of TORCH_LIBRARY: examples/extensions/operator, and what a library can do wrong."""

from pathlib import Path

import flambeau as torch
import pytest
from flambeau.utils import cpp_extension

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "examples" / "extensions" / "operator" / "shrink.cpp"

LIBRARY = r"""
#include <torch/library.h>

at::Tensor twice(const at::Tensor& x) { return x * 2; }
at::Tensor& fill(at::Tensor& x, const at::Scalar& value) { return x.fill_(value); }
std::tuple<at::Tensor, int64_t> both(at::TensorList list, std::optional<at::Tensor> y, std::string_view mode,
                                     at::IntArrayRef dims, std::optional<double> scale) {
  at::Tensor sum = list[0].sum(dims);
  for (size_t i = 1; i < list.size(); ++i) sum = sum + list[i].sum(dims);
  if (y) sum = sum + *y;
  if (mode == "scaled") sum = sum * scale.value_or(10.0);
  return {sum, static_cast<int64_t>(list.size())};
}

TORCH_LIBRARY(test_lib, m) {
  m.def("twice", &twice);
  m.def("fill_(Tensor(a!) self, Scalar value) -> Tensor(a!)", &fill);
  m.def("both(Tensor[] list, Tensor? y=None, str mode='plain', int[] dims=[], float? scale=None)"
        " -> (Tensor, int)", &both);
  m.def("later.one(Tensor x) -> Tensor");
}
TORCH_LIBRARY_FRAGMENT(test_lib, m) {
  m.def("more(Tensor x, int n=3) -> Tensor", [](const at::Tensor& x, int64_t n) { return x + n; });
}
TORCH_LIBRARY_IMPL(test_lib, CPU, m) { m.impl("later.one", [](const at::Tensor& x) { return x.neg(); }); }
"""


@pytest.fixture(scope="session")
def shrink(build_root):
    cpp_extension.load("shrink", SOURCE, build_directory=build_root / "shrink", is_python_module=False)
    return torch.ops.examples.shrink


@pytest.fixture(scope="session")
def library(build_root):
    folder = build_root / "library"
    folder.mkdir(exist_ok=True)
    cpp_extension.load_inline(
        "library", LIBRARY, build_directory=folder, is_python_module=False, no_implicit_headers=True
    )
    return torch.ops.test_lib


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_shrink_is_softshrink(shrink, dtype):
    x = torch.randn(5, 7, dtype=dtype).t()
    assert torch.allclose(shrink(x, 0.5), torch.nn.functional.softshrink(x, 0.5))
    assert torch.allclose(shrink(x), shrink(x, threshold=0.5))
    assert shrink(torch.tensor([float("nan")], dtype=dtype)).isnan().all()
    assert shrink(torch.empty(0, dtype=dtype)).shape == (0,)


def test_shrink_on_meta(shrink):
    made = shrink(torch.empty(3, 4, device="meta"), 1.0)
    assert made.device.type == "meta" and made.shape == (3, 4)


def test_shrink_has_a_derivative(shrink):
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: shrink(t, 0.3), (x,))
    with torch.no_grad():
        assert not shrink(x).requires_grad


def test_shrink_under_vmap_and_grad(shrink):
    x = torch.randn(3, 4)
    assert torch.allclose(torch.func.vmap(lambda t: shrink(t, 0.3))(x), shrink(x, 0.3))


def test_shrink_reports_errors(shrink):
    with pytest.raises(ValueError, match="threshold of 0 or more"):
        shrink(torch.ones(1), -1.0)
    with pytest.raises(NotImplementedError, match="\"shrink\" not implemented for 'Long'"):
        shrink(torch.ones(1, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="missing value for argument 'self'"):
        shrink()
    with pytest.raises(RuntimeError, match="unknown keyword argument 'size'"):
        shrink(torch.ones(1), size=3)


def test_shrink_passes_opcheck(shrink):
    torch.library.opcheck(shrink.default, (torch.randn(3, requires_grad=True), 0.5))


def test_schemas_and_overloads(library):
    assert str(library.twice.default._schema).endswith("twice(Tensor _0) -> Tensor")
    assert library.later.overloads() == ["one"]
    assert library.later(torch.ones(1)).tolist() == [-1]
    with pytest.raises(AttributeError):
        _ = library.nothing_of_this_name


def test_all_kinds_of_arguments(library):
    ones = torch.ones(2, 3)
    result, count = library.both([ones, ones], torch.tensor(1.0), "scaled", [0, 1], 0.5)
    assert (result.item(), count) == (6.5, 2)
    result, count = library.both([ones], mode="scaled", dims=[1])
    assert (result.tolist(), count) == ([30, 30], 1)
    assert library.more(ones).sum() == 24 and library.more(ones, n=-1).sum() == 0


def test_writing_operators(library):
    x = torch.zeros(2)
    version = x._version
    assert library.fill_(x, 3) is x
    assert x.tolist() == [3, 3] and x._version > version


def test_composites_are_differentiable(library):
    x = torch.ones(2, requires_grad=True)
    library.twice(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_python_may_add_to_an_operator(library):
    with pytest.raises(NotImplementedError, match=r"Could not run 'test_lib::later\.one'.*Meta"):
        library.later(torch.ones(2, device="meta"))
    torch.library.register_fake("test_lib::later.one", lambda x: torch.empty_like(x))
    assert library.later(torch.ones(2, device="meta")).shape == (2,)
    assert library.later(torch.ones(1)).tolist() == [-1]


BAD = {
    "missing": ('m.def("a(Tensor x)");', "expected 'name"),
    "type": ('m.def("a(Matrix x) -> Tensor");', "types that schemas have"),
    "twice": ('m.def("a(Tensor x) -> Tensor"); m.def("a(Tensor x) -> Tensor");', "multiple times"),
    "arguments": (
        'm.def("a(Tensor x, int n) -> Tensor", [](const at::Tensor& x) { return x; });',
        r"arguments \(Tensor, int\) as the schema says, got \(Tensor\)",
    ),
    "results": (
        'm.def("a(Tensor x) -> (Tensor, Tensor)", [](const at::Tensor& x) { return x; });',
        r"results \(Tensor, Tensor\) as the schema says, got \(Tensor\)",
    ),
}


def test_mistakes_are_reported(build_root):
    """Each block runs when Python asks for it."""
    body = "".join(
        f'm.def("{name}", [] {{ torch::Library m(torch::Library::FRAGMENT, "bad_{name}"); {code} }});\n'
        for name, (code, _) in BAD.items()
    )
    module = cpp_extension.load_inline(
        "mistakes",
        f"PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{\n{body}"
        'm.def("unknown", [] { c10::Dispatcher::singleton().findSchemaOrThrow("bad::none", ""); });\n'
        'm.def("types", [] { c10::Dispatcher::singleton().findSchemaOrThrow("bad_twice::a", "")'
        ".typed<at::Tensor(int64_t)>(); });\n}",
        build_directory=build_root / "mistakes",
    )
    for name, (_, text) in BAD.items():
        with pytest.raises(RuntimeError, match=text):
            getattr(module, name)()
    with pytest.raises(RuntimeError, match="Could not find schema for bad::none"):
        module.unknown()
    with pytest.raises(RuntimeError, match=r"arguments \(Tensor\) as the schema says, got \(int\)"):
        module.types()


def test_mistakes_while_a_library_is_loaded(build_root, library, run_python, tmp_path):
    code = """
        #include <torch/library.h>
        TORCH_LIBRARY(bad_at_load, m) { m.def("a(Matrix x) -> Tensor"); }
        TORCH_LIBRARY(test_lib, m) {}
    """
    command = (
        "import flambeau as torch, sys; from flambeau.utils.cpp_extension import load\n"
        "torch.ops.load_library(sys.argv[2])\n"
        "try: load('at_load', sys.argv[1], build_directory=sys.argv[3], is_python_module=False)\n"
        "except RuntimeError as e: print(e)\n"
    )
    source = tmp_path / "at_load.cpp"
    source.write_text(code)
    text = run_python("-c", command, source, build_root / "library" / "library.so", tmp_path / "build")
    assert "types that schemas have" in text
    assert "Only a single TORCH_LIBRARY" in text


def test_load_library_refuses_what_is_none(tmp_path):
    file = tmp_path / "library.so"
    file.write_text("nothing")
    with pytest.raises(OSError, match="library.so"):
        torch.ops.load_library(file)
