"""device="meta": operators give shapes, dtypes and strides of the CPU, or say that they need data."""

from __future__ import annotations

import copy
import gc
import threading
from typing import Any

import flambeau as fb
import pytest
from op_cases import calls, is_tensor, names, operators, run, tensors
from oracle import pytorch
from sides import Scenarios, raised

# Operators that read elements to find shapes, sizes of bins, or numbers for Python, or that leave the device.
READS_DATA = frozenset(
    (
        "_convert_indices_from_csr_to_coo _local_scalar_dense _sparse_coo_tensor _sparse_gather _to_sparse "
        "allclose argwhere bincount ctc_loss.Tensor equal histogram.bin_ct histogramdd "
        "histogramdd.int_bins is_nonzero item linspace.Scalar_Tensor "
        "linspace.Tensor_Scalar linspace.Tensor_Tensor logspace.Scalar_Tensor logspace.Tensor_Scalar "
        "logspace.Tensor_Tensor masked_select narrow.Tensor nonzero nonzero_numpy repeat_interleave.Tensor "
        "repeat_interleave.self_Tensor tensor_split.tensor_indices_or_sections unique_consecutive unique_dim "
        "where"
    ).split()
)
# Some calls of these do: masks, indices and offsets whose values are checked, copies to the CPU.
READS_DATA_AT_TIMES = frozenset(
    (
        "index.Tensor index_put index_put_ to.device one_hot masked_scatter embedding_renorm_ embedding_bag "
        "_max_unpool"
    ).split()
)


def on_meta(value: Any) -> Any:
    if is_tensor(value):
        return value.to("meta")
    return [on_meta(v) for v in value] if isinstance(value, list) else value


def facts(result: Any) -> list[Any]:
    """Shapes, dtypes and strides of results, and types of a value that is not a tensor."""
    if isinstance(result, list | tuple) and not isinstance(result, fb.Size):
        return [fact for part in result for fact in facts(part)]
    if not is_tensor(result):
        return [type(result).__name__]
    strides = None if result.is_sparse else result.stride()
    return [(tuple(result.shape), result.dtype, strides)]


@pytest.mark.parametrize("name", names(lambda op: bool(op.record["samples"]) and bool(op.tensor_names)))
def test_every_operator(name: str) -> None:
    op = operators()[name]
    refused = 0
    for call in calls(op):
        arguments = tensors(call.materialise(op.main_dtype()), op.main_dtype())
        real = facts(run(op, arguments))
        try:
            made = run(op, {key: on_meta(value) for key, value in arguments.items()})
        except (NotImplementedError, RuntimeError) as error:
            assert name in READS_DATA | READS_DATA_AT_TIMES, f"{name}: {error}"
            assert "meta" in str(error).lower(), error
            refused += 1
        else:
            assert facts(made) == real
    assert refused or name not in READS_DATA


# --- what has no data ------------------------------------------------------------------------------

scenario = Scenarios()


def meta(torch: Any, *sizes: int, dtype: Any = None) -> Any:
    return torch.ones(sizes, dtype=dtype, device="meta")


@scenario
def data_dependent_operators(torch: Any) -> Any:
    x, mask = meta(torch, 3), meta(torch, 3, dtype=torch.bool)
    number, ints = meta(torch), meta(torch, 3, dtype=torch.int64)
    return [
        kind[0]
        for kind in (
            raised("", x.nonzero),
            raised("", lambda: x[mask]),
            raised("", torch.argwhere, x),
            raised("", torch.masked_select, x, mask),
            raised("", torch.bincount, ints),
            raised("", torch.unique_consecutive, x),
            raised("", torch.where, x),
            raised("", torch.equal, x, x),
            raised("", x.tolist),
            raised("", x.cpu),
            raised("", x.numpy),
            raised("", bool, number),
            raised("", float, number),
            raised("", int, number),
            raised("", number.item),
            raised("", torch.allclose, x, x),
            raised("", torch.nn.functional.one_hot, ints),
            raised("", lambda: torch.narrow(x, 0, meta(torch, dtype=torch.int64), 1)),
            raised("", lambda: torch.tensor_split(x, ints)),
        )
    ]


@scenario
def item_says_why(torch: Any) -> Any:
    return [
        raised("Tensor.item() cannot be called on meta tensors", call)
        for call in (meta(torch).item, lambda: bool(meta(torch)), lambda: torch.is_nonzero(meta(torch)))
    ]


@scenario
def indexing(torch: Any) -> Any:
    x, ints = meta(torch, 3, 4), meta(torch, 2, dtype=torch.int64)
    results = [
        x[ints],
        x[:, ints],
        x[ints, ints],
        x[None, ints],
        x[[0, 1]],
        x[..., 0],
        x[ints.int()],
        x.index_put((ints,), meta(torch, 4)),
        x.take(ints),
    ]
    y = x.clone()
    y[ints] = 1.0
    return [[list(r.shape), list(r.stride()), r.device.type] for r in (*results, y)]


@scenario
def more_shapes(torch: Any) -> Any:
    F = torch.nn.functional
    ints = meta(torch, 2, 3, dtype=torch.int64)
    results = [
        torch.pdist(meta(torch, 4, 3)),
        torch.det(meta(torch, 2, 3, 3)),
        *torch.linalg.lu(meta(torch, 3, 2)),
        *torch.slogdet(meta(torch, 3, 3)),
        torch.logdet(meta(torch, 3, 3)),
        F.embedding(ints, meta(torch, 5, 4)),
    ]
    return [[list(r.shape), str(r.dtype).split(".")[1]] for r in results]


