"""The layer table of docs/architecture.md, enforced over every include and import."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
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
    "api/": (
        "api/",
        "aten/autograd/",
        "aten/core/",
        "aten/cpu/",
        "aten/dispatch/",
        "c10/",
        "torchgen_out/aten/",
        "torchgen_out/api/",
    ),
    "python/csrc/distributed/": ("python/csrc/distributed/",),
    "python/csrc/": (
        "python/csrc/",
        "api/",
        "aten/transforms/",
        "aten/autograd/",
        "aten/core/",
        "aten/dispatch/",
        "aten/cpu/",
        "c10/",
        "torchgen_out/",
    ),
}


@functools.cache
def sources():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if tracked.returncode == 0:
        return [ROOT / name for name in tracked.stdout.splitlines()]
    return [p for folder in LAYERS for p in (ROOT / folder).rglob("*")]


def forbidden_includes(layer: str, text: str) -> list[str]:
    return [name for name in INCLUDE.findall(text) if not name.startswith(LAYERS[layer])]


@functools.cache
def files_of(layer: str) -> list[Path]:
    suffixes = {".h", ".cpp", ".cu", ".cuh"}
    files = (p for p in sources() if p.suffix in suffixes)
    inner = [other for other in LAYERS if other.startswith(layer) and other != layer]
    places = ((p, str(p.relative_to(ROOT))) for p in files)
    return [p for p, place in places if place.startswith(layer) and not place.startswith(tuple(inner))]


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


# --- calls upward --------------------------------------------------------------------------------------

POINTER_ALIAS = re.compile(r"^\s*using (\w+) = [^;]*\(\*\)\([^;]*;", re.M)
UPWARD_ROW = re.compile(r"^\| `(\w+)` \| `([\w/]+\.h)` \| `([\w/]+/)` \|", re.M)


def hook_pointers(text: str) -> set[str]:
    """Names of the variables of a header that hold functions, which code elsewhere assigns."""
    kinds = POINTER_ALIAS.findall(text)
    found = set()
    for line in re.findall(r"^extern [^;{]*;", text, re.M):
        by_alias = any(re.search(rf"\b{kind}\b", line) for kind in kinds)
        if "(*" in line or by_alias or "std::function" in line:
            named = re.search(r"\(\*(\w+)\)\(", line) or re.search(r"(\w+);$", line)
            found.add(named[1])
    return found


def upward_calls() -> dict[str, tuple[str, str]]:
    rows = UPWARD_ROW.findall((ROOT / "docs" / "architecture.md").read_text())
    return {name: (header, setter) for name, header, setter in rows}


def test_calls_upward_are_those_of_the_page():
    headers = [p for p in sources() if p.suffix == ".h" and p.relative_to(ROOT).parts[0] in ("c10", "aten")]
    declared = {
        name: p.relative_to(ROOT).as_posix() for p in headers for name in hook_pointers(p.read_text())
    }
    assert declared == {name: header for name, (header, _) in upward_calls().items()}


@pytest.mark.parametrize("name", upward_calls())
def test_a_call_upward_is_set_by_the_layer_that_the_page_names(name):
    assigned = re.compile(rf"\b{name}(?:\.store\(| = )(?!nullptr)")
    owners = {
        layer
        for layer in LAYERS
        for p in files_of(layer)
        if p.suffix == ".cpp" and assigned.search(p.read_text().replace(f"extras.{name}", ""))
    }
    assert owners == {upward_calls()[name][1]}


def test_a_new_function_pointer_would_be_found():
    text = """
