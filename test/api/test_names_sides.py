"""Names that `python -m api` found missing: what they do, as in PyTorch."""

import copy
import importlib
import pickle
import warnings

import flambeau as fb
import pytest
from oracle import pytorch
from sides import Scenarios, raised, warned

scenario = Scenarios()
NAMED_DTYPES = (
    [f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)]
    + ["bits8", "bits16", "bits1x8", "bits2x4", "bits4x2", "bit"]
    + ["qint8", "quint8", "qint32", "quint4x2", "quint2x4"]
)


def short(value):
    return str(value).replace("flambeau.", "torch.")


# --- dtypes ------------------------------------------------------------------------------------------


@scenario
def facts_of_dtypes(torch):
    every = sorted({short(v) for v in vars(torch).values() if isinstance(v, torch.dtype)})
    found = []
    for name in every:
        dtype = getattr(torch, name[6:])
        found.append([name, dtype.abbr, dtype.itemsize, dtype.is_floating_point, dtype.is_complex])
        found.append(pickle.loads(pickle.dumps(dtype)) is dtype)
    return found


@scenario
def dtypes_that_are_only_named(torch):
    found = []
    for name in NAMED_DTYPES:
        dtype = getattr(torch, name)
        found.append([short(dtype), short(dtype.to_real()), raised("complex", dtype.to_complex)])
        found.append(raised("", lambda d=dtype: d.is_signed)[0] == "nothing" and dtype.is_signed)
        found.append([dtype == torch.int8, dtype in {dtype: 1}, isinstance(dtype, torch.dtype)])
        found.append(copy.deepcopy(dtype) is dtype)
    found.append(torch.bit is torch.uint1)
    return found


@pytest.mark.parametrize("name", NAMED_DTYPES)
def test_a_named_dtype_has_no_tensors(name):
    dtype = getattr(fb, name)
    for make in (
        lambda: fb.zeros(2, dtype=dtype),
        lambda: fb.zeros(2).to(dtype),
        lambda: fb.empty(2).view(dtype),
        lambda: fb.tensor([1], dtype=dtype),
        lambda: fb.set_default_dtype(dtype),
        lambda: fb.promote_types(dtype, fb.int8),
    ):
        with pytest.raises(NotImplementedError, match="expected a dtype with tensors"):
            make()


@scenario
def limits(torch):
    a, b, i = torch.finfo(torch.float32), torch.finfo(torch.float64), torch.iinfo(torch.int16)
    names = ["bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution", "dtype"]
    found = [all(hasattr(torch.finfo, name) for name in names)]
    found += [all(hasattr(torch.iinfo, name) for name in ("bits", "max", "min", "dtype"))]
    found += [a == torch.finfo(torch.float32), a == b, a != b, a == i, i == torch.iinfo(torch.int16)]
    found += [raised("writable", setattr, a, "bits", 3), raised("writable", setattr, i, "max", 3)]
    found += [raised("unhashable", hash, a), raised("unhashable", hash, i)]
    for name in ("qint8", "quint8", "qint32"):
        found.append([torch.iinfo(getattr(torch, name)).max, torch.iinfo(getattr(torch, name)).min])
    for name in ("int4", "uint7", "bits8"):
        found.append(raised("", torch.iinfo, getattr(torch, name))[0])
        found.append(raised("", torch.finfo, getattr(torch, name))[0])
    return found


def test_limits_are_copied_and_pickled():
    for limits in (fb.finfo(fb.float16), fb.iinfo(fb.int8)):
        assert pickle.loads(pickle.dumps(limits)) == limits == copy.deepcopy(limits)


# --- streams and events ------------------------------------------------------------------------------


@scenario
def streams(torch):
    s, e = torch.Stream(), torch.Event(enable_timing=True)
    found = [short(s), short(e), str(s.device), s.device_index, s.device_type, s.stream_id]
    found += [s.query(), s.is_capturing(), s.synchronize(), s.wait_event(e), e.query(), e.synchronize()]
    found += [e.wait(), str(e.device), e.event_id, s == torch.Stream("cpu"), s != torch.Stream("meta")]
    found += [hash(s) == hash(torch.Stream()), s == 1, torch.Stream("meta").query()]
    found.append(short(torch.Stream(stream_id=1, device_index=0, device_type=0)))
    with s as inside:
        found.append(inside is s)
    found += [raised("support events", call) for call in (s.record_event, e.record)]
    found.append(raised("support events", s.wait_stream, s))
    found.append(raised("stream native handle", lambda: s.native_handle))
    found.append(raised("enable_timing=True", e.elapsed_time, torch.Event()))
    found.append(raised("must be recorded", e.elapsed_time, torch.Event(enable_timing=True)))
    found += [raised("", call)[0] for call in (e.ipc_handle, lambda: torch.Event.from_ipc_handle("cpu", b""))]
    found += [raised("", torch.Stream, device)[0] for device in ("cuda", 0, 1.5, "nowhere")]
    found += [raised("", torch.Event, device)[0] for device in ("cuda", 0, 1.5)]
    return found


