"""The layer table of docs/architecture.md, enforced over every include and import."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)

# Folder -> prefixes of what its files may include. Longest match decides which row a file is in.
LAYERS = {
    "c10/": ("c10/",),
    "aten/core/": ("aten/core/", "c10/"),
    "aten/dispatch/": ("aten/dispatch/", "aten/core/", "c10/"),
    "aten/cpu/": ("aten/cpu/", "aten/core/", "aten/dispatch/", "c10/"),
    "aten/cuda/": ("aten/cuda/", "aten/core/", "aten/dispatch/", "c10/"),
    "aten/ops/": ("aten/ops/", "aten/cpu/", "aten/core/", "aten/dispatch/", "c10/", "torchgen_out/aten/"),
    "aten/autograd/": (
        "aten/autograd/",
        "aten/core/",
        "aten/dispatch/",
        "c10/",
        "torchgen_out/aten/",
        "torchgen_out/autograd/",
    ),
    "aten/transforms/": (
        "aten/transforms/",
        "aten/autograd/",
        "aten/core/",
        "aten/dispatch/",
        "c10/",
        "torchgen_out/aten/",
    ),
    "python/csrc/": (
        "python/csrc/",
        "aten/transforms/",
        "aten/autograd/",
        "aten/core/",
        "aten/dispatch/",
        "aten/cpu/",
        "c10/",
        "torchgen_out/",
    ),
}


def sources():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode == 0:
        return [ROOT / name for name in tracked.stdout.splitlines()]
    return [p for folder in LAYERS for p in (ROOT / folder).rglob("*")]


def forbidden_includes(layer: str, text: str) -> list[str]:
    return [name for name in INCLUDE.findall(text) if not name.startswith(LAYERS[layer])]


def files_of(layer: str) -> list[Path]:
    suffixes = {".h", ".cpp", ".cu", ".cuh"}
    files = (p for p in sources() if p.suffix in suffixes)
    return [p for p in files if str(p.relative_to(ROOT)).startswith(layer)]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_includes_only_what_lies_below(layer):
    files = files_of(layer)
    bad = {
        str(p.relative_to(ROOT)): names for p in files if (names := forbidden_includes(layer, p.read_text()))
    }
    assert not bad
    assert files or layer == "aten/cuda/", f"no files found in {layer}"


def test_an_upward_include_would_be_found():
    assert forbidden_includes("c10/", '#include "aten/core/tensor.h"\n') == ["aten/core/tensor.h"]
    assert forbidden_includes("aten/autograd/", '#include "aten/ops/softmax/softmax.h"\n')


def imported_roots(path: Path) -> set[str]:
    """Top-level names that a Python file imports anywhere, also inside functions."""
    roots = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            roots.add(node.module.split(".")[0])
    return roots


def test_the_generator_imports_jinja2_yaml_and_itself():
    allowed = {"codegen", "jinja2", "yaml", *sys.stdlib_module_names}
    bad = {
        str(p.relative_to(ROOT)): extra
        for p in (ROOT / "codegen").rglob("*.py")
        if (extra := imported_roots(p) - allowed)
    }
    assert not bad


def test_targets_never_import_each_other():
    folder = ROOT / "codegen" / "targets"
    names = {p.stem for p in folder.glob("*.py")} - {"__init__"}
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("codegen.targets"):
                taken = {node.module.rpartition(".")[2], *(alias.name for alias in node.names)}
                assert not taken & (names - {path.stem}), f"{path.name} imports another target"


def test_the_package_imports_nothing_heavy_at_import_time():
    """numpy and friends are imported where they are used, never at the top of a module."""
    allowed = {"flambeau", *sys.stdlib_module_names}
    for path in (ROOT / "python" / "flambeau").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                roots = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                roots = {(node.module or "").split(".")[0]}
            else:
                continue
            assert roots <= allowed, f"{path.relative_to(ROOT)} imports {roots - allowed} at import time"