using Poll = void (*)();
extern std::atomic<Poll> poll;
extern thread_local int count;
extern bool (*asks)(int value);
extern std::function<void()> tells;
"""
    assert hook_pointers(text) == {"poll", "asks", "tells"}


# --- places of a dtype --------------------------------------------------------------------------------

ADR_OF_DTYPES = ROOT / "docs" / "adr" / "0003-types-of-memory-and-types-of-loops.md"


def test_the_places_of_a_dtype_are_those_of_the_page():
    """The two types that were added last stand in all places that a new type has to change."""
    page = ADR_OF_DTYPES.read_text()
    listed = set(re.findall(r"`([\w/]+\.\w+)`", "\n".join(re.findall(r"^\| `.*$", page, re.M))))
    last = re.compile(r"float8_?e8m0fnu|f8e8m0fnu|float4_?e2m1fn", re.I)
    code = (p for p in sources() if p.suffix in {".h", ".cpp", ".py"})
    code = (p for p in code if p.relative_to(ROOT).parts[0] in ("c10", "aten", "python"))
    assert {p.relative_to(ROOT).as_posix() for p in code if last.search(p.read_text())} == listed


# --- one definition on host and device ----------------------------------------------------------------


def runs_of_lines(path: Path, length: int) -> set[tuple[str, ...]]:
    lines = [line.strip() for line in path.read_text().splitlines()]
    return {tuple(lines[i : i + length]) for i in range(len(lines) - length + 1)}


def test_host_and_device_math_share_no_run_of_lines():
    """What both need stands in aten/core/special."""
    host = [p for p in files_of("aten/cpu/") if "vecmath" in p.as_posix()]
    device = [p for p in files_of("aten/cuda/") if "vecmath" in p.name]
    assert len(host) > 5 and len(device) > 1
    length = 12
    both = {run for p in host for run in runs_of_lines(p, length)} & {
        run for p in device for run in runs_of_lines(p, length)
    }
    assert both == set()


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


# Room of the generator -> the rooms that its modules may import beside their own. `load` is the one
# module between rooms: it reads both files and completes the model.
ROOMS: dict[str, tuple[str, ...]] = {
    "model": (),
    "source": ("model",),
    "language": ("model", "source"),
    "reading": ("model", "source", "language"),
    "deriving": ("model", "language"),
    "load": ("model", "source", "reading", "deriving"),
    "writing": ("model", "language", "deriving"),
    "targets": ("model", "language", "deriving", "writing"),
    "commands": ("model", "source", "language", "reading", "deriving", "load", "writing", "targets"),
    "__main__": ("source", "commands"),
}


def generator_modules() -> dict[str, Path]:
    files = sorted((ROOT / "codegen").rglob("*.py"))
    names = {p: ".".join(p.relative_to(ROOT).with_suffix("").parts) for p in files}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def imported_modules(text: str, modules: Iterable[str]) -> set[str]:
    """Modules among `modules` that a text imports anywhere, also inside functions and for types alone."""
    known, found = set(modules), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & known or {node.module}
    return found & known


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def upward_imports(module: str, text: str, modules: Iterable[str]) -> list[str]:
    """Modules that a module of the generator imports though ROOMS does not let it."""
    room = room_of(module)
    allowed = {"", room, *ROOMS.get(room, ())}
    return sorted(name for name in imported_modules(text, modules) if room_of(name) not in allowed)


def test_rooms_import_only_what_the_table_allows():
    modules = generator_modules()
    assert {room_of(name) for name in modules} == {"", *ROOMS}, "each module of codegen/ is in a room"
    bad = {
        name: names
        for name, path in modules.items()
        if (names := upward_imports(name, path.read_text(), modules))
    }
    assert not bad


def test_each_room_lies_above_those_that_it_imports():
    order = list(ROOMS)
    for room, below in ROOMS.items():
        assert all(order.index(name) < order.index(room) for name in below), room


def test_an_upward_import_would_be_found():
    text = "def f():\n    from codegen.reading import keys\n"
    assert upward_imports("codegen.targets.api", text, generator_modules()) == ["codegen.reading.keys"]


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """A circle of the graph, empty where there is none."""
    done: set[str] = set()

    def below(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if found := below(other, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := below(name, []))), [])


def test_modules_of_the_generator_import_each_other_in_one_direction():
    modules = generator_modules()
    assert not circle({n: imported_modules(p.read_text(), modules) - {n} for n, p in modules.items()})
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


def test_targets_never_import_each_other():
    modules = generator_modules()
    for name, path in modules.items():
        if name.startswith("codegen.targets."):
            imported = imported_modules(path.read_text(), modules)
            assert not [other for other in imported if other.startswith("codegen.targets")], name


def rows_of_rooms(text: str) -> dict[str, tuple[str, ...]]:
    """Room -> what it may import, of the table that a text begins with."""
    table = text.partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \| [^|]* \| ([^|]*) \|$", table, re.M)
    return {room: tuple(re.findall(r"`(\w+)`", allowed)) for room, allowed in rows}


def test_architecture_shows_the_rooms():
    """The tables of docs/architecture.md and those that are enforced are the same."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    _, generator, package = page.split("| room | holds | may import |")
    assert rows_of_rooms(package) == PACKAGE_ROOMS
    assert rows_of_rooms(generator) == {room: below for room, below in ROOMS.items() if room != "__main__"}


