"""Docstrings of the public packages are complete, and agree with signatures and errors.

To add a package, add its name to PACKAGES. The rules are the functions `*_faults`.
"""

import ast
import builtins
import enum
import importlib
import inspect
import textwrap
from collections.abc import Iterator

import flambeau
import pytest
from build_support.docstrings import Docstring, parse, public_members
from flambeau._state.defaults import TENSOR_TYPES
from run_examples import failures, in_pytorch

PACKAGES = (
    "nn",
    "nn.attention",
    "nn.attention.bias",
    "nn.attention.flex_attention",
    "nn.functional",
    "nn.grad",
    "nn.init",
    "nn.modules.module",
    "nn.parallel",
    "nn.parameter",
    "nn.utils",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.prune",
    "nn.utils.rnn",
    "nn.utils.stateless",
)

# The first words of functions' summaries. A class's summary begins with another word: it is a noun phrase
# ("Affine map ...") or a verb in the third person ("Applies ...").
VERBS = frozenset(
    """Add Allow Apply Assign Attend Average Build Cache Call Cast Check Choose Clip Collect Combine
    Compare Compile Compute Connect Convert Copy Count Create Decorate Define Delete Describe
    Destroy Divide Draw Drop Encode Enter Evaluate Exchange Expand Extend Fill Find Flatten Free
    Fuse Gather Generate Give Infer Interpolate Invert Join Keep Leave Limit Load Look Make Mark
    Measure Move Multiply Normalize Override Pack Pad Place Pool Predict Project Prune Put Raise Read
    Rearrange Receive Record Reduce Refuse Register Release Remove Replace Replicate Report Resize
    Require Restore Return Run Sample Say Scale Scatter Select Send Set Shift Shrink Shuffle Skip Slide
    Split Square Stack Start Store Sum Switch Take Tell Test Transfer Transform Turn Undo Unpack
    Unpad Upsample Use Visit Wait Warn Wrap Write Yield Zero""".split()
)
# Of these every name that computes something has a formula.
WITH_FORMULA = ("_activation", "activation", "loss", "_loss", "margin_loss", "_margin_loss", "normalization")
# What comes from a paper, and so needs a source.
FROM_PAPERS = frozenset(
    """init.xavier_uniform_ init.xavier_normal_ init.kaiming_uniform_ init.kaiming_normal_ init.orthogonal_
    init.sparse_ init.trunc_normal_ functional.relu functional.leaky_relu functional.elu functional.selu
    functional.celu functional.rrelu functional.silu functional.mish functional.hardswish functional.glu
    functional.gumbel_softmax functional.dropout functional.alpha_dropout functional.dropout2d
    functional.batch_norm functional.instance_norm functional.layer_norm functional.rms_norm
    functional.group_norm functional.local_response_norm functional.ctc_loss functional.huber_loss
    functional.smooth_l1_loss functional.triplet_margin_loss functional.multi_head_attention_forward
    functional.fractional_max_pool2d functional.grid_sample functional.affine_grid ELU SELU CELU GELU
    SiLU Mish LeakyReLU PReLU RReLU ReLU ReLU6 Hardswish GLU Dropout Dropout1d Dropout2d Dropout3d
    AlphaDropout FeatureAlphaDropout BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm InstanceNorm1d
    InstanceNorm2d InstanceNorm3d LayerNorm GroupNorm RMSNorm LocalResponseNorm CrossMapLRN2d
    AdaptiveLogSoftmaxWithLoss MultiheadAttention Transformer TransformerEncoder TransformerDecoder
    TransformerEncoderLayer TransformerDecoderLayer RNN LSTM GRU RNNCell LSTMCell GRUCell CTCLoss
    HuberLoss SmoothL1Loss TripletMarginLoss PixelShuffle ChannelShuffle FractionalMaxPool2d
    FractionalMaxPool3d KLDivLoss""".split()
)
# PyTorch runs these only on devices other than the CPU, asks on the terminal, or needs a file.
NOT_IN_PYTORCH = (
    "nn.parallel.",
    "accelerator.",  # its examples show the errors of a build without devices
    "cuda.",
    "hub.",
    "distributed.",  # PyTorch's groups of one process need a network device
    "array_api.",
    "backends.",  # its examples show the libraries of this build
    "utils.cpp_extension.",  # its examples show the folders of this installation
    "compiler.",  # PyTorch's compiler keeps globals of the examples, which doctest clears
    "profiler.ExecutionTraceObserver",
    "utils.benchmark.FuzzedSparseTensor",  # PyTorch refuses probabilities whose sum is 1
    "utils.benchmark.ParameterAlias",
    "autograd.profiler.load_nvprof",
    "autograd.profiler.parse_nvprof_trace",
)
# Classes that hold or describe layers or programs and compute nothing, so that they have no shapes.
WITHOUT_SHAPE = frozenset(
    "Module Sequential ModuleList ModuleDict ParameterList ParameterDict ParametrizationList "
    "ScriptModule RecursiveScriptModule TopLevelTracedModule TracedModule".split()
)