# --- checks of texts, older assertions ----------------------------------------------------------------


CHECKS = [
    ("check a", "b a"), ("check a, check b", "b a"), ("check a, check_not b", "b a"),
    ("check a, check_not b", "a b"), ("check_not c, check a", "c a"), ("check_not c, check a", "a c"),
    ("check_count a 2", "a a"), ("check_count a 2", "a a a"), ("check_count a 2 True", "a a a"),
    ("check_count a 3", "a a"), ("check_count a 0 True", "b"), ("check_count a 0 True", "a"),
    ("check x, check_count a 2 True, check b", "x a a b a"),
    ("check x, check_count a 2 True, check b", "x a a a b"), ("check_count aa 2", "aaa"),
    ("check_dag b, check_dag a", "a b"), ("check_dag b, check_dag a, check c", "a b c"),
    ("check_dag b, check_dag a, check c", "c a b"), ("check_dag b, check_not x, check_dag a", "a x b"),
    ("check_dag b, check_not x, check_dag a", "b x a"), ("check_dag a, check_dag a", "a"),
    ("check_dag b, check_not x, check_dag a", "b a x"),
    ("check a, check_next b", "a\nb"), ("check a, check_next b", "a\n\nb"), ("check a, check_next b", "a b"),
    ("check_next b", "b"), ("check_next b", "a\nb"), ("check_same b", "a\nb"),
    ("check a, check_same b", "a b"),
    ("check_regex a+b", "xaab"), ("check_regex a+b", "xac"), ("check_regex a+, check b", "aab"),
    ("check_source_highlighted foo", "x = foo\n    ~~~ <--- HERE"),
    ("check_source_highlighted foo", "foo\n~~~"),
    ("check_source_highlighted foo", "foo\n~~~ "), ("check_source_highlighted foo", "xfoo\n~~~~ "),
    ("check_source_highlighted foo", "foo\nfoo\n~~~ "), ("check_source_highlighted foo", "bar\n~~~ "),
]  # fmt: skip
FILES = [
    ("# CHECK: foo", "foo"), ("# CHECK: foo", "fo"), ("# CHECK-NOT: foo", "fo"), ("# CHECK-NOT: foo", "foo"),
    ("# CHECK-COUNT-2: foo", "foofoo"), ("# CHECK-COUNT-2: foo", "foo"),
    ("# CHECK-DAG: b\n# CHECK-DAG: a", "a b"),
    ("#CHECK: foo", "foo"), ("# CHECK:foo", "foo"), ("# CHECK:   foo", "foo"), ("abc # CHECK: foo", "foo"),
    ("# CHECK-NEXT: foo", "x\nfoo"), ("# CHECK-REGEX: fo+", "foo"),
    ("# CHECK-SOURCE-HIGHLIGHTED: foo", "foo\n~~~ "),
]  # fmt: skip


def file_check(torch, text):
    made = importlib.import_module(f"{torch.__name__}.testing").FileCheck()
    for line in text.split(", "):
        method, *arguments = line.split(" ")
        values = [{"True": True}.get(a, int(a) if a.isdigit() else a) for a in arguments]
        made = getattr(made, method)(*values)
    return made


@scenario
def checks_of_texts(torch):
    return [raised("", file_check(torch, checks).run, text)[0] for checks, text in CHECKS]


@scenario
def checks_from_comments(torch):
    testing = importlib.import_module(f"{torch.__name__}.testing")
    found = [raised("", testing.FileCheck().run, checks, text)[0] for checks, text in FILES]
    return [*found, raised("No checks", testing.FileCheck().run, "x"), torch.FileCheck is testing.FileCheck]


def test_a_graph_is_checked_as_its_text():
    graph = fb.fx.symbolic_trace(lambda x: x.relu() + 1).graph
    fb.testing.FileCheck().check("relu").check("add").check_not("mul").run(graph)
    with pytest.raises(RuntimeError, match="Expected to not find"):
        fb.testing.FileCheck().check_not("relu").run(graph)
    with pytest.raises(TypeError):
        fb.testing.FileCheck().check("relu").run(3)


