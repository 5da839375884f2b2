"""Private names that public libraries import: what they do in PyTorch they do here."""

import importlib

import flambeau
import pytest
from sides import Scenarios, plain, raised

scenario = Scenarios()


def sub(torch, name):
    return importlib.import_module(f"{torch.__name__}.{name}")


@scenario
def constants(torch):
    pattern = sub(torch, "utils.data._utils.collate").np_str_obj_array_pattern
    return [
        torch.cuda._initialized,
        sub(torch, "serialization").DEFAULT_PROTOCOL,
        [bool(pattern.search(kind)) for kind in ("<U3", "|S1", "|O", "<f4", "<i8")],
        torch._C._is_tracing(),
        sub(torch, "nn.modules.utils")._reverse_repeat_tuple((1, 2, 3), 2),
    ]


@scenario
def casts(torch):
    x = torch._cast_Long(torch.tensor([1.7, -2.2]))
    return [str(x.dtype).rpartition(".")[2], x]


@scenario
def convolution_by_its_older_name(torch):
    x, w = torch.arange(8.0).reshape(1, 1, 8), torch.tensor([[[1.0, 2.0]]])
    return torch._convolution(x, w, None, [2], [0], [1], False, [0], 1, False, False, False, False)


@scenario
def maps_that_pass_none(torch):
    _vmap = sub(torch, "_vmap_internals")._vmap
    x = torch.arange(6.0).reshape(3, 2)
    none = _vmap(lambda v: (v * 2, None, v.sum()), allow_none_pass_through=True)(x)
    return [_vmap(torch.sum)(x), _vmap(lambda v, w: v * w, (0, None), 1)(x, x[0]), none[0], none[1], none[2]]


@scenario
def blocks(torch):
    fake = sub(torch, "_subclasses.fake_tensor").unset_fake_temporarily
    with fake() as mode, getattr(torch.backends, "__allow_nonbracketed_mutation")():
        return [mode, raised("NVTX" if torch is not flambeau else "CUDA", entered, torch)]


def entered(torch):
    with torch.cuda.nvtx.range("step {}", 1):
        pass


@scenario
def a_decorator_of_ranges_does_nothing_before_the_call(torch):
    @torch.cuda.nvtx.range("work")
    def work():
        return 1

    return raised("", work)


@scenario
def another_modules_weights_for_a_block(torch):
    layer = torch.nn.Linear(2, 1)
    before = layer.weight
    weights = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    with sub(torch, "nn.utils.stateless")._reparametrize_module(layer, weights):
        inside = layer(torch.tensor([[1.0, 2.0]]))
    return [inside, layer.weight is before, isinstance(layer.weight, torch.nn.Parameter)]


@scenario
def pieces_of_functional_gradients(torch):
    f = sub(torch, "autograd.functional")
    x = torch.ones(2, requires_grad=True) * 2
    basis = f._construct_standard_basis_for((torch.zeros(2), torch.zeros(1, dtype=torch.float64)), (2, 1))
    return [
        f._tuple_postprocess((1,), True), f._tuple_postprocess((1,), False),
        f._tuple_postprocess(((1,), (2,)), (True, True)), f._tuple_postprocess(((1,), (2,)), (False, True)),
        f._grad_postprocess(((x,), (x,)), False)[1][0].requires_grad,
        f._grad_postprocess((x,), True)[0].requires_grad,
        list(basis), [str(b.dtype).rpartition(".")[2] for b in basis],
    ]  # fmt: skip


@scenario
def line_searches(torch):
    lbfgs = sub(torch, "optim.lbfgs")
    seen = []

    def objective(x, t, d):
        y = (x + t * d).clone().requires_grad_()
        loss = (y**4 - 3 * y**2 + y).sum()
        loss.backward()
        seen.append(round(float(t), 6))
        return loss.item(), y.grad

    x = torch.tensor([2.0, -0.5], dtype=torch.float64)
    loss, grad = objective(x, 0.0, x * 0)
    d = -grad
    f, g, t, count = lbfgs._strong_wolfe(objective, x, 0.3, d, loss, grad, grad.dot(d))
    ends = [torch.tensor(v, dtype=torch.float64) for v in (1.0, -1.0, 2.0, 3.0)]
    cubic = lbfgs._cubic_interpolate
    return [
        f, g, t, count, seen, cubic(0.0, ends[0], ends[1], 1.0, ends[2], ends[3]),
        cubic(1.0, ends[2], ends[3], 0.0, ends[0], ends[1]),
        cubic(0.0, ends[0], ends[1], 1.0, ends[2], ends[3], bounds=(0.4, 0.5)),
        cubic(0.0, ends[0] * 0, ends[0], 1.0, ends[0], ends[0]),
    ]  # fmt: skip


@scenario
def limits_of_types_of_python(torch):
    kinds = (float, complex, int, bool, str, "float32", 3)
    return [[raised("", f, kind) for kind in kinds] for f in (torch.finfo, torch.iinfo)] + [
        torch.finfo(float).eps, torch.finfo(complex).max, torch.iinfo(int).max, torch.iinfo(int).dtype,
    ]  # fmt: skip


@scenario
def overrides_of_einsum_see_operands_one_by_one(torch):
    seen = []

    class Seen(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append([func.__name__, len(args), [type(a).__name__ for a in args]])
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2, 2).as_subclass(Seen)
    for call in (lambda: torch.einsum("ij,jk", x, x), lambda: torch.einsum("ij,jk", [x, x])):
        seen.clear()
        call()
        yield_seen = [list(entry) for entry in seen if entry[0] == "einsum"]
    return yield_seen


test_as_in_pytorch = scenario.test()


@pytest.mark.parametrize("place", ["_ops.HigherOrderOperator"])
def test_classes_that_are_not_built_can_be_bases(place):
    module, _, name = place.rpartition(".")
    kind = getattr(sub(flambeau, module), name)
    assert not isinstance(1, kind) and plain(issubclass(type("Child", (kind,), {}), kind))
    with pytest.raises(RuntimeError, match=f"{name}: flambeau has no"):
        kind()
