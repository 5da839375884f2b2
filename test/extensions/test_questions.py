"""Keys, stacks, schemas, handles, threads and settings as C++ code asks for them (questions.cpp)."""

import warnings
from pathlib import Path

import flambeau as torch
import pytest
from flambeau.utils import cpp_extension

SOURCE = Path(__file__).with_name("questions.cpp")


@pytest.fixture(scope="module")
def native(build_root):
    return cpp_extension.load("questions", SOURCE, build_directory=build_root / "questions")


@pytest.fixture
def settled():
    yield
    torch.use_deterministic_algorithms(False)


def test_the_keys_of_a_tensor(native):
    x = torch.ones(2)
    assert native.keys_of(x) == [True, False, True, False, True, False]
    assert native.keys_of(x.to("meta")) == [False, True, False, False, True, False]
    assert native.keys_of(x.to(torch.complex64).conj()) == [True, False, True, False, True, True]


def test_sets_of_keys(native):
    assert native.algebra() == ["AutogradCPU", "CPU", "0", "1", "0", "Undefined", "1", "0"]


@pytest.mark.parametrize(
    ("how", "records"),
    [
        ("", True),
        ("exclude", False),
        ("exclude and include", True),
        ("below", False),
        ("inference", False),
        ("inference off", True),
        ("force", False),
    ],
)
def test_guards_switch_recording_for_their_scope(native, how, records):
    x = torch.ones(1, requires_grad=True)
    assert native.records(x, how) is records
    assert (x * 2).requires_grad and not torch.is_inference_mode_enabled()


def test_redispatch_below_autograd(native):
    x = torch.ones(2, requires_grad=True)
    result = native.added_below(x, torch.full((2,), 3.0))
    assert result.tolist() == [7, 7] and not result.requires_grad
    with pytest.raises(RuntimeError, match="expected dispatch keys to go on with, got an empty set"):
        native.added_with_no_keys(x)


def test_boxed_calls_and_schemas(native):
    assert native.boxed_add(torch.ones(2), torch.full((2,), 2.0)).tolist() == [7, 7]
    with pytest.raises(RuntimeError, match=r"arguments \(Tensor, Tensor, Scalar\) as the schema says, got"):
        native.wrongly_typed(torch.ones(2))
    assert native.schema_of("aten::add_", "Tensor") == [
        "aten::add_.Tensor", "1", "Tensor self!", "Tensor other", "Scalar alpha", "-> Tensor", "1",
    ]  # fmt: skip
    assert native.schema_of("aten::no_operator", "") == []


def test_values_and_stacks(native):
    assert native.values() == "textb23"
    with pytest.raises(RuntimeError, match="IValue: expected int"):
        native.wrong_value()
    with pytest.raises(RuntimeError, match="stack: expected 1 values or more, got 0"):
        native.empty_stack()
    assert native.shared_list(2) == [1, 2, 3, 3]
    with pytest.raises(IndexError, match="expected an index below 3, got 3"):
        native.shared_list(3)


def test_borrowed_handles(native):
    x = torch.ones(2, 3)
    assert native.borrowed(x) == [True, True, True, False, False]
    assert native.borrowed(x.t()) == [False, True, True, False, False]
    with pytest.raises(RuntimeError, match="OptionalTensorRef: expected a tensor, got none"):
        native.no_tensor()


def test_threads(native):
    before = torch.get_num_threads()
    now, first, last, distinct, inside, outside, number = native.threads(2)
    assert (now, first, outside, number) == (2, 0, 0, 0)
    assert 1 <= distinct == last + 1 <= 2 and inside == (distinct == 2)
    assert native.threads(1) == [1, 0, 0, 1, 0, 0, 0]
    assert torch.get_num_threads() == before
    with pytest.raises(RuntimeError, match="set_num_threads: expected a positive integer, got 0"):
        native.threads(0)
    assert [native.reduced(n) for n in (0, 1, 9, 1000)] == [sum(range(n)) for n in (0, 1, 9, 1000)]