@scenario
def the_older_assertion(torch):
    close, ones = torch.testing.assert_allclose, torch.ones(2)
    pairs = [(ones, ones + 1e-3), (ones, ones + 1e-5), (ones.int(), ones), ([1.0], torch.ones(1)), (1, 1.1)]
    pairs += [(1.0, 1.1), (torch.tensor([float("nan")]), torch.tensor([float("nan")]))]
    pairs += [(ones.double(), ones.double() + 1e-7), (ones.double(), ones.double() + 1e-4)]
    found = [raised("", close, *pair)[0] for pair in pairs]
    found += [raised("hey", close, ones, 2 * ones, msg="hey"), warned("deprecated", close, ones, ones)]
    return [*found, raised("", close, ones, ones, rtol=1.0)[0]]


# --- functions ---------------------------------------------------------------------------------------


@scenario
def conditions(torch):
    x, yes = torch.ones(2, dtype=torch.float64), torch.tensor(True)
    up, down = (lambda x: x + 1), (lambda x: x - 1)
    found = [torch.cond(p, up, down, (x,)) for p in (True, False, yes, ~yes, torch.tensor([True]), 1, 0.0)]
    found.append(torch.cond(True, lambda: torch.ones(1), lambda: torch.zeros(1)))
    leaf = x.clone().requires_grad_()
    torch.cond(yes, lambda a: a.sin(), down, (leaf,)).sum().backward()
    found.append(leaf.grad)
    for pred in (torch.tensor([True, False]), "a"):
        found.append(raised("", torch.cond, pred, up, down, (x,))[0])
    return found


@scenario
def rearranged(torch):
    rearrange = importlib.import_module(f"{torch.__name__}.func").rearrange
    x = torch.arange(24.0).view(2, 3, 4)
    fits = ["a b c -> (a b) c", "... c -> c ...", "a b c -> a b c 1", "a b c -> (a b c)", "a b c -> a () b c"]
    fits += ["a b c -> c b a", "a ... -> ... a", "a ... -> a (...)", "a b c->b(c a)", "a b c -> (c b) a"]
    found = [[rearrange(x, pattern), list(rearrange(x, pattern).shape)] for pattern in fits]
    found.append(rearrange(x, "a (b d) c -> a b d c", b=3))
    found.append(rearrange(x, "a b (c d) -> d (a b) c", d=2))
    found.append([rearrange([x, x], "n a b c -> n b (a c)"), rearrange(x[:, :1], "a 1 c -> a c")])
    wrong = ["a b -> b a", "a b c -> a b", "a b c -> a b d", "a b c", "a b b -> a b", "(...) -> ..."]
    wrong += ["a 3 c -> a c", "a b _c -> a b _c", "a b c- -> a", "a b (c (d e)) -> a", "a b (c -> a"]
    found += [raised("", rearrange, x, pattern)[0] for pattern in wrong]
    found.append(raised("", rearrange, x, "a b c -> c b a", d=3)[0])
    found.append(raised("", rearrange, x, "a b (c d) -> a b c d", c="q")[0])
    return found


def test_rearrange_refuses_lengths_that_do_not_divide():
    for lengths in ({"c": 3}, {"c": 2, "d": 3}, {}):
        with pytest.raises(ValueError, match="whose product is"):
            fb.func.rearrange(fb.zeros(4), "(c d) -> c d", **lengths)


@scenario
def functionalized(torch):
    func = importlib.import_module(f"{torch.__name__}.func")

    def f(a):
        b = a.clone()
        b.add_(1)
        b.view(-1).mul_(2)
        a.add_(10)
        return b

    a = torch.ones(2, 2)
    found = [func.functionalize(f)(a), a, func.functionalize(f, remove="mutations_and_views")(a)]
    return [*found, raised("remove", func.functionalize, f, remove="bad")]


@scenario
def products_with_scales(torch):
    F = torch.nn.functional
    S = F.ScalingType
    torch.manual_seed(0)
    a = (torch.arange(32.0).view(4, 8) % 7 - 3).to(torch.float8_e4m3fn)
    b = (torch.arange(48.0).view(8, 6) % 5 - 2).to(torch.float8_e4m3fn).t().contiguous().t()
    one, two = torch.tensor(1.0), torch.tensor(0.5)
    rows, columns = torch.full((4, 1), 2.0), torch.full((1, 6), 0.25)
    bias = torch.ones(6, dtype=torch.bfloat16)
    found = [F.scaled_mm(a, b, one, S.TensorWise, two, S.TensorWise, output_dtype=torch.float32)]
    found.append(F.scaled_mm(a, b, rows, S.RowWise, columns, S.RowWise, output_dtype=torch.float32))
    found.append(F.scaled_mm(a, b, one, S.TensorWise, two, S.TensorWise, bias=bias).float())
    found.append(short(F.scaled_mm(a, b, one, S.TensorWise, two, S.TensorWise).dtype))
    found.append(raised("", F.scaled_mm, a.float(), b, one, S.TensorWise, two, S.TensorWise)[0])
    found.append(raised("", F.scaled_grouped_mm, a, b, rows, S.RowWise, columns, S.RowWise)[0])
    return [*found, sorted(S.__members__), sorted(F.SwizzleType.__members__)]


