"""Names of data sets, libraries of operators, scripted modules and graphs: what they do, as in PyTorch."""

import importlib
import io
import pickle

import flambeau as fb
import pytest
from flambeau._surface import absent
from oracle import pytorch
from sides import Scenarios, raised, warned

scenario = Scenarios()


def data_of(torch):
    return importlib.import_module(f"{torch.__name__}.utils.data")


# --- data --------------------------------------------------------------------------------------------


def pipes(torch):
    """A stream, one that is marked as not deterministic, and one that is so by its argument."""
    data = data_of(torch)

    class Numbers(data.IterDataPipe):
        def __iter__(self):
            return iter(range(3))

    @data.non_deterministic
    class Order(data.IterDataPipe):
        def __iter__(self):
            return iter([1])

    @data.non_deterministic(lambda shuffle=False: shuffle)
    class Chosen(data.IterDataPipe):
        def __init__(self, shuffle=False):
            pass

        def __iter__(self):
            return iter([1])

    return Numbers, Order, Chosen


@scenario
def determinism(torch):
    data = data_of(torch)
    _, order, chosen = pipes(torch)
    found = [list(order()), list(chosen()), list(chosen(shuffle=True))]
    with data.guaranteed_datapipes_determinism():
        found += [raised("non-deterministic", order), list(chosen())]
        found.append(raised("non-deterministic", chosen, shuffle=True))
    found += [list(order()), raised("", data.non_deterministic, 3)[0]]
    return [*found, raised("", data.non_deterministic, int)[0]]


@scenario
def checks_of_arguments_and_samples(torch):
    data = data_of(torch)

    class Wrapped(data.IterDataPipe):
        @data.argument_validation
        def __init__(self, source: data.IterDataPipe, count: int = 1):
            self.source, self.count = source, count

        def __iter__(self):
            return iter(self.source)

    class Odd:
        def __repr__(self):
            return "odd"

        def issubtype_of_instance(self, x):
            return x % 2 == 1

    class Checked(data.IterDataPipe):
        type = Odd()

        @data.runtime_validation
        def __iter__(self):
            yield from [1, 3, 4]

    found = [raised("Expected argument 'source'", Wrapped, 3), raised("", Wrapped)[0]]
    found.append(raised("Expected an instance as subtype", list, Checked()))
    with data.runtime_validation_disabled():
        found.append(list(Checked()))
    stream = iter(Checked())
    return [*found, [next(stream), next(stream)], raised("", next, stream)[0]]


@scenario
def fetchers(torch):
    kind = data_of(torch)._DatasetKind
    numbers, _, _ = pipes(torch)
    found = [kind.Map, kind.Iterable]
    batched = kind.create_fetcher(kind.Map, [5, 6, 7], True, sum, False)
    single = kind.create_fetcher(kind.Map, [5, 6, 7], False, str, False)
    found += [batched.fetch([0, 2]), single.fetch(1)]
    for drop_last in (False, True):
        stream = kind.create_fetcher(kind.Iterable, numbers(), True, list, drop_last)
        found += [stream.fetch([0, 1]), raised("", stream.fetch, [2, 3])[0], raised("", stream.fetch, [0])[0]]
    stream = kind.create_fetcher(kind.Iterable, numbers(), False, str, False)
    return [*found, stream.fetch(9), stream.fetch(9), stream.fetch(9), raised("", stream.fetch, 0)[0]]


@scenario
def data_sets_and_loaders(torch):
    data = data_of(torch)
    both = data.ConcatDataset([[1], [2, 3]])
    found = [data.ConcatDataset.cumsum([[1, 2], [], [3]]), both.cummulative_sizes]
    found.append(warned("cumulative_sizes", lambda: both.cummulative_sizes))
    loader = data.DataLoader([1, 2])
    found += [loader.multiprocessing_context, warned("", loader.check_worker_number_rationality)]
    found.append(raised("num_workers", setattr, loader, "multiprocessing_context", "spawn"))
    found.append(
        warned("worker", lambda: data.DataLoader([1], num_workers=5000).check_worker_number_rationality())
        != []
    )
    worker = data.DataLoader([1], num_workers=1, multiprocessing_context="spawn")
    found.append(type(worker.multiprocessing_context).__name__)
    found.append(raised("", setattr, worker, "multiprocessing_context", "nowhere")[0])
    return [*found, raised("", setattr, worker, "multiprocessing_context", 3)[0]]


