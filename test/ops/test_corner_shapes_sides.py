"""Operators made of others at corner cases: no elements, no dimensions, other strides, wrong arguments.

Each entry of a scenario is the result's dtype, sizes, strides and values, or the type of the exception.
"""

import flambeau
import pytest
from oracle import pytorch
from sides import Scenarios

scenario = Scenarios()


class Beside(tuple):
    """A tensor, and a result that may be a view of it."""


def seen(x):
    if isinstance(x, list | tuple):
        return [seen(part) for part in x]
    values = "meta" if x.device.type == "meta" else x.detach().resolve_conj().resolve_neg().tolist()
    return [str(x.dtype).split(".")[-1], list(x.shape), list(x.stride()), values]


def seen_beside(x, view):
    """A result, and whether it begins where `x` does."""
    same = x.device.type != "meta" and x.numel() > 0 and x.data_ptr() == view.data_ptr()
    return [*seen(view), same]


def outcomes(*calls):
    found = []
    for call in calls:
        try:
            result = call()
            found.append(seen_beside(*result) if isinstance(result, Beside) else seen(result))
        except Exception as error:
            found.append("RuntimeError" if "LinAlg" in type(error).__name__ else type(error).__name__)
    return found


def tensors(torch):
    x = (torch.arange(12.0, dtype=torch.float64) - 5).reshape(3, 4)
    return {
        "matrix": x,
        "transposed": (torch.arange(12.0, dtype=torch.float64) - 5).reshape(4, 3).t(),
        "bytes": (torch.arange(12) - 5).reshape(3, 4).to(torch.int8),
        "masks": x > 0,
        "halves": x.half(),
        "complex": torch.complex(x, x + 1),
        "empty": torch.zeros(0, 4),
        "expanded": torch.ones(1, 4).expand(3, 4),
        "meta": torch.zeros(3, 4, device="meta"),
    }


def of_each(torch, *functions):
    return [outcomes(*(lambda f=f, x=x: f(x) for f in functions)) for x in tensors(torch).values()]


@scenario
def reshape_copies_where_no_view_fits(torch):
    shapes = [(12,), (-1,), (2, 6), (4, 3), (5,), (-1, -1), (0, -1), (3, 2, 2), (1, 3, 1, 4)]
    return of_each(torch, *(lambda x, s=s: Beside((x, x.reshape(s))) for s in shapes))


@scenario
def unflatten_infers_sizes_of_its_dimension(torch):
    given = [
        (1, (2, -1)),
        (0, (-1, 1)),
        (1, (4,)),
        (-1, (1, 4)),
        (1, (3, 2)),
        (0, ()),
        (1, (-1, -1)),
        (2, (1,)),
    ]
    return of_each(torch, *(lambda x, d=d, s=s: Beside((x, x.unflatten(d, s))) for d, s in given))


@scenario
def unflatten_of_no_elements(torch):
    x = torch.zeros(0, 6)
    return outcomes(
        lambda: x.unflatten(1, (2, -1)), lambda: x.unflatten(0, (2, -1)), lambda: x.unflatten(0, (0, 5))
    )


@scenario
def movedim_keeps_the_order_of_the_others(torch):
    x = torch.arange(120).reshape(2, 3, 4, 5)
    moves = [
        ((0, 1), (2, 0)),
        ((0,), (3,)),
        ((0, 1, 2, 3), (3, 2, 1, 0)),
        ((-1,), (0,)),
        ((0, -1), (1, 2)),
        ((), ()),
        ((1, 1), (0, 2)),
        ((0, 1), (2, 2)),
        ((0, 1), (2,)),
        ((4,), (0,)),
    ]
    return outcomes(*(lambda s=s, d=d: Beside((x, x.movedim(s, d))) for s, d in moves))


@scenario
def movedim_without_dimensions(torch):
    x = torch.tensor(3.0)
    moves = [(0, -1), ((), ()), (1, 0), ((0, 0), (0, -1))]
    return outcomes(*(lambda s=s, d=d: x.movedim(s, d) for s, d in moves))