@scenario
def numbers_and_their_types(torch):
    x = torch.ones(2)
    found = [short(torch.result_type(scalar=1, tensor=x)), short(torch.result_type(scalar1=1, scalar2=2.0))]
    found += [short(torch.result_type(tensor=x.int(), other=2.5)), short(torch.result_type(1, x.int()))]
    found += [raised("", torch.result_type, x, y=1)[0], raised("", torch.result_type, x)[0]]
    found += [torch.sym_sum(1, 2), torch.sym_sum([1, 2, 3]), torch.init_num_threads()]
    found.append(torch.zeros(2).map_(other=torch.ones(2), callable=lambda a, b: a - b))
    found += [x.new(storage=x.storage()), x.new(other=torch.ones(1)), list(x.new(size=(2, 3)).shape)]
    torch.set_anomaly_enabled(enabled=False)
    return found


@scenario
def laid_out_as_another(torch):
    source = torch.arange(20.0)[::2][2:5]
    base = torch.arange(10.0)
    seen = torch.slice_inverse(base, source, 0, 2, 5, 1)
    found = [seen.clone(), list(seen.stride()), seen.storage_offset()]
    seen.fill_(-1.0)
    found.append(base)
    return [
        *found,
        torch.arange(4.0).slice_inverse(torch.zeros(2, 2)),
        raised("", base.slice_inverse, torch.ones(99))[0],
    ]


@scenario
def mixed_forward_names_of_autocast(torch):
    found = []
    for kind in ("ipu", "xla"):
        get, put = getattr(torch, f"get_autocast_{kind}_dtype"), getattr(torch, f"set_autocast_{kind}_dtype")
        before = get()
        put(torch.float32)
        found += [short(before), short(get()), put(before), warned("deprecated", get)]
        enabled = getattr(torch, f"is_autocast_{kind}_enabled")
        getattr(torch, f"set_autocast_{kind}_enabled")(True)
        found.append(enabled())
        getattr(torch, f"set_autocast_{kind}_enabled")(False)
        found.append(enabled())
    return found


# --- classes -----------------------------------------------------------------------------------------


@scenario
def names_of_the_top(torch):
    found = [torch.GradScaler is torch.amp.GradScaler, torch.fork(lambda a: a + 1, 2).wait()]
    found += [torch.wait(torch.fork(lambda: 3)), torch.SUM.value, torch.AVG.value, torch.AVG.name]
    found += [torch.SUM is torch.AggregationType.SUM, torch.jit.Future is torch.futures.Future]
    for name in ("as_integer_ratio", "conjugate", "hex", "is_integer"):
        found.append(callable(getattr(torch.SymFloat, name)))
    with torch.DisableTorchFunctionSubclass(), torch.DisableTorchFunction():
        pass
    return [
        *found,
        torch.random.thread_safe_generator(),
        raised("", torch.native_norm, torch.ones(1))[0] != "nothing",
    ]


@scenario
def conversions_of_storages(torch):
    s = torch.tensor([1.0, 0.5]).storage()
    found = [s.is_hpu, raised("", s.hpu)[0], raised("", s.cuda)[0] != "nothing"]
    for name in ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"):
        converted = getattr(s, name)()
        found.append([short(converted.dtype), converted.tolist(), getattr(s.untyped(), name)().size()])
    return found


@scenario
def attention_masks(torch):
    m, q = torch.nn.MultiheadAttention(4, 2), torch.zeros(2, 3, 4)
    square, deep, padding = torch.rand(3, 3), torch.arange(36.0).view(4, 3, 3), torch.arange(6.0).view(2, 3)
    square = torch.arange(9.0).view(3, 3)
    pairs = [(a, k) for a in (None, square, deep) for k in (None, padding)]
    return [list(m.merge_masks(a, k, q)) for a, k in pairs]