class Kept(fb.utils.data.IterDataPipe):
    def __init__(self):
        self.value = 3

    def __iter__(self):
        return iter([self.value])


@scenario
def hooks_of_pickling(torch):
    data = data_of(torch)
    numbers, _, _ = pipes(torch)
    found, pipe = [], data.IterDataPipe
    try:
        pipe.set_getstate_hook(lambda x: {"changed": True})
        found += [numbers().__getstate__(), raised("getstate_hook", pipe.set_getstate_hook, lambda x: 3)]
        pipe.set_reduce_ex_hook(lambda x: (int, ()))
        found += [numbers().__reduce_ex__(2) == (int, ())]
        found.append(raised("reduce_ex_hook", pipe.set_reduce_ex_hook, lambda x: 3))
    finally:
        pipe.set_getstate_hook(None)
        pipe.set_reduce_ex_hook(None)
    return found


def test_streams_are_pickled_without_hooks():
    assert list(pickle.loads(pickle.dumps(Kept()))) == [3]


# --- operators ---------------------------------------------------------------------------------------


@scenario
def kernels(torch):
    library = importlib.import_module(f"{torch.__name__}.library")
    own = library.Library("api_kernels", "DEF")
    own.define("twice(Tensor x) -> Tensor")
    own.impl("twice", lambda x: x * 2, "CPU")
    found = [raised("no kernel for CUDA", library.get_kernel, "api_kernels::twice", "CUDA")]
    found.append(raised("does not exist", library.get_kernel, "api_kernels::nope", "CPU"))
    found.append(raised("", library.get_kernel, "api_kernels::twice", 3)[0])
    found.append(raised("global namespace", own.fallback, lambda op, *a: a, "CPU"))
    found.append(own.register_symm_mem_args("twice", ["x"]))
    own._destroy()
    return found


def test_a_kernel_is_called_by_itself():
    own = fb.library.Library("api_called", "DEF")
    own.define("twice(Tensor x) -> Tensor")
    own.impl("twice", lambda x: x * 2, "CPU")
    for op in ("api_called::twice", fb.ops.api_called.twice.default):
        for key in ("CPU", fb._C.DispatchKey.CPU):
            assert fb.library.get_kernel(op, key).call_boxed(None, fb.ones(1)).item() == 2
    added = fb.library.get_kernel("aten::add.Tensor", "CPU").call_boxed(None, fb.ones(1), fb.ones(1), alpha=3)
    assert added.item() == 4
    for name, key in (("aten::add.Nowhere", "CPU"), ("aten::nowhere", "CPU"), ("aten::add.Tensor", "CUDA")):
        with pytest.raises(RuntimeError):
            fb.library.get_kernel(name, key)
    own._destroy()


@scenario
def kernels_by_decorator(torch):
    library = importlib.import_module(f"{torch.__name__}.library")
    own = library.Library("api_decorated", "DEF")
    own.define("one(Tensor x) -> Tensor")
    own.define("two(Tensor x) -> Tensor")
    own.define("three(Tensor x) -> Tensor")
    library.impl(own, "one", "CPU")(lambda x: x + 1)
    library.impl(own, name="two", dispatch_key="CPU")(lambda x: x + 2)
    library.impl("api_decorated::three", types="cpu", lib=own)(lambda x: x + 3)
    ops, x = torch.ops.api_decorated, torch.zeros(1)
    found = [ops.one(x), ops.two(x), ops.three(x), raised("", library.impl)[0]]
    own._destroy()
    return found


def test_wrapped_kernels_of_triton_need_triton():
    with pytest.raises(ModuleNotFoundError, match="Triton"):
        fb.library.wrap_triton(lambda x: x)