def test_the_context_has_the_settings_of_python(native, settled):
    assert native.context() == [False, False, True, False]
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert native.context()[:2] == [True, True]
    with pytest.warns(UserWarning, match="probe does not have a deterministic implementation"):
        native.alert()
    native.set_deterministic(True, False)
    assert torch.are_deterministic_algorithms_enabled() and torch.get_deterministic_debug_mode() == 2
    assert torch.empty(2).isnan().all()  # memory is filled
    with pytest.raises(RuntimeError, match="probe does not have a deterministic implementation"):
        native.alert()
    native.set_deterministic(False, False)
    assert torch.get_deterministic_debug_mode() == 0
    native.alert()


def test_generators(native):
    generator = torch.Generator().manual_seed(5)
    expected = torch.empty(3, dtype=torch.float64).normal_(generator=torch.Generator().manual_seed(5))
    assert native.drawn(generator).equal(expected)
    native.seed(5)
    assert native.drawn(None).equal(expected)


def test_warnings(native):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        native.warned()
        native.warned()
    assert [str(w.message) for w in caught] == ["once 0", "each 1", "each 1"]


def test_dtypes_in_conditions_and_switches(native):
    assert native.widened(torch.int8, False) is torch.int8
    assert native.widened(torch.int8, True) is torch.float64
    assert [native.types(t) for t in (torch.float32, torch.float64, torch.int16)] == [
        "float", "double", "type Short of 2 bytes",
    ]  # fmt: skip
    assert native.counted([7, 7, 7]) == 3


def test_what_does_not_exist_says_so(build_root):
    source = "#include <ATen/TensorIterator.h>\nint f() { return 1; }"
    with pytest.raises(RuntimeError, match="flambeau has no TensorIterator: write the loop with"):
        cpp_extension.load_inline("no_iterator", source, build_directory=_folder(build_root, "no_iterator"))


# Blocks that must be refused, and what the message says.
REFUSED = {
    "TORCH_LIBRARY_IMPL(refused, Tracer, m) { m.impl('a', [](const at::Tensor& x) { return x; }); }":
        "expected a dispatch key of flambeau, got Tracer",
    "TORCH_LIBRARY_IMPL(refused, CPU, m) { m.fallback(torch::CppFunction::makeFallthrough()); }":
        "expected TORCH_LIBRARY_IMPL(_, key, m)",
    "TORCH_LIBRARY_IMPL(_, CPU, m) { m.fallback(torch::CppFunction::makeFallthrough()); }":
        "expected a key of Autograd or Autocast to fall through, got CPU",
    "TORCH_LIBRARY_FRAGMENT(refused, m) { m.class_<Held>('Held'); m.class_<Held>('Other'); }":
        "expected a C++ type that no class is registered for",
    "TORCH_LIBRARY_FRAGMENT(refused, m) { m.class_<Twice>('Twice').def('f', &Twice::f)"
    ".def('f', &Twice::f); }":
        "expected methods of different names, got a second 'f'",
    "TORCH_LIBRARY_FRAGMENT(refused, m) { m.class_<Named>('Named').def(torch::init<int64_t>(), '', "
    "{torch::arg('a'), torch::arg('b')}); }":
        "expected 1 names (torch::arg) of parameters, or none, got 2",
    "TORCH_LIBRARY_FRAGMENT(refused, m) { m.def('of_unknown', [](const c10::intrusive_ptr<Unknown>& x) "
    "{ return int64_t(1); }); }":
        "expected the class to be registered before functions that take it",
}  # fmt: skip


def _folder(root, name):
    (root / name).mkdir(exist_ok=True)
    return root / name