@scenario
def sum_to_size_undoes_broadcasting(torch):
    sizes = [(3, 4), (1, 4), (4,), (1, 1), (3, 1), (), (5, 4), (2, 3, 4)]
    return [
        outcomes(*(lambda x=x, s=s: x.sum_to_size(s) for s in sizes))
        for name, x in tensors(torch).items()
        if name != "masks"
    ]


@scenario
def sum_to_no_dimensions_counts_truth_values(torch):
    numbers = [torch.tensor(True), torch.tensor(3, dtype=torch.int8), torch.tensor([True, True])]
    return outcomes(*(lambda x=x: x.sum_to_size(()) for x in numbers))


@scenario
def masked_fill_takes_numbers_that_fit(torch):
    masks = {name: torch.ones(x.shape, dtype=torch.bool) for name, x in tensors(torch).items()}
    numbers = [
        0,
        2.5,
        True,
        1j,
        300,
        float("nan"),
        -1,
        torch.tensor(2),
        torch.tensor(300),
        torch.tensor([1.0]),
    ]
    return [
        outcomes(*(lambda x=x, n=n, k=name: x.masked_fill(masks[k], n) for n in numbers))
        for name, x in tensors(torch).items()
        if name != "meta"
    ]


@scenario
def masked_scatter_takes_elements_in_order(torch):
    x = torch.zeros(2, 3)
    mask = torch.tensor([[True, False, True], [False, True, True]])
    source = torch.arange(8.0).reshape(2, 4).t()
    return outcomes(
        lambda: x.masked_scatter(mask, source),
        lambda: x[:1].masked_scatter(mask, source),
        lambda: x.masked_scatter(mask, source[:1]),
        lambda: x.masked_scatter(mask, source.double()),
        lambda: x.masked_scatter(mask.int(), source),
        lambda: x.masked_scatter(torch.tensor(False), source),
    )


@scenario
def slices_are_written_into_a_copy(torch):
    def fill(x, *sizes):
        return torch.ones(sizes, dtype=x.dtype, device=x.device)

    return of_each(
        torch,
        lambda x: x.slice_scatter(fill(x, *x.shape[:1], 2), 1, 0, 2),
        lambda x: x.slice_scatter(fill(x, *x.shape[:1], 2), 1, -3, None, 2),
    ) + outcomes(
        lambda: torch.ones(3, 4).slice_scatter(torch.ones(3, 3), 1, 0, 2),
        lambda: torch.ones(3, 4).slice_scatter(torch.ones(1), 5, 0, 2),
    )


