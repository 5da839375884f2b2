"""examples/extensions: each compiles and computes what it says."""

import shutil
import sys
from pathlib import Path

import flambeau as torch
import pytest
from flambeau.utils import cpp_extension

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "extensions"


def test_the_recurrent_cell_trains_as_in_python(build_root, run_python):
    folder = build_root / "lltm"
    folder.mkdir(exist_ok=True)
    text = run_python(EXAMPLES / "lltm" / "train.py", "--build-directory", folder)
    words = text.replace(",", "").split()
    first, last, largest = float(words[2]), float(words[5]), float(words[8])
    assert last < first / 3
    assert largest < 1e-4


def test_the_recurrent_cell_has_the_right_gradient(build_root):
    native = cpp_extension.load(
        "lltm_cpp", EXAMPLES / "lltm" / "lltm.cpp", build_directory=build_root / "lltm"
    )
    sys.path.insert(0, str(EXAMPLES / "lltm"))
    try:
        from train import LLTMFunction
    finally:
        sys.path.pop(0)
    given = [
        torch.randn(*shape, dtype=torch.float64, requires_grad=True)
        for shape in [(2, 3), (12, 7), (1, 12), (2, 4), (2, 4)]
    ]
    assert torch.autograd.gradcheck(lambda *t: LLTMFunction.apply(native, *t), tuple(given))
    with pytest.raises(ValueError, match="expected 12 rows of weights, got 5"):
        native.forward(given[0], given[1][:5], given[2], given[3], given[4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nearest_agrees_with_cdist(build_root, dtype):
    source = EXAMPLES / "kernel" / "nearest.cpp"
    native = cpp_extension.load("nearest", source, build_directory=build_root / "nearest")
    points, centres = torch.randn(3, 500, dtype=dtype).t(), torch.randn(7, 3, dtype=dtype)
    index, distance = native.nearest(points, centres)
    expected, at = torch.cdist(points, centres).min(1)
    assert index.equal(at) and torch.allclose(distance.sqrt(), expected, atol=1e-5)
    with pytest.raises(TypeError, match="expected one dtype, got Float and Double"):
        native.nearest(points.float(), centres.double())
    with pytest.raises(ValueError, match="a centre at least"):
        native.nearest(points, centres[:0])


def test_a_package_of_setuptools(build_root, run_python, tmp_path):
    pytest.importorskip("setuptools")
    shutil.copytree(EXAMPLES / "package", tmp_path / "package")
    run_python("setup.py", "-q", "build_ext", "--inplace", cwd=tmp_path / "package")
    code = (
        "import flambeau as torch, windowed\n"
        "print(windowed.window_sum(torch.arange(5), 2).tolist())\n"
        "print(windowed.window_sum(torch.arange(5), 2, dtype=torch.float32).dtype)\n"
        "try: windowed.window_sum(torch.arange(5), 9)\nexcept ValueError as e: print(e)\n"
    )
    text = run_python("-c", code, path=[tmp_path / "package"])
    assert text.splitlines() == [
        "[1, 3, 5, 7]",
        "flambeau.float32",
        "window_sum: expected a window of 1 to 5, got 9",
    ]
