"""Modules whose names begin with an underscore, and switches, that libraries import: as in PyTorch."""

import importlib
import io
import logging
import warnings

import flambeau as fb
import pytest
from oracle import pytorch
from sides import Scenarios, raised

scenario = Scenarios()


def module(torch, name):
    return importlib.import_module(f"{torch.__name__}.{name}")


def short(logger):
    return logger.name, logger.level, logger.isEnabledFor(logging.DEBUG)


@scenario
def levels_of_loggers(torch):
    logs = module(torch, "_logging")
    names = ("torch", "torch._dynamo", "torch.autograd", "torch._inductor", "json", "mine.__graph_code")

    def levels():
        return [logging.getLogger(name).level for name in names]

    code = logs.getArtifactLogger("mine", "graph_code")
    found = []
    try:
        logs.set_logs(dynamo=logging.DEBUG, autograd=logging.INFO, graph_code=True, modules={"json": 40})
        found += [levels(), short(code), short(logs.getArtifactLogger("mine", "graph_code"))]
        found.append(short(logs.getArtifactLogger("mine", "bytecode")))
        wrong = ({"nothing": 1}, {"dynamo": "x"}, {"graph_code": 1}, {"modules": {"no.such": 10}})
        found += [raised("", logs.set_logs, **settings) for settings in wrong]
        found.append(raised("Artifact name", logs.getArtifactLogger, "m", "nothing"))
        logs.set_logs(bytecode=False)
        return [*found, levels()]
    finally:
        logs.set_logs()


@scenario
def a_warning_once(torch):
    logs, out = module(torch, "_logging"), io.StringIO()
    logger = logging.getLogger(f"{torch.__name__}_once")
    logger.addHandler(logging.StreamHandler(out))
    for number in (1, 1, 2):
        logs.warning_once(logger, "seen %s", number)
    logs.trace_structured("x", dict)
    return out.getvalue(), str(logs.LazyString("{}-{}".format, 1, 2)), logs.get_structured_logging_overhead()


@scenario
def hidden_warnings(torch):
    logs, shown = module(torch, "_logging"), []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: shown.append(str(message))
        with logs.hide_warnings(lambda message, *_: "secret" not in str(message)):
            warnings.warn("secret", stacklevel=1)
            warnings.warn("open", stacklevel=1)
        warnings.warn("secret after", stacklevel=1)
    return shown


class Decorated:
    # fmt: off
    @staticmethod
    def method(a,
  b):
        return a + b
    # fmt: on


@scenario
def source_of_functions(torch):
    sources = module(torch, "_sources")
    lines, first, file = sources.get_source_lines_and_file(Decorated.method)
    parsed = sources.parse_def(Decorated.method)
    return [
        [lines, first, file, sources.normalize_source_lines(lines)],
        [sources.normalize_source_lines(["x = 1\n", "  y\n"]), type(parsed.ast).__name__, *parsed[2:]],
        raised("mine", sources.get_source_lines_and_file, type("NoFile", (), {}), "mine"),
        raised("", sources.get_source_lines_and_file, 3),
        raised("single", sources.parse_def, Decorated),
    ]


@scenario
def groups_of_tensors(torch):
    group = module(torch, "utils._foreach_utils")._group_tensors_by_device_and_dtype
    first = [torch.ones(1), torch.ones(2, dtype=torch.float64), torch.ones(3)]
    table = [first, [None, torch.ones(1), torch.ones(2)], []]

    def plain_groups(found):
        key = lambda entry: str(entry[0][1]).rpartition(".")[2]  # noqa: E731
        return [
            [
                key(entry),
                [[t if t is None else list(t.shape) for t in row] for row in entry[1][0]],
                entry[1][1],
            ]
            for entry in sorted(found.items(), key=key)
        ]

    method = torch.optim.Optimizer._group_tensors_by_device_and_dtype
    found = [plain_groups(group(table, with_indices=indices)) for indices in (False, True)]
    return [*found, plain_groups(method(table)), raised("", group, [first, first[:1]])]


@scenario
def lists_of_operators(torch):
    lists = module(torch, "utils._foreach_utils")
    cpu, x = torch.device("cpu"), torch.ones(1)
    return [
        lists._get_foreach_kernels_supported_devices(),
        lists._get_fused_kernels_supported_devices(),
        lists._device_has_foreach_support(cpu),
        [lists._has_foreach_support([t], cpu) for t in (x, None, torch.nn.Parameter(x))],
    ]


@scenario
def reductions_by_number(torch):
    reduction, flags = module(torch, "nn._reduction"), (None, True, False)
    found = [reduction.legacy_get_string(a, b) for a in flags for b in flags]
    found += [reduction.legacy_get_enum(a, b, False) for a in flags for b in flags]
    found += [reduction.get_enum(name) for name in ("none", "mean", "sum")]
    return [*found, raised("not a valid value", reduction.get_enum, "x")]


@scenario
def parts_of_the_text_of_tensors(torch):
    text = module(torch, "_tensor_str")
    return [
        text._str_intern(torch.ones(2, requires_grad=True), tensor_contents="..."),
        text._add_suffixes("tensor([1]", ["dtype=x", "y"], 7, False),
        text._add_suffixes("tensor([1]", ["dtype=x", "y"], 7, True),
        text._add_suffixes("tensor([1]", ["n" * 30] * 5, 7, False),
    ]


