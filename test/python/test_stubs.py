"""The type stubs beside the package: what a type checker says about programs, and their names at run time."""

import ast
import re
from pathlib import Path

import flambeau as fb
import pytest
from mypy import api

PACKAGE = Path(fb.__file__).parent

GOOD = """
from typing import assert_type
import flambeau as fb

x = fb.ones(2, 3, requires_grad=True)
y = fb.softmax(x * 2 + 1, 1).reshape(3, 2).sum()
y.backward()
assert_type(y, fb.Tensor)
assert_type(fb.matmul(x, x.T), fb.Tensor)
assert_type(fb.max(x, 0), tuple[fb.Tensor, fb.Tensor])
assert_type(x.grad, fb.Tensor | None)
assert_type(x.dtype, fb.dtype)
assert_type(len(x), int)
assert_type(fb.zeros((2, 3), dtype=fb.float64, device="cpu"), fb.Tensor)
assert_type(fb.tensor([1.0, 2.0]), fb.Tensor)
with fb.no_grad():
    z = x + 1
assert_type(1 + x.detach().exp_(), fb.Tensor)
assert_type(fb.special.expit(x), fb.Tensor)
assert_type(fb.fft.fft(x, norm="ortho"), fb.Tensor)
assert_type(fb.linalg.vector_norm(x, dim=1), fb.Tensor)
"""

BAD = {
    'fb.softmax(fb.ones(3), "a")': r'incompatible type "str"; expected "int"',
    "fb.ones(3).reshape(None)": "No overload variant",
    "fb.exp()": "Missing positional argument|All overload variants",
    "fb.ones(3).no_such_method()": 'has no attribute "no_such_method"',
    "fb.ones(3).shape = 4": "read-only",
}


def messages(program, folder, monkeypatch):
    monkeypatch.setenv("MYPYPATH", str(PACKAGE.parent))
    file = folder / "program.py"
    file.write_text(program)
    cache = folder.parent / "mypy_cache"
    out, _, _ = api.run(
        ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={cache}", str(file)]
    )
    return out


def test_a_correct_program_passes_strict_checks(tmp_path, monkeypatch):
    assert messages(GOOD, tmp_path, monkeypatch).startswith("Success")


def test_mistakes_are_found(tmp_path, monkeypatch):
    out = messages("\n".join(["import flambeau as fb", *BAD]), tmp_path, monkeypatch).splitlines()
    for line, expected in enumerate(BAD.values(), start=2):
        found = [text for text in out if f"program.py:{line}: error" in text]
        assert any(re.search(expected, text) for text in found), (line, out)


def test_the_correct_program_runs():
    exec(compile(GOOD, "program", "exec"), {})


def names_of(stub, owner=None):
    body = ast.parse((PACKAGE / stub).read_text()).body
    if owner is not None:
        (body,) = [node.body for node in body if isinstance(node, ast.ClassDef) and node.name == owner]
    return {n.name for n in body if isinstance(n, ast.FunctionDef) and n.name != "__getattr__"}


@pytest.mark.parametrize(
    ("stub", "owner", "actual"),
    [
        ("_functions.pyi", None, fb),
        ("_C.pyi", None, fb),
        ("_C.pyi", "Tensor", fb.Tensor),
        ("_C.pyi", "Generator", fb.Generator),
        ("_tensor_methods.pyi", "TensorMethods", fb.Tensor),
    ],
)
def test_names_exist_at_run_time(stub, owner, actual):
    names = names_of(stub, owner)
    assert names and not {name for name in names if not hasattr(actual, name)}
