"""Fake tensors: the same programs in flambeau and PyTorch."""

import copy
import importlib

from sides import Scenarios, raised

scenario = Scenarios()


def fake(torch):
    module = importlib.import_module(f"{torch.__name__}._subclasses.fake_tensor")
    if torch.__name__ == "torch":
        module.FakeTensorMode.cache_clear()  # results from programs of other tests
    return module


def of(t):
    """Return the properties of a tensor other than its elements."""
    kind = str(t.dtype).rpartition(".")[2]
    return [list(t.shape), list(t.stride()), t.storage_offset(), kind, str(t.device), t.requires_grad]


def fakes(torch, *values):
    module = fake(torch)
    return all(isinstance(t, module.FakeTensor) for t in values)


@scenario
def factories_and_operators(torch):
    with fake(torch).FakeTensorMode():
        x = torch.empty(2, 3, dtype=torch.float64)
        made = [x, torch.randn(3, 3), torch.arange(5), torch.full((2,), 7), torch.eye(2), torch.zeros_like(x)]
        made += [x @ x.T, x.t(), x + 1, x.sum(0), x.max(1).values, torch.cat([x, x]), *x.split(1), x[0, 1:]]
        made += [x.to(torch.int8), x.bool(), x > 0, x[None], torch.stack([x, x]), x.mean(), x.new_empty(4)]
    return [fakes(torch, *made), [of(t) for t in made]]


@scenario
def devices_that_do_not_exist(torch):
    with fake(torch).FakeTensorMode():
        x = torch.ones(2, 3, device="cuda")
        number = torch.ones(())
        made = [x, x * 2, x.cpu(), x + number, number + x]
        made += [x.new_zeros(2), torch.empty_like(x), x.double()]
        made += [torch.nn.functional.layer_norm(x, (3,))]
        error = raised("device", lambda: x + torch.ones(2, 3))
        copied = torch.ones(2, 3).copy_(x)
        moved = torch.tensor([1, 2], device="cuda")
    return [[of(t) for t in made], error, of(copied), of(moved), made[0].is_cuda, made[2].is_cuda]


@scenario
def elements_cannot_be_read(torch):
    module = fake(torch)
    with module.FakeTensorMode():
        x = torch.ones(3)
        found = [raised("", call) for call in (
            x.sum().item, lambda: bool(x.sum() > 0), lambda: float(x[0]), x.nonzero, lambda: x[x > 0],
            lambda: torch.masked_select(x, x > 0), lambda: torch.unique(x), lambda: int(x[0]),
            lambda: x.repeat_interleave(x.long()), x.sum().tolist,
        )]  # fmt: skip
    names = [result[0] for result in found]
    kinds = [issubclass(getattr(module, name), RuntimeError) for name in sorted(set(names))]
    return [names, kinds]


@scenario
def the_exceptions_know_their_operator(torch):
    module = fake(torch)
    with module.FakeTensorMode():
        try:
            torch.ones(3).nonzero()
        except module.DynamicOutputShapeException as error:
            return str(error.func)


@scenario
def data_are_known_until_they_are_written(torch):
    with fake(torch).FakeTensorMode():
        one, many = torch.tensor(3), torch.tensor([1, 2])
        known = [one.item(), (one + 1).item(), bool(one > 2)]
        view = one.view(1)
        one.add_(1)
        after = [one.item(), (one * 2).item()]
        one.add_(torch.ones((), dtype=torch.int64))
        lost = raised("", one.item)[0]
        return [known, after, lost, fakes(torch, one, many, view), of(many), of(torch.tensor([[1.0]]))]


@scenario
def real_tensors_are_refused(torch):
    module = fake(torch)
    real = torch.ones(2)
    strict, lenient = module.FakeTensorMode(), module.FakeTensorMode(allow_non_fake_inputs=True)
    with strict:
        x = torch.ones(2)
        found = [raised("convert all Tensors", lambda: x + real), raised("convert all", lambda: real.sin())]
    found.append(raised("convert all Tensors", lambda: x + real))
    with lenient:
        y = torch.ones(2) + real
    return [found, fakes(torch, y), of(y), real.tolist()]


@scenario
def modes_do_not_mix(torch):
    module = fake(torch)
    one, other = module.FakeTensorMode(), module.FakeTensorMode()
    with one:
        x = torch.ones(2)
        with other:
            y = torch.ones(2)
            with one:
                z = torch.ones(2)
            inner = torch.ones(2)
        after = torch.ones(2)
    return [
        raised("mixing", lambda: x + y), z.fake_mode is one, inner.fake_mode is other, after.fake_mode is one,
        fakes(torch, torch.ones(1)),
    ]  # fmt: skip