@scenario
def layers(torch):
    nn = torch.nn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        box = nn.Container(a=nn.Linear(1, 2), b=nn.ReLU())
    found = [str(box), warned("deprecated", nn.Container), short(nn.Module.T_destination.__bound__)]
    found.append(nn.factory_kwargs({"device": "cpu", "dtype": None}) == {"device": "cpu", "dtype": None})
    found += [nn.factory_kwargs(None), nn.factory_kwargs({"factory_kwargs": {"device": "cpu"}})]
    for wrong in (
        {"a": 1},
        {"device": "cpu", "factory_kwargs": {"device": "cpu"}},
        {"factory_kwargs": {"b": 1}},
    ):
        found.append(raised("", nn.factory_kwargs, wrong)[0])
    table = torch.arange(6.0).view(3, 2)
    e = nn.Embedding.from_pretrained(table, False, 1, norm_type=3.0)
    bag = nn.EmbeddingBag.from_pretrained(table, mode="sum", padding_idx=0)
    found += [e.weight.requires_grad, e.padding_idx, e.norm_type, bag.weight.requires_grad, bag.mode]
    found += [
        bag(torch.tensor([[0, 1], [2, 2]])),
        raised("2-dimensional", nn.Embedding.from_pretrained, table[0]),
    ]
    F = nn.functional
    found.append(raised("x is bad", F.assert_int_or_pair, [1, 2, 3], "x", "{} is bad"))
    found += [F.assert_int_or_pair([1, 2], "x", ""), F.DType is int, F.GRID_SAMPLE_INTERPOLATION_MODES]
    found += [F.GRID_SAMPLE_PADDING_MODES, F.handle_torch_function is torch.overrides.handle_torch_function]
    chosen = F.boolean_dispatch(
        "flag", 1, False, lambda x, flag=False: x, lambda x, flag=False: -x, None, "f"
    )
    return [*found, chosen(1), chosen(1, True), chosen(1, flag=True)]


@scenario
def swapped_optimizers(torch):
    def made():
        p = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
        o = torch.optim.Adam([p], lr=0.1)
        p.grad = torch.ones_like(p)
        return p, o

    p, o = made()
    swap = torch.optim.swap_in_optimizer_params_and_state
    refused = raised(
        "requires initialized" if torch is not fb else "with state",
        swap(o, {"w": p}, o.state_dict()).__enter__,
    )
    o.step()
    q = torch.full((2,), 5.0, dtype=torch.float64, requires_grad=True)
    q.grad = torch.full_like(q, 2.0)
    state = copy.deepcopy(o.state_dict())
    state["param_groups"][0]["lr"] = 1.0
    with swap(o, {"w": q}, state):
        found = [o.param_groups[0]["params"][0] is q, o.param_groups[0]["lr"]]
        o.step()
    found += [
        q,
        p,
        o.param_groups[0]["params"][0] is p,
        o.param_groups[0]["lr"],
        state["state"],
        o.state_dict()["state"],
    ]
    calls = []
    step = torch.optim.Optimizer.profile_hook_step(lambda self: calls.append("step"))
    o.register_step_pre_hook(lambda *a: calls.append("pre"))
    step(o)
    return [*found, refused[0], refused[1] is True, calls]


@scenario
def undone_schedulers(torch):
    p = torch.nn.Parameter(torch.ones(2))
    o = torch.optim.SGD([p], lr=1.0)
    lr = torch.optim.lr_scheduler
    a, b, c = lr.ExponentialLR(o, 0.5), lr.StepLR(o, 1), lr.StepLR(o, 2)
    s = lr.SequentialLR(o, [a, lr.SequentialLR(o, [b, c], [1])], [2])
    found = [a.last_epoch, b.last_epoch, c.last_epoch]
    s.recursive_undo()
    return [*found, a.last_epoch, b.last_epoch, c.last_epoch, s.last_epoch]


@scenario
def gradient_layouts_and_nested_functions(torch):
    autograd = torch.autograd
    leaf = torch.ones(2, requires_grad=True)
    with autograd.enforce_grad_layout_policy(False):
        (leaf * 2).sum().backward()
    policy = autograd.enforce_grad_layout_policy(enable=True)
    found = [leaf.grad, type(policy.clone()).__name__]

    class Double(autograd.function.NestedIOFunction):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    Double.apply(leaf).sum().backward()
    plain = autograd.function.NestedIOFunction()
    found += [leaf.grad, raised("", plain.forward_extended, 1)[0], raised("", plain.backward_extended, 1)[0]]
    return found


test_as_in_pytorch = scenario.test()


def test_the_scenarios_have_an_oracle():
    assert pytorch().__name__ == "torch"