@scenario
def devices_do_not_mix(torch: Any) -> Any:
    x, y = meta(torch, 3), torch.ones(3)
    return [raised("", lambda: x @ y)[0], (x + 1).device.type, (x + torch.tensor(1.0)).device.type]


@scenario
def autograd_without_data(torch: Any) -> Any:
    x = meta(torch, 3, 4).requires_grad_()
    (x.exp() @ meta(torch, 4, 2)).sum().backward()
    return [list(x.grad.shape), x.grad.device.type, x.grad.is_meta]


# --- deferred initialisation -----------------------------------------------------------------------


def kinds(module: Any) -> list[Any]:
    return [
        [n, p.device.type, list(p.shape), p.requires_grad]
        for n, p in module.state_dict(keep_vars=True).items()
    ]


@scenario
def modules_on_meta(torch: Any) -> Any:
    nn = torch.nn
    with torch.device("meta"):
        model = nn.Sequential(
            nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Conv1d(1, 2, 3), nn.LSTM(3, 2), nn.Embedding(4, 2)
        )
        inner = torch.empty(2)
        with torch.device("cpu"):
            outer = torch.empty(2)
        explicit = torch.empty(2, device="cpu")
    after = torch.empty(2)
    return [kinds(model), *[t.device.type for t in (inner, outer, explicit, after)]]


@scenario
def device_blocks_end_on_errors(torch: Any) -> Any:
    try:
        with torch.device("meta"):
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    return torch.empty(1).device.type


@scenario
def factories_in_a_block(torch: Any) -> Any:
    with torch.device("meta"):
        made = [
            torch.zeros(2),
            torch.ones(2),
            torch.rand(2),
            torch.randn(2),
            torch.arange(3),
            torch.eye(2),
            torch.full((2,), 1),
            torch.tensor([1.0]),
            torch.linspace(0, 1, 3),
            torch.randint(3, (2,)),
            torch.randperm(3),
            torch.as_tensor([1]),
            torch.zeros_like(torch.ones(2, device="cpu")),
            torch.hann_window(4),
            torch.tril_indices(2, 2),
        ]
    return [t.device.type for t in made]


@scenario
def to_empty(torch: Any) -> Any:
    nn = torch.nn
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to("meta")
    weight = model[0].weight
    real = model.to_empty(device="cpu")
    model[0].reset_parameters()
    return [real is model, model[0].weight is weight, kinds(model), bool(model[0].weight.isfinite().all())]


@scenario
def to_empty_without_recursion(torch: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3)).to("meta")
    model.to_empty(device="cpu", recurse=False)
    return [kinds(model), raised("", model.to_empty)[0]]


@scenario
def leaving_meta_by_copies(torch: Any) -> Any:
    model = torch.nn.Linear(2, 3, device="meta")
    return [
        raised("no data", model.to, "cpu")[0],
        raised("", model.cpu)[0],
        kinds(model),
        raised("", model, torch.ones(1, 2))[0],
        list(model(torch.ones(1, 2, device="meta")).shape),
    ]


@scenario
def skip_init(torch: Any) -> Any:
    skip = torch.nn.utils.skip_init
    model = skip(torch.nn.Linear, 2, 3)
    double = skip(torch.nn.Linear, 2, 3, dtype=torch.float64)

    class NoDevice(torch.nn.Module):
        pass

    return [
        kinds(model),
        str(double.weight.dtype).split(".")[1],
        raised("device", skip, NoDevice)[0],
        raised("", skip, 3)[0],
        raised("", skip, torch.nn.ReLU)[0],
        kinds(skip(torch.nn.Linear, 2, 3, device="meta")),
    ]


@scenario
def tied_parameters(torch: Any) -> Any:
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]).to("meta")
    model[1].weight = model[0].weight
    model.to_empty(device="cpu")
    return [len(list(model.parameters())), model[0].weight is model[1].weight]


@scenario
def loading_into_meta(torch: Any) -> Any:
    real, model = torch.nn.Linear(2, 3), torch.nn.Linear(2, 3, device="meta")
    kept = model.weight
    model.load_state_dict(real.state_dict(), assign=True)
    return [model.weight is kept, model.weight.device.type, bool((model.weight == real.weight).all())]


@scenario
def copies_on_meta(torch: Any) -> Any:
    x = meta(torch, 2)
    y = copy.deepcopy(x)
    real = torch.ones(2)
    return [y.device.type, x.copy_(real).device.type, raised("no data", real.copy_, x)[0], x.add_(1) is x]


test_as_in_pytorch = scenario.test()


def test_huge_models_take_no_memory() -> None:
    before = fb._C._memory_stats()["allocated_bytes"]
    with fb.device("meta"):
        model = fb.nn.Linear(1 << 20, 1 << 20)
        out = model(fb.empty(8, 1 << 20))
    assert out.shape == (8, 1 << 20)
    assert fb._C._memory_stats()["allocated_bytes"] - before < 1 << 20
    del model, out
    gc.collect()


def test_a_block_counts_for_its_thread_alone() -> None:
    seen: list[str] = []
    with fb.device("meta"):
        thread = threading.Thread(target=lambda: seen.append(fb.empty(1).device.type))
        thread.start()
        thread.join()
    assert seen == ["cpu"]


def test_pytorch_agrees_on_huge_shapes() -> None:
    torch = pytorch()
    for fw in (fb, torch):
        assert fw.empty(1 << 30, 1 << 20, device="meta").numel() == 1 << 50