@scenario
def operators_of_triton(torch):
    library = importlib.import_module(f"{torch.__name__}.library")
    tensor = torch.Tensor

    def shifted(x: tensor, by: float = 1.0) -> tensor:
        return x.sin() + by

    op = library.triton_op("api_triton::shifted", shifted, mutates_args=())
    decorated = library.triton_op("api_triton::again", mutates_args=())(shifted)
    leaf = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    found = [op(leaf), torch.ops.api_triton.again(leaf), decorated(leaf, 2.0), repr(op)]
    found.append(raised("", lambda: op(leaf).sum().backward())[0])
    op.register_autograd(lambda ctx, grad: (3 * grad, None))
    op(leaf).sum().backward()
    found.append(leaf.grad)
    found.append(library.infer_schema(shifted, mutates_args=(), tags=()))
    return found


# --- scripts and graphs ------------------------------------------------------------------------------


@scenario
def methods_from_source(torch):
    class Plain(torch.jit.ScriptModule):
        pass

    m = Plain()
    m.define(
        "def forward(self, x):\n    return self.more(x) + 1\n\ndef more(self, x):\n    return torch.relu(x)\n"
    )
    found = [m(torch.tensor([-1.0, 2.0])), m.more(torch.tensor([-3.0]))]
    found += [raised("", m.define, text)[0] for text in ("def forward(self, x:\n", "x = 3\n")]
    found.append(raised("", m.forward_magic_method, "__len__")[0])
    scripted = torch.jit.script(torch.nn.Linear(1, 1))
    scripted.define("def twofold(self, x):\n    return 2 * x\n")
    found += [scripted.twofold(torch.ones(1)), raised("", scripted.forward_magic_method, "__len__")[0]]
    listed = torch.jit.script(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.ReLU()))
    return [*found, raised("", scripted.get_debug_state)[0], listed.forward_magic_method("__len__")]


def test_methods_from_source_belong_to_one_module():
    one, other = fb.jit.script(fb.nn.Linear(1, 1)), fb.jit.script(fb.nn.Linear(1, 1))
    one.define("def twofold(self, x):\n    return 2 * x\n")
    assert hasattr(one, "twofold") and not hasattr(other, "twofold")


def test_a_scripted_module_is_saved_with_the_keyword():
    made = fb.jit.script(fb.nn.Linear(2, 1))
    files = {"notes": ""}
    loaded = fb.jit.load(io.BytesIO(made.save_to_buffer({"notes": "kept"})), _extra_files=files)
    x = fb.ones(1, 2)
    assert loaded(x).equal(made(x)) and files["notes"] in ("kept", b"kept")
    buffer = io.BytesIO()
    made.save(buffer, _extra_files={"notes": "kept"})
    assert buffer.getvalue()


@scenario
def steps_that_ask_tensors(torch):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    steps = [
        graph.create_size_node(x, 0),
        graph.create_stride_node(x, 1),
        graph.create_storage_offset_node(x),
    ]
    graph.output(tuple(steps))
    module = torch.fx.GraphModule({}, graph)
    found = [list(module(torch.zeros(4, 3)[1:])), list(module(torch.zeros(3, 2).t()))]
    return [*found, graph.materialize_symint(3), graph.materialize_symints([1, 2])]


test_as_in_pytorch = scenario.test()
PARTS = [name for name in absent.MODULES if name.startswith(("fx.", "jit.")) and absent.MODULES[name][1]]


@pytest.mark.parametrize("name", PARTS)
def test_the_names_of_parts_that_are_not_built_are_those_of_pytorch(name):
    theirs = importlib.import_module(f"{pytorch().__name__}.{name}")
    ours = importlib.import_module(f"flambeau.{name}")
    for kind, *words in absent.MODULES[name][1]:
        for word in words[:1] if kind == "enum" else words:
            public = word.partition("=")[0]
            assert isinstance(getattr(ours, public), type) == isinstance(getattr(theirs, public), type)
            if kind in ("class", "def"):
                with pytest.raises(RuntimeError, match="flambeau"):
                    getattr(ours, public)()