@scenario
def the_mode_ends_with_an_exception(torch):
    mode = fake(torch).FakeTensorMode()
    for _ in range(2):
        try:
            with mode, mode:
                raise KeyError("own")
        except KeyError:
            pass
    return [fakes(torch, torch.ones(1)), torch.ones(1).item()]


@scenario
def views_and_writes(torch):
    mode = fake(torch).FakeTensorMode()
    with mode:
        base = torch.zeros(4, 4)
        view, part = base.t(), base[1:, 2]
        base.add_(1)
        part.mul_(2)
        again = base.view(16)
        facts = [base._version, view._version, part._version, part._is_view(), part._base is base]
        turned = torch.zeros(2, 3)
        turned.t_()
        unsqueezed = torch.zeros(2)
        unsqueezed.unsqueeze_(0)
        out = torch.empty(0)
        same = torch.add(base, 1, out=out) is out
        resized = torch.zeros(2).resize_(5)
    return [facts, of(view), of(part), of(again), of(turned), of(unsqueezed), same, of(out), of(resized)]


@scenario
def tensors_that_stand_for_real_ones(torch):
    mode = fake(torch).FakeTensorMode()
    real = torch.ones(4, 6)
    view, turned = real[1:, ::2], real.t()
    x, v, t = (mode.from_tensor(a) for a in (real, view, turned))
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.grad = torch.ones(2)
    p = mode.from_tensor(parameter)
    computed = mode.from_tensor((parameter * 2)[:1])
    x.add_(1)
    return [
        of(x), of(v), of(t), v._version, mode.from_tensor(real) is x, v._base is x,
        isinstance(p, torch.nn.Parameter), of(p), of(p.grad), p.is_leaf, of(computed), computed.is_leaf,
        real.sum().item(), of(mode.from_tensor(torch.empty(0, 3))), of(mode.from_tensor(torch.ones(()))),
        of(mode.from_tensor(torch.ones(2, dtype=torch.complex64).conj())),
        of(mode.from_tensor(torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last))),
    ]  # fmt: skip


@scenario
def modules_made_under_the_mode_train(torch):
    mode = fake(torch).FakeTensorMode()
    with mode:
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
            torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(8 * 16, 10),
        )  # fmt: skip
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(torch.randn(4, 3, 8, 8)), torch.zeros(4).long())
            loss.backward()
            optimizer.step()
    grads = [p.grad for p in net.parameters()]
    return [of(loss), [of(p) for p in net.parameters()], [of(g) for g in grads], fakes(torch, *grads)]


@scenario
def real_modules_copied(torch):
    module = fake(torch)
    mode = module.FakeTensorMode()
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    net[0].tied = net[0].weight
    with module.FakeCopyMode(mode):
        copied = copy.deepcopy(net)
    with mode:
        out = copied(torch.ones(2, 3))
    state = copied.state_dict()
    return [
        [[name, of(t)] for name, t in state.items()], fakes(torch, *state.values()), of(out),
        copied[0].tied is copied[0].weight, isinstance(copied[0].weight, torch.nn.Parameter),
        fakes(torch, *net.parameters()), net[0].weight.sum().item() != 0,
    ]  # fmt: skip


@scenario
def copies_of_fake_tensors(torch):
    mode = fake(torch).FakeTensorMode()
    with mode:
        x = torch.ones(3, 2, requires_grad=True)
        twin = copy.deepcopy(x)
        layer = copy.deepcopy(torch.nn.Linear(2, 2))
    return [of(twin), twin.is_leaf, twin is x, fakes(torch, layer.weight), of(layer.weight)]


@scenario
def what_is_printed(torch):
    with fake(torch).FakeTensorMode():
        x = torch.ones(2, 3)
        shown = [
            x,
            torch.ones(2, dtype=torch.float64),
            torch.ones(1, device="cuda"),
            torch.ones(()),
            torch.ones(0),
        ]
        shown += [torch.arange(2), torch.ones(2, requires_grad=True), torch.ones(2) > 0]
        return [repr(t).replace("flambeau", "torch") for t in shown]