SCATTERS = {
    "slice_scatter": ((2, 3), (0, 0, 2)),
    "select_scatter": ((3,), (0, 1)),
    "diagonal_scatter": ((3,), ()),
    "as_strided_scatter": ((2, 3), ((2, 3), (1, 1))),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters_refuse_sizes_on_meta_as_on_the_cpu(name):
    fitting, args = SCATTERS[name]

    def outcome(m, device, sizes):
        try:
            return list(
                getattr(m, name)(m.ones(4, 3, device=device), m.ones(sizes, device=device), *args).shape
            )
        except Exception as error:
            return type(error).__name__, str(error).partition("\n")[0]

    for sizes in (fitting, (), (1,), (1, 3), (2, 1), (3,), (5, 3), (2, 3, 1)):
        real = outcome(flambeau, "cpu", sizes)
        assert outcome(flambeau, "meta", sizes) == real
        theirs = outcome(pytorch(), "cpu", sizes)
        assert theirs == real or theirs[0] == real[0]


@scenario
def places_of_as_strided_scatter(torch):
    x = torch.arange(6.0)
    return outcomes(
        lambda: x.as_strided_scatter(torch.ones(2, 2), (2, 2), (3, 1)),
        lambda: x.as_strided_scatter(torch.ones(2), (2,), (2,), 1),
        lambda: x.as_strided_scatter(torch.ones(3), (2,), (2,), 1),
        lambda: x.as_strided_scatter(torch.ones(2), (2,), (9,), 1),
    )


@scenario
def combinations_of_few_and_none(torch):
    x = torch.tensor([1.0, 4.0, 2.0])
    every = [lambda r=r, w=w: torch.combinations(x, r, w) for r in range(5) for w in (False, True)]
    return outcomes(
        *every,
        lambda: torch.combinations(x[:0]),
        lambda: torch.combinations(x.half(), 3, True),
        lambda: torch.combinations(x.reshape(1, 3)),
        lambda: torch.combinations(x, -1),
    )


@scenario
def resize_keeps_elements(torch):
    x = torch.arange(6.0).reshape(2, 3)
    calls = [
        lambda: x.clone().resize_(6),
        lambda: x.clone().resize_(2, 3),
        lambda: x.t().clone(memory_format=torch.preserve_format).resize_(3, 2),
        lambda: x.clone().resize_(0),
        lambda: x.clone().resize_(-1),
        lambda: x.clone().resize_(1, 3, 2, 1, memory_format=torch.channels_last),
        lambda: x.clone().resize_(3, 2, memory_format=torch.channels_last),
        lambda: torch.zeros(2, device="meta").resize_(5, 2),
        lambda: x.clone().requires_grad_().resize_(3),
        lambda: (x.clone().requires_grad_() * 2).resize_(3),
    ]
    return outcomes(*calls)


@scenario
def renorm_scales_what_is_too_long(torch):
    orders = [2, 1, float("inf"), 0.5, 0, -1, 1j]
    return [
        outcomes(
            *(
                lambda x=x, p=p, m=m, d=d: x.renorm(p, d, m)
                for p in orders
                for m in (0.0, 3, -1)
                for d in (0, 5)
            )
        )
        for x in [
            torch.tensor([[3.0, 4.0], [0.3, 0.4]], dtype=torch.float64),
            torch.ones(2),
            torch.ones(2, 2).int(),
        ]
    ]


@scenario
def diff_joins_neighbours(torch):
    x = torch.tensor([[1, 4, 2, 8], [3, 3, 5, 0]])
    options = [
        {},
        {"n": 2},
        {"n": 0},
        {"n": 9},
        {"n": -1},
        {"dim": 0},
        {"dim": 2},
        {"prepend": x[:, :1]},
        {"append": x, "n": 3},
        {"prepend": x[0]},
        {"prepend": x[:1]},
        {"prepend": x[:1], "append": x, "dim": 0},
    ]
    dtypes = [torch.int64, torch.bool, torch.float16, torch.complex64]
    return [
        outcomes(
            *(
                lambda o=o, t=t: torch.diff(
                    x.to(t), **{k: v.to(t) if isinstance(v, torch.Tensor) else v for k, v in o.items()}
                )
                for o in options
            )
        )
        for t in dtypes
    ]


@scenario
def trapezoids_at_places(torch):
    y = torch.tensor([[1.0, 4.0, 2.0], [3.0, 3.0, 5.0]], dtype=torch.float64)
    places = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    return outcomes(
        lambda: torch.trapezoid(y, places),
        lambda: torch.trapezoid(y, places[:2], dim=0),
        lambda: torch.trapezoid(y, places[:2]),
        lambda: torch.trapezoid(y, y),
        lambda: torch.trapezoid(y, y[:1]),
        lambda: torch.trapezoid(y[:, :0], places[:0]),
        lambda: torch.trapezoid(y, places, dim=4),
        lambda: torch.cumulative_trapezoid(y.unsqueeze(0), y, dim=1),
    )


@scenario
def tensor_split_at_places_in_a_tensor(torch):
    x = torch.arange(12).reshape(4, 3)
    places = torch.tensor([1, 7, 3, 0])
    given = [places[::2], places[:0], places[2], places[3], places[:1].int(), places.reshape(2, 2)]
    return outcomes(*(lambda p=p: x.tensor_split(p) for p in given), lambda: x.tensor_split(places[:1], 2))


@scenario
def repeat_interleave_by_counts(torch):
    x = torch.arange(6.0).reshape(3, 2)
    counts = torch.tensor([2, 0, 1])
    return outcomes(
        lambda: x.repeat_interleave(counts, 0),
        lambda: x.repeat_interleave(counts, -2, output_size=3),
        lambda: x.repeat_interleave(counts[:1], 1),
        lambda: x.repeat_interleave(counts[0]),
        lambda: x.repeat_interleave(counts, 1),
        lambda: x.repeat_interleave(counts.reshape(1, 3), 0),
        lambda: x.repeat_interleave(-counts, 0),
        lambda: x[:0].repeat_interleave(counts[:0], 0),
        lambda: torch.tensor(5).repeat_interleave(torch.tensor(3)),
    )


@scenario
def isin_few_and_many(torch):
    x = torch.arange(6).reshape(2, 3)
    return outcomes(
        lambda: torch.isin(x, torch.tensor([1, 5])),
        lambda: torch.isin(x, torch.tensor([], dtype=torch.int64), invert=True),
        lambda: torch.isin(x, torch.arange(3, 20)),
        lambda: torch.isin(x, torch.arange(3, 20), invert=True),
        lambda: torch.isin(x.t(), torch.tensor(4)),
        lambda: torch.isin(x[:0], torch.tensor([1])),
        lambda: torch.isin(x > 2, torch.tensor([True])),
        lambda: torch.isin(x.float(), torch.tensor([1j])),
    )


@scenario
def covariance_with_weights(torch):
    x = torch.tensor([[1.0, 2.0, 4.0], [3.0, 1.0, 0.0]], dtype=torch.float64)
    counts = torch.tensor([1, 2, 1])
    weights = torch.tensor([0.5, 1.0, 0.25], dtype=torch.float64)
    options = [
        {"fweights": counts},
        {"aweights": weights},
        {"fweights": counts, "aweights": weights},
        {"fweights": counts, "aweights": weights, "correction": 0},
        {"aweights": weights, "correction": 5},
        {"fweights": weights},
        {"aweights": counts},
        {"fweights": -counts},
        {"aweights": -weights},
        {"fweights": counts[:2]},
        {"fweights": counts.reshape(1, 3)},
        {"fweights": 0 * counts},
    ]
    rows = outcomes(*(lambda o=o: x.cov(**o) for o in options))
    return [rows, outcomes(lambda: x[0].cov(), lambda: x.reshape(1, 2, 3).cov(), lambda: (x > 1).cov())]


@scenario
def nonzero_static_fills_up(torch):
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    return outcomes(
        lambda: torch.nonzero_static(x, size=3),
        lambda: torch.nonzero_static(x, size=1, fill_value=5),
        lambda: torch.nonzero_static(x, size=0),
        lambda: torch.nonzero_static(x[0, 1], size=2),
        lambda: torch.nonzero_static(x, size=-1),
    )


test_as_in_pytorch = scenario.test()


def test_tensor_split_reads_the_elements_of_a_negative_view():
    x = flambeau.arange(4)
    pieces = x.tensor_split(flambeau._neg_view(flambeau.tensor([-1, -3])))
    assert [piece.tolist() for piece in pieces] == [[0], [1, 2], [3]]


def test_masked_fill_refuses_numbers_that_do_not_fit_on_meta_tensors():
    x = flambeau.zeros(2, device="meta")
    with pytest.raises(RuntimeError, match="without overflow"):
        x.masked_fill(x == 0, 1j)


@pytest.mark.parametrize("size", [6, 2, 0])
def test_batched_tensors_keep_their_size(size):
    with pytest.raises(RuntimeError, match="expected a batched tensor to keep its memory and sizes"):
        flambeau.vmap(lambda row: row.resize_(size))(flambeau.zeros(2, 3))
    assert flambeau.vmap(lambda row: row.resize_(3))(flambeau.ones(2, 3)).tolist() == [[1.0] * 3] * 2


def test_quantile_under_vmap_takes_one_q_per_entry():
    x = flambeau.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
    found = flambeau.vmap(lambda row, q: flambeau.quantile(row, q))(x, flambeau.tensor([0.5, 1.0]))
    assert found.tolist() == [2.0, 7.0]


def test_resize_leaves_the_version_where_nothing_changes():
    x = flambeau.zeros(2, 3)
    versions = [x.resize_(*size)._version for size in ((2, 3), (6,), (6,), (9,))]
    assert versions == [0, 1, 1, 2]