@scenario
def no_graph_is_captured(torch):
    guards = module(torch, "_guards")
    contexts = guards.TracingContext, guards.CompileContext
    return [
        guards.detect_fake_mode([torch.ones(1)]),
        guards.active_fake_mode(),
        [context.try_get() for context in contexts],
        contexts[1].current_compile_id(),
        raised("must be called", contexts[0].get),
    ]


@scenario
def tensors_of_transforms(torch):
    ask = torch._C._functorch
    names = ("is_functorch_wrapped_tensor", "is_batchedtensor", "is_gradtrackingtensor", "maybe_get_level")
    names += ("maybe_get_bdim", "is_legacy_batchedtensor", "is_functionaltensor")
    seen = []

    def note(x):
        seen.append([getattr(ask, name)(x) for name in names])
        return x.sum() * 2

    note(torch.ones(2))
    torch.func.grad(note)(torch.ones(2))
    torch.func.vmap(note, in_dims=1)(torch.ones(2, 3))
    torch.func.vmap(torch.func.grad(note))(torch.ones(2, 3))
    inside = []
    torch.func.vmap(lambda x: inside.append(list(ask.get_unwrapped(x).shape)) or x)(torch.ones(2, 3))
    return seen, inside, raised("", ask.get_unwrapped, torch.ones(1))


@scenario
def small_questions(torch):
    classes = module(torch, "classes")
    return [
        torch.autograd._profiler_enabled(),
        str(module(torch, "profiler.profiler")._default_schedule_fn(1)),
        raised("does not exist", getattr, classes.mine, "Thing"),
        raised("", classes.load_library, "no_such_library.so")[0],
        module(torch, "_vmap_internals").vmap(torch.sin)(torch.zeros(2)),
        hasattr(torch.nn.MultiheadAttention(2, 1), "reset_parameters"),
        torch.nn.MultiheadAttention(2, 1)._reset_parameters(),
        [m.name for m in module(torch, "utils.mobile_optimizer").LintCode],
        list(module(torch, "utils.mobile_optimizer").MobileOptimizerType.__members__),
    ]


@scenario
def a_basis_of_the_range(torch):
    torch.manual_seed(0)
    a = torch.randn(6, 2, dtype=torch.float64) @ torch.randn(2, 5, dtype=torch.float64)
    q = module(torch, "_lowrank").get_approximate_basis(a, 3, niter=1, M=None)
    shifted = module(torch, "_lowrank").get_approximate_basis(a, 3, M=a.new_ones(6, 5))
    return [
        list(q.shape),
        (q.mT @ q - torch.eye(3)).abs().max().item() < 1e-12,
        (q @ (q.mT @ a) - a).abs().max().item() < 1e-12,
        (shifted @ (shifted.mT @ (a - 1)) - (a - 1)).abs().max().item() < 1e-12,
    ]


SETTINGS = [
    (
        {"lr": 0.1, "n": 3, "b": True, "s": "x"},
        {"loss": 0.5},
        {"lr": [0.1, 0.2], "s": ["x", "y"], "b": [True]},
    ),
    ({"a": None, "t": 2.0}, {}),
]
WRONG_SETTINGS = [
    ({"a": [1]}, {}),
    ("x", {}),
    ({}, "y"),
    ({"a": 1}, {}, {"z": [1]}),
    ({"a": 1}, {}, {"a": ["x"]}),
]


class TwoArgumentsAndMessage(Exception):
    message = "a class attribute, which is not a sign of a parameter"

    def __init__(self, first, second):
        super().__init__(first, second)


def rethrown(wrapper_class, error):
    """What a wrapper raises for an exception that another thread has raised."""
    try:
        raise error
    except Exception:
        wrapper = wrapper_class(where="in a thread")
    with pytest.raises(Exception) as found:
        wrapper.reraise()
    return found.value


@scenario
def exceptions_from_elsewhere(torch):
    wrapper = module(torch, "_utils").ExceptionWrapper
    errors = (ValueError("x"), KeyError("a\nb"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"))
    found = [rethrown(wrapper, error) for error in errors]
    return [
        [type(e).__name__, str(e).split("\n")[0], "in rethrown" in str(e), str(e).count("\n") > 2]
        for e in found
    ]


def test_a_constructor_with_other_arguments_keeps_text_and_traceback():
    error = rethrown(module(fb, "_utils").ExceptionWrapper, TwoArgumentsAndMessage(1, 2))
    assert type(error) is RuntimeError
    assert str(error).startswith("Caught TwoArgumentsAndMessage in a thread.\nOriginal Traceback")
    assert "in rethrown" in str(error)


def summaries_of(torch):
    return module(torch, "utils.tensorboard.summary")


@pytest.mark.parametrize("arguments", SETTINGS)
def test_settings_for_tensorboard(arguments):
    pytest.importorskip("tensorboard")
    ours, theirs = (summaries_of(torch).hparams(*arguments) for torch in (fb, pytorch()))
    assert [summary.SerializeToString(deterministic=True) for summary in ours] == [
        summary.SerializeToString(deterministic=True) for summary in theirs
    ]


@pytest.mark.parametrize("arguments", WRONG_SETTINGS, ids=str)
def test_wrong_settings_for_tensorboard(arguments):
    pytest.importorskip("tensorboard")
    for torch in (fb, pytorch()):
        with pytest.raises((TypeError, ValueError)) as found:
            summaries_of(torch).hparams(*arguments)
        assert isinstance(found.value, ValueError) == (arguments == WRONG_SETTINGS[0])


test_scenarios = scenario.test()