@scenario
def transforms(torch):
    with fake(torch).FakeTensorMode():
        x = torch.ones(3, 4)
        found = [
            torch.func.vmap(lambda row: row.sin().sum())(x),
            torch.func.grad(lambda a: (a**2).sum())(x),
            torch.func.vmap(torch.func.grad(lambda row: (row * row).sum()))(x),
            torch.func.jacrev(lambda row: row * 2)(x[0]),
            torch.func.jvp(torch.sin, (x,), (x,))[1],
        ]
    return [[of(t) for t in found], fakes(torch, *found)]


@scenario
def second_derivatives(torch):
    with fake(torch).FakeTensorMode():
        x = torch.ones(3, requires_grad=True)
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
    return [of(first.detach()), of(second), fakes(torch, first, second)]


@scenario
def autocast_by_the_device(torch):
    with fake(torch).FakeTensorMode():
        x, y = torch.ones(2, 2), torch.ones(2, 2, device="cuda")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            one, other = x @ x, y @ y
        with torch.autocast("cuda", dtype=torch.float16):
            third = y @ y
    return [of(one), of(other), of(third)]


@scenario
def operators_of_programs(torch):
    name = "fakes_of_tests"
    library = torch.library

    @library.custom_op(f"{name}::doubled_rows", mutates_args=())
    def doubled_rows(x: torch.Tensor, n: int) -> torch.Tensor:
        return torch.cat([x] * n)

    with fake(torch).FakeTensorMode():
        x = torch.ones(2, 3, device="cuda")
        before = raised("", doubled_rows, x, 2) != "nothing"

    seen = []

    @doubled_rows.register_fake
    def _(x, n):
        seen.append(str(x.device))
        return x.new_empty(x.shape[0] * n, x.shape[1])

    @library.custom_op(f"{name}::positive", mutates_args=())
    def positive(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]

    @positive.register_fake
    def _(x):
        return x.new_empty(library.get_ctx().new_dynamic_size())

    with fake(torch).FakeTensorMode():
        y = doubled_rows(torch.ones(2, 3, device="cuda"), 2)
        error = raised("", positive, torch.ones(3))[0]
    outside = doubled_rows(y, 3)
    return [before, of(y), seen[0], of(outside), fakes(torch, y, outside), error]


@scenario
def wrong_arguments_give_the_errors_of_real_tensors(torch):
    with fake(torch).FakeTensorMode():
        x = torch.ones(2, 3)
        return [raised("", call)[0] for call in (
            lambda: x @ x, lambda: x.view(4), lambda: x + torch.ones(4), lambda: x[5], lambda: x.sum(7),
            lambda: torch.cat([x, torch.ones(2)]), lambda: x.reshape(-1, 4), lambda: x.expand(5, 3),
            lambda: torch.nn.functional.conv2d(x, x), lambda: x.long() @ x, lambda: x.squeeze(9),
        )]  # fmt: skip


@scenario
def the_mode_can_be_left(torch):
    module = fake(torch)
    guards = importlib.import_module(f"{torch.__name__}._guards")
    with module.FakeTensorMode() as mode:
        x = torch.ones(1)
        with module.unset_fake_temporarily() as left:
            real = torch.ones(1)
            inside = [left is mode, fakes(torch, real), real.item()]
        found = [
            guards.detect_fake_mode() is mode,
            guards.active_fake_mode() is mode,
            fakes(torch, torch.ones(1)),
        ]
    return [inside, found, guards.detect_fake_mode([x]) is mode, guards.detect_fake_mode([real]) is None]


@scenario
def questions(torch):
    module = fake(torch)
    mode = module.FakeTensorMode()
    x = mode.from_tensor(torch.ones(2))
    return [
        module.is_fake(x), module.is_fake(torch.ones(1)), module.maybe_get_fake_mode(x) is mode,
        module.maybe_get_fake_mode(torch.ones(1)) is None, str(x.fake_device), x.fake_mode is mode,
        importlib.import_module(f"{torch.__name__}._subclasses").FakeTensor is module.FakeTensor,
    ]  # fmt: skip


@scenario
def memory_that_is_not_there(torch):
    with fake(torch).FakeTensorMode():
        huge = torch.empty(2**40)
        return [of(huge + huge), raised("", huge.numpy) != "nothing"]


@scenario
def complex_numbers_and_negatives(torch):
    with fake(torch).FakeTensorMode():
        z = torch.ones(2, 3, dtype=torch.complex64)
        made = [z.conj(), z.conj().resolve_conj(), z.real, z.imag, z.conj().imag, z.mH, z.conj() * 2, z.abs()]
        return [[of(t) for t in made], fakes(torch, *made)]


test_as_in_pytorch = scenario.test()