BACKENDS = ("cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum")
# Packages without layers.
OTHER_PACKAGES = (
    "accelerator.memory",
    "cpu.memory",
    "distributions.utils",
    "masked.maskedtensor",
    "nn.parallel.comm",
    "quasirandom",
    "storage",
    "torch_version",
    "optim",
    "optim.lr_scheduler",
    "optim.swa_utils",
    "distributions",
    "distributions.constraints",
    "distributions.kl",
    "autograd",
    "autograd.forward_ad",
    "autograd.function",
    "autograd.functional",
    "autograd.grad_mode",
    "autograd.gradcheck",
    "autograd.graph",
    "func",
    "amp",
    "utils.data",
    "utils.checkpoint",
    "serialization",
    "random",
    "testing",
    "futures",
    "hub",
    "library",
    "overrides",
    "array_api",
    *(f"backends.{name}" for name in BACKENDS),
    "utils.backend_registration",
    "utils.benchmark",
    "utils.cpp_extension",
    "utils.deterministic",
    "utils.dlpack",
    "utils.hooks",
    "utils.tensorboard",
    "utils.flop_counter",
    "utils.module_tracker",
    "utils.weak",
    "masked",
    "signal.windows",
    "fx",
    "jit",
    "compiler",
    "functional",
    "compat",
    "accelerator",
    "cpu",
    "cuda",
    "sparse",
    "multiprocessing",
    "monitor",
    "profiler",
    "autograd.profiler",
    "autograd.profiler_util",
    "distributed",
    "distributed.algorithms",
    "distributed.algorithms.ddp_comm_hooks",
    "distributed.algorithms.ddp_comm_hooks.debugging_hooks",
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook",
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook",
    "distributed.algorithms.model_averaging.averagers",
    "distributed.algorithms.model_averaging.utils",
    "distributed.autograd",
    "distributed.checkpoint",
    "distributed.checkpoint.default_planner",
    "distributed.checkpoint.format_utils",
    "distributed.checkpoint.metadata",
    "distributed.checkpoint.planner",
    "distributed.checkpoint.state_dict",
    "distributed.checkpoint.storage",
    "distributed.device_mesh",
    "distributed.nn",
    "distributed.nn.functional",
    "distributed.optim",
    "distributed.pipelining",
    "distributed.pipelining.microbatch",
    "distributed.pipelining.schedules",
    "distributed.rpc",
    "distributed.rpc.functions",
    "distributed.simulate",
    "distributed.tensor",
    "distributed.tensor.experimental",
    "distributed.tensor.experimental._attention",
    "distributed.tensor.parallel",
)


def public_names(package: str) -> Iterator[tuple[str, object]]:
    """Yield each class and function of a package that is defined in it or in its parts."""
    module = importlib.import_module(f"flambeau.{package}")
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    for name in sorted(set(names)):
        value = getattr(module, name)
        documented = inspect.isclass(value) or inspect.isroutine(value)
        if documented and is_part(module.__name__, getattr(value, "__module__", None) or ""):
            yield f"{package}.{name}", value


def is_part(package: str, module: str) -> bool:
    """Whether a module is a package, in it, or a private module beside it."""
    parent = module.partition("._")[0]
    return module.startswith(package) or (
        "._" in module and package.rpartition(".")[0] == parent != "flambeau"
    )


DOCUMENTED = {
    f"{package}.{name}": value
    for package in PACKAGES
    for name, value in public_members(importlib.import_module(f"flambeau.{package}"))
} | {path: value for package in OTHER_PACKAGES for path, value in public_names(package)}
# Operators' docs are emitted from `doc:`; what else stands at top level is written in Python.
IN_CPP = ("Generator", "Tensor", "device", "dtype", "layout", "memory_format")
CLASSES = (*IN_CPP, *TENSOR_TYPES, "OutOfMemoryError", "Size", "UntypedStorage", "finfo", "iinfo")
TOP_LEVEL = {
    name: value
    for name in sorted(dir(flambeau))
    if not name.startswith("_")
    and (inspect.isfunction(value := getattr(flambeau, name)) or name in CLASSES)
    and not any(value is known for known in DOCUMENTED.values())
}
DOCUMENTED |= TOP_LEVEL