def test_mistakes_in_blocks(build_root, run_python, tmp_path):
    classes = "".join(
        f"struct {name} : torch::CustomClassHolder {{ {name}(int64_t = 0) {{}} void f() {{}} }};\n"
        for name in ("Held", "Twice", "Named", "Unknown")
    )
    for i, block in enumerate(REFUSED):
        source = tmp_path / f"refused_{i}.cpp"
        body = block.replace("'", '"')
        used = classes if "class_" in body or "Unknown" in body else ""
        source.write_text(f"#include <torch/custom_class.h>\n{used}{body}\n")
    command = (
        "import sys; from flambeau.utils.cpp_extension import load\n"
        "for i, source in enumerate(sys.argv[2:]):\n"
        "    try: load(f'refused_{i}', source, build_directory=sys.argv[1], is_python_module=False)\n"
        "    except RuntimeError as e: print(str(e).replace(chr(10), ' '))\n"
        "    else: print('accepted', i)\n"
    )
    sources = sorted(tmp_path.glob("refused_*.cpp"))
    text = run_python("-c", command, _folder(build_root, "refused"), *sources)
    for line, message in zip(text.splitlines(), REFUSED.values(), strict=True):
        assert message in line


FALLBACKS = r"""
#include <torch/library.h>
std::string seen;
void noted(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  seen = op.schema().name();
  stack->clear();
  torch::jit::push(*stack, at::full({}, 7));
}
at::Tensor cpu(const at::Tensor& x) { return at::full({}, 1); }
at::Tensor cuda(const at::Tensor& x) { return at::full({}, 2); }
at::Tensor cast_cpu(const at::Tensor& x) { return at::full({}, 3); }
at::Tensor cast_cuda(const at::Tensor& x) { return at::full({}, 4); }
at::Tensor view_kernel(const at::Tensor& x) { return at::full({}, 5); }
std::string texts(std::vector<std::string> list, std::string with) {
  std::string all;
  for (const auto& text : list) all += text + with;
  return all;
}
TORCH_LIBRARY(fallbacks, m) {
  m.def("pick(Tensor x) -> Tensor");
  m.def("boxed(Tensor x) -> Tensor");
  m.def("viewed(Tensor x) -> Tensor");
  m.def("seen", [] { return seen; });
  m.def("texts(str[] list, str with='-') -> str", &texts);
}
TORCH_LIBRARY_IMPL(fallbacks, CPU, m) {
  m.impl("pick", &cpu);
  m.impl("boxed", torch::CppFunction::makeFromBoxedFunction<&noted>());
  m.impl("viewed", &cpu);
}
TORCH_LIBRARY_IMPL(fallbacks, CUDA, m) { m.impl("pick", &cuda); }
TORCH_LIBRARY_IMPL(fallbacks, AutocastCPU, m) { m.impl("pick", &cast_cpu); }
TORCH_LIBRARY_IMPL(fallbacks, Autocast, m) { m.impl("pick", &cast_cuda); m.impl("boxed", &cast_cuda); }
TORCH_LIBRARY_IMPL(fallbacks, AutogradCUDA, m) { m.impl("pick", &cast_cuda); }
TORCH_LIBRARY_IMPL(fallbacks, Autograd, m) { m.impl("viewed", &cast_cpu); }
TORCH_LIBRARY_IMPL(fallbacks, ADInplaceOrView, m) { m.impl("viewed", &view_kernel); }
TORCH_LIBRARY_IMPL(_, AutogradPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
"""


def test_kernels_per_backend_and_boxed_ones(build_root):
    folder = _folder(build_root, "fallbacks")
    cpp_extension.load_inline(
        "fallbacks", FALLBACKS, build_directory=folder, is_python_module=False, no_implicit_headers=True
    )
    ops, x = torch.ops.fallbacks, torch.ones(2, requires_grad=True)
    assert ops.pick(x).item() == 1  # not the kernel of AutogradCUDA
    assert ops.boxed(x).item() == 7 and ops.seen() == "fallbacks::boxed"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ops.pick(x).item() == 3
        assert ops.boxed(x).item() == 7  # `Autocast` means CUDA's
    assert ops.viewed(x).item() == 3  # Autograd comes before ADInplaceOrView
    assert ops.texts(["a", "b"]) == "a-b-" and ops.texts([], "+") == ""
    with pytest.raises(RuntimeError, match="str"):
        ops.texts(["a", 3])