# Room of the package -> other rooms and public packages that its modules import at import time.
PACKAGE_ROOMS: dict[str, tuple[str, ...]] = {
    "_types": (),
    "_arguments": (),
    "_loading": (),
    "_overrides": (),
    "_state": ("_types", "utils"),
    "_object": ("_types", "_arguments", "_loading", "_overrides", "_state"),
    "_operators": ("_types", "_arguments", "_object", "utils"),
    "_surface": ("_loading", "func", "library", "ops"),
}


# Packages of flambeau that no module below them imports at import time -> those among them that they import.
UPPER: dict[str, tuple[str, ...]] = {
    "_dynamo": ("compiler",),
    "_functorch": ("compiler", "fx"),
    "_subclasses": (),
    "array_api": (),
    "compat": (),
    "compiler": ("_dynamo", "_functorch", "fx"),
    "distributed": ("fx", "optim"),
    "distributions": (),
    "fx": ("_subclasses",),
    "jit": ("fx",),
    "masked": (),
    "multiprocessing": (),
    "optim": (),
    "quasirandom": (),
    "testing": (),
}


def package_modules() -> dict[str, Path]:
    files = sorted((ROOT / "python" / "flambeau").rglob("*.py"))
    names = {p: ".".join(p.relative_to(ROOT / "python").with_suffix("").parts) for p in files}
    return {name.removesuffix(".__init__"): path for path, name in names.items()}


def at_import_time(text: str) -> str:
    """The statements that run when a module is imported, without those for type checkers."""
    kept, waiting = [], list(ast.parse(text).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            kept.append(ast.unparse(node))
        elif isinstance(node, ast.If | ast.Try | ast.With) and "TYPE_CHECKING" not in ast.unparse(node):
            waiting += [*node.body, *getattr(node, "orelse", [])]
    return "\n".join(kept)


@functools.cache
def package_imports() -> dict[str, set[str]]:
    """Module -> modules that it imports at import time; `flambeau` itself is what all of them share."""
    modules = package_modules()
    texts = {name: at_import_time(path.read_text()) for name, path in modules.items()}
    return {name: imported_modules(text, modules) - {"flambeau", name} for name, text in texts.items()}


def test_modules_of_the_package_import_each_other_in_one_direction():
    assert not circle(package_imports())


def test_nothing_below_imports_an_upper_package():
    graph = package_imports()
    assert set(UPPER) <= {room_of(name) for name in graph}
    for name, imported in graph.items():
        above = {room_of(other) for other in imported} & set(UPPER) - {room_of(name)}
        assert above <= set(UPPER.get(room_of(name), ())), name


def outside_its_rooms(module: str, imported: Iterable[str]) -> list[str]:
    """Modules among `imported` that a module of a room imports though PACKAGE_ROOMS does not let it."""
    room = room_of(module)
    allowed = {room, *PACKAGE_ROOMS.get(room, ())}
    return sorted(name for name in imported if room in PACKAGE_ROOMS and room_of(name) not in allowed)


def test_rooms_of_the_package_import_only_what_the_table_allows():
    graph = package_imports()
    bad = {name: found for name, imported in graph.items() if (found := outside_its_rooms(name, imported))}
    assert not bad
    used = {(room_of(name), room_of(other)) for name, imported in graph.items() for other in imported}
    idle = {(room, below) for room, row in PACKAGE_ROOMS.items() for below in row} - used
    assert not idle, "the table allows what no module does"


# Packages of flambeau.compiler, from the outermost; each imports those of its row. "" are its modules.
COMPILER_ROOMS = {
    "": ("capture", "symbolic", "aot", "emit", "passes", "ir"),
    "capture": ("symbolic", "aot"),
    "symbolic": ("aot", "ir"),
    "aot": ("ir",),
    "emit": ("passes", "ir"),
    "passes": ("ir",),
    "ir": (),
}
# Modules beside the packages that each of them may import: settings and messages.
COMPILER_BASE = {"_settings", "_stance", "config", "logs", "trace"}


def compiler_room(module: str) -> str:
    part = module.removeprefix("flambeau.compiler").strip(".").split(".")[0]
    return part if part in COMPILER_ROOMS or part in COMPILER_BASE else ""


def imported_in_compiler() -> set[tuple[str, str]]:
    """Pairs of packages of flambeau.compiler, of each import anywhere in a module."""
    root, found = ROOT / "python" / "flambeau" / "compiler", set()
    for path in root.rglob("*.py"):
        importer = path.relative_to(root).parts[0] if path.parent != root else ""
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "flambeau.compiler"
            ):
                continue
            modules = [
                f"{node.module}.{a.name}" if node.module == "flambeau.compiler" else node.module
                for a in node.names
            ]
            found |= {(importer, compiler_room(module)) for module in modules}
    return {(a, b) for a, b in found if a != b and b not in COMPILER_BASE}