# The classes that programs derive from or call by their methods.
WITH_METHODS = {
    "nn.Module": flambeau.nn.Module,
    "optim.Optimizer": flambeau.optim.Optimizer,
    "optim.lr_scheduler.LRScheduler": flambeau.optim.lr_scheduler.LRScheduler,
    "utils.data.DataLoader": flambeau.utils.data.DataLoader,
    "distributions.Distribution": flambeau.distributions.Distribution,
}
METHODS = {
    f"{owner}.{name}": value
    for owner, cls in WITH_METHODS.items()
    for name, value in inspect.getmembers(cls, inspect.isfunction)
    if not name.startswith("_")
}


def found_at(path: str) -> object:
    """The object that a docstring names: `Linear`, `nn.Linear` or `nn.functional.linear`."""
    for prefix in ("", *(f"{package}." for package in (*PACKAGES, *OTHER_PACKAGES))):
        place: object = flambeau
        for name in f"{prefix}{path.removeprefix('flambeau.')}".split("."):
            place = getattr(place, name, None)
        if place is not None:
            return place
    return None


# --- rules ---------------------------------------------------------------------------------------------


def summary_faults(value: object, doc: Docstring) -> Iterator[str]:
    text = doc.summary
    if not text:
        yield "no summary"
        return
    if not text.endswith(".") or not text[0].isupper():
        yield f"the summary is not a sentence: {text!r}"
    word = text.split()[0].rstrip(",.:;")
    if inspect.isclass(value):
        if word in VERBS:
            yield f"a class is described by a noun or a verb in the third person, not {word!r}"
    elif doc.alias_of is None and word not in VERBS:
        yield f"a function is described by an imperative, not {word!r}; a new verb is added to VERBS"


def parameters(value: object) -> dict[str, inspect.Parameter] | None:
    """The parameters by the names that a docstring gives them; None where Python does not know them."""
    if inspect.isclass(value) and value.__init__ is flambeau.nn.Module.__init__:
        return {}  # which refuses all arguments
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return {}  # its members are there
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    try:
        found = dict(inspect.signature(value).parameters)  # type: ignore[arg-type]
    except ValueError:  # exceptions, and types written in C++
        return None
    found.pop("self", None)
    return {stars.get(p.kind, "") + name: p for name, p in found.items()}


def argument_faults(value: object, doc: Docstring) -> Iterator[str]:
    wanted = parameters(value)
    given = set(doc.arguments)
    if doc.as_for is not None:
        other = found_at(doc.as_for)
        if other is None:
            yield f"Args: no such name: {doc.as_for}"
            return
        theirs = parameters(other) or {}
        same = {n for n, p in (wanted or {}).items() if n in theirs and p.default == theirs[n].default}
        given |= same
    if wanted is not None:
        yield from (f"Args: {name} is missing" for name in wanted if name not in given)
        yield from (f"Args: there is no parameter {name}" for name in given if name not in wanted)
    yield from (f"Args: nothing is said of {name}" for name, text in doc.arguments.items() if not text)