def test_packages_of_the_compiler_import_only_what_the_table_allows():
    allowed = {(room, below) for room, row in COMPILER_ROOMS.items() for below in row}
    assert imported_in_compiler() == allowed


def test_each_room_of_the_package_lies_above_those_that_it_imports():
    order = list(PACKAGE_ROOMS)
    for room, row in PACKAGE_ROOMS.items():
        assert all(order.index(name) < order.index(room) for name in row if name in PACKAGE_ROOMS), room


def test_private_modules_of_the_package_are_in_rooms():
    """Files beside `__init__` are public; a folder with an underscore is a room or one of PyTorch's."""
    package = ROOT / "python" / "flambeau"
    private = {p.stem for p in package.glob("_*.py") if not p.stem.startswith("__")}
    folders = {p.parent.name for p in package.glob("_*/__init__.py")}
    assert private == set() and folders == {
        *PACKAGE_ROOMS,
        "_dynamo",
        "_functorch",
        "_logging",
        "_subclasses",
    }


def test_an_import_out_of_a_room_would_be_found():
    upward = outside_its_rooms("flambeau._types.size", ["flambeau._object.tensor", "flambeau._types.naming"])
    assert upward == ["flambeau._object.tensor"]


def test_imports_in_functions_and_for_types_do_not_run():
    text = (
        "if TYPE_CHECKING:\n    import a\ntry:\n    import b\nexcept E:\n    pass\ndef f():\n    import c\n"
    )
    assert at_import_time(text) == "import b"


def test_the_package_imports_nothing_heavy_at_import_time():
    """numpy and friends are imported where they are used, never at the top of a module."""
    standard = {"flambeau", *sys.stdlib_module_names}
    of_tests = ROOT / "python" / "flambeau" / "utils" / "operator_tests"  # imported by authors' tests alone
    of_sizes = ROOT / "python" / "flambeau" / "fx" / "experimental" / "_sizes"
    holds_expressions = "flambeau.fx.experimental._sizes.expressions"  # imported by functions alone
    assert not any(holds_expressions in imported for imported in package_imports().values())
    for path in (ROOT / "python" / "flambeau").rglob("*.py"):
        is_tool = path.is_relative_to(of_tests)
        assert is_tool or "operator_tests" not in path.read_text(), path
        allowed = {*standard, "numpy"} if is_tool else standard
        allowed = {*standard, "sympy"} if path.is_relative_to(of_sizes / "expressions.py") else allowed
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Import):
                roots = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                roots = {(node.module or "").split(".")[0]}
            else:
                continue
            assert roots <= allowed, f"{path.relative_to(ROOT)} imports {roots - allowed} at import time"


def test_every_family_has_its_tests():
    """A family of native_functions.yaml has a file of tests beside those that are generated."""
    text = (ROOT / "native_functions.yaml").read_text()
    families = set(re.findall(r"^  family: (\w+)$", text, re.M))
    assert len(families) > 30
    tested = {p.stem.removeprefix("test_") for p in (ROOT / "test" / "ops").glob("test_*.py")}
    assert families - tested == set()