def raised(function: object) -> Iterator[str]:
    """Yield the names of the exceptions that a function raises itself; "" where the name is computed."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))  # type: ignore[arg-type]
    except (TypeError, OSError, SyntaxError):  # the last: a lambda in a table of functions
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = error.attr if isinstance(error, ast.Attribute) else getattr(error, "id", "")
            yield name if hasattr(builtins, name) or name[:1].isupper() else ""


def error_faults(value: object, doc: Docstring) -> Iterator[str]:
    own = [vars(value).get(n) for n in ("__init__", "forward")] if inspect.isclass(value) else [value]
    text = doc.sections.get("Raises", "")
    for name in sorted({name for function in own if function is not None for name in raised(function)}):
        if not text or name not in text:
            yield f"Raises: {name or 'an exception'} is missing"


def section_faults(path: str, value: object, doc: Docstring) -> Iterator[str]:
    module = getattr(value, "__module__", "").rpartition(".")[2]
    name = path.rpartition(".")[2]
    is_layer = inspect.isclass(value) and issubclass(value, flambeau.nn.Module)
    if is_layer and name not in WITHOUT_SHAPE and "Shape" not in doc.sections:
        yield "no Shape"
    if not inspect.isclass(value) and not {"Returns", "Shape"} & set(doc.sections):
        yield "neither Returns nor Shape"
    if module in WITH_FORMULA and "Formula" not in doc.sections:
        yield "no Formula"
    if path.removeprefix("nn.") in FROM_PAPERS and "Source" not in doc.sections:
        yield "no Source"
    if ">>> " not in doc.sections.get("Example", ""):
        yield "no example"


def reference_faults(doc: Docstring) -> Iterator[str]:
    """Names that the documentation refers to and that do not exist."""
    for name in doc.sections.get("See also", "").replace("`", "").replace("\n", " ").split(","):
        if name.strip() and found_at(name.strip()) is None:
            yield f"See also: no such name: {name.strip()}"


def faults(path: str, value: object) -> list[str]:
    """All that is wrong with the documentation of a name."""
    doc = parse(inspect.getdoc(value))
    found = list(summary_faults(value, doc))
    if doc.alias_of is not None:
        return [*found, *(() if found_at(doc.alias_of) else (f"an alias of nothing: {doc.alias_of}",))]
    found += argument_faults(value, doc)
    found += error_faults(value, doc)
    found += section_faults(path, value, doc)
    found += reference_faults(doc)
    return found


@pytest.mark.parametrize("path", DOCUMENTED)
def test_the_docstring_is_complete(path):
    assert faults(path, DOCUMENTED[path]) == []


@pytest.mark.parametrize("path", METHODS)
def test_a_method_is_complete(path):
    doc = parse(inspect.getdoc(METHODS[path]))
    rules = (summary_faults, argument_faults, error_faults)
    found = [fault for rule in rules for fault in rule(METHODS[path], doc)]
    assert [*found, *reference_faults(doc)] == [] and "Returns" in doc.sections


# --- examples ------------------------------------------------------------------------------------------


def examples() -> dict[str, str]:
    documented = {**DOCUMENTED, **METHODS}.items()
    texts = {path: parse(inspect.getdoc(v)).sections.get("Example", "") for path, v in documented}
    return {path: text + "\n" for path, text in texts.items() if text}


def test_every_example_prints_what_it_shows():
    assert failures({"flambeau": flambeau}, examples()) == {}


def test_pytorch_prints_the_same():
    torch = pytest.importorskip("torch")
    texts = {name: text for name, text in examples().items() if not name.startswith(NOT_IN_PYTORCH)}
    shared = {name: program for name, text in texts.items() if (program := in_pytorch(text))}
    assert len(shared) > len(examples()) // 2
    assert failures({"torch": torch}, shared) == {}


# --- the rules find faults -----------------------------------------------------------------------------


def complete(scale, *, offset=0.0, **options):
    """Scale a number.

    Args:
        scale: the factor.
        offset: what is added.
        **options: no effect.
    Returns: the number.
    Raises: ValueError for a scale below 0.

    Example:
        >>> 1 + 1
        2
    """
    if scale < 0:
        raise ValueError(scale)


def test_a_complete_docstring_has_no_fault():
    assert faults("complete", complete) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("Scale a number.", "Scaled number.", "imperative"),
        ("Scale a number.", "Scale a number", "not a sentence"),
        ("Scale a number.", "", "no summary"),
        ("    scale: the factor.\n", "", "scale is missing"),
        ("scale: the", "factor: the", "no parameter factor"),
        ("offset: what is added.", "offset:", "nothing is said of offset"),
        ("**options", "*options", "no parameter \\*options"),
        ("Raises: ValueError", "Raises: TypeError", "ValueError is missing"),
        ("Returns: the number.\n", "", "neither Returns nor Shape"),
        (">>> 1 + 1", "1 + 1", "no example"),
        ("Returns: the", "See also: flambeau.relu, reluu\nReturns: the", "See also: no such name: reluu"),
    ],
)
def test_a_fault_is_found(old, new, fault):
    def changed(scale, *, offset=0.0, **options):
        if scale < 0:
            raise ValueError(scale)

    text = inspect.cleandoc(complete.__doc__)
    assert old in text
    changed.__doc__ = text.replace(old, new)
    with pytest.raises(AssertionError, match=fault):
        assert not faults("changed", changed), "\n".join(faults("changed", changed))


def test_an_alias_names_what_exists():
    def relu(*args):
        """Deprecated alias of `nn.functional.relu`."""

    assert faults("relu", relu) == []
    relu.__doc__ = "Deprecated alias of `nn.functional.rellu`."
    assert faults("relu", relu) == ["an alias of nothing: nn.functional.rellu"]


def test_arguments_of_another_name_are_compared_with_its_signature():
    def uniform(tensor, a=0.5, b=1.0, generator=None):
        """Draw numbers.

        Args: As for `nn.init.uniform_`.
        Returns: the tensor.

        Example:
            >>> 1
            1
        """

    assert faults("uniform", uniform) == ["Args: a is missing"]
    uniform.__doc__ = uniform.__doc__.replace("uniform_`.", "uniform_`, except:\n            a: the bound.")
    assert faults("uniform", uniform) == []
