"""Wrong arguments, beside PyTorch: the same exceptions, and the same results of what is accepted."""

from sides import Scenarios

scenario = Scenarios()
LARGE = 2**70


def outcome(call):
    """What a call gives: dtype, shape and elements, or the type of its exception."""
    try:
        result = call()
    except Exception as error:
        return type(error).__name__
    results = result if isinstance(result, tuple | list) else [result]
    return [[str(r.dtype).rpartition(".")[2], list(r.shape), r.tolist()] for r in results]


@scenario
def integers_beyond_64_bits(torch):
    x, whole = torch.ones(2, 2), torch.ones(2, dtype=torch.int64)
    return [
        outcome(call)
        for call in (
            lambda: torch.sum(x, LARGE),
            lambda: torch.cumsum(x, -LARGE),
            lambda: torch.narrow(x, 0, 0, LARGE),
            lambda: torch.topk(x, LARGE),
            lambda: torch.ones(LARGE),
            lambda: torch.ones([2, LARGE]),
            lambda: x.permute(0, LARGE),
            lambda: torch.flip(x, [-LARGE]),
            lambda: torch.roll(x, LARGE),
            lambda: x.add(x, alpha=LARGE),
            lambda: x + LARGE,
            lambda: whole * -LARGE,
            lambda: torch.full((2,), LARGE),
            lambda: x.clamp(LARGE),
            lambda: x[LARGE],
            lambda: torch.nn.functional.group_norm(x, LARGE),
            lambda: torch.nn.functional.elu(x, LARGE),
            lambda: torch.zeros(3).normal_(LARGE, 1).mean() > 1e21,
            lambda: torch.zeros(2).uniform_(0, LARGE).max() <= 2.0**70,
        )
    ]


@scenario
def tensors_without_dimensions(torch):
    functional, o, whole = torch.nn.functional, torch.tensor(1.0), torch.tensor(1)
    return [
        outcome(call)
        for call in (
            lambda: torch.repeat_interleave(o, 2, dim=0),
            lambda: torch.repeat_interleave(o, 2, dim=-1),
            lambda: torch.repeat_interleave(o, torch.tensor([2]), dim=0),
            lambda: torch.repeat_interleave(o, 2),
            lambda: torch.unique(o, dim=0),
            lambda: torch.unique_consecutive(o, dim=-1),
            lambda: torch.unique(o),
            lambda: torch.cross(o, o, dim=0),
            lambda: torch.cross(o, o),
            lambda: torch.linalg.cross(o, o),
            lambda: torch.slice_scatter(o, o),
            lambda: torch.dot(o, o),
            lambda: torch.vdot(o, torch.ones(2)),
            lambda: torch.dot(torch.ones(2, 2), torch.ones(2, 2)),
            lambda: torch.mv(o, o),
            lambda: torch.baddbmm(o, o, o),
            lambda: torch.baddbmm(o, torch.ones(2, 2, 2), torch.ones(2, 2)),
            lambda: torch.addbmm(o, torch.ones(2, 2), torch.ones(2, 2, 2)),
            lambda: torch.addbmm(o, torch.ones(2), torch.ones(2, 2, 2)),
            lambda: torch.diag_embed(o),
            lambda: torch.cumulative_trapezoid(o),
            lambda: torch.ormqr(torch.ones(2, 2), o, torch.ones(2, 2)),
            lambda: torch.ormqr(o, o, o),
            lambda: torch.linalg.householder_product(torch.ones(2, 2), o),
            lambda: torch.scatter(torch.ones(2, 2), 0, torch.zeros(2, 2, dtype=torch.int64), torch.ones(2)),
            lambda: functional.cross_entropy(o, whole),
            lambda: functional.cross_entropy(o, o),
        )
    ]


@scenario
def losses_and_images_without_dimensions(torch):
    functional, o, whole = torch.nn.functional, torch.tensor(1.0), torch.tensor(1)
    return [
        outcome(call)
        for call in (
            lambda: torch.addmv(o, o, o),
            lambda: functional.nll_loss(o, whole),
            lambda: functional.cross_entropy(torch.ones(3), torch.tensor([1, 1])),
            lambda: functional.grid_sample(o, o),
            lambda: functional.unfold(torch.ones(2, 2), 1),
            lambda: functional.avg_pool2d(torch.ones(2, 2), 1),
            lambda: functional.lp_pool2d(o, 2, 1),
            lambda: functional.bilinear(torch.ones(2), torch.ones(2), torch.ones(2, 2)),
            lambda: functional.interpolate(o, size=(2, 2)),
            lambda: functional.interpolate(o, scale_factor=2.0),
        )
    ]


@scenario
def elements_outside_of_the_domain(torch):
    functional, nan, one = torch.nn.functional, float("nan"), torch.ones(1)
    found = []
    for p in (1.5, -0.5, nan, float("inf"), 0.0, 1.0):
        found.append(outcome(lambda p=p: functional.binary_cross_entropy(torch.tensor([p]), one)))
    found.append(
        outcome(lambda: functional.binary_cross_entropy(torch.ones(0), torch.ones(0), reduction="sum"))
    )
    meta = torch.full((2,), 3.0, device="meta")
    found.append(str(functional.binary_cross_entropy(meta, meta).device))
    for std in (-1.0, nan, -0.0):
        found.append(outcome(lambda std=std: torch.normal(0.0, torch.tensor([std])).shape and one))
        found.append(outcome(lambda std=std: torch.normal(one, torch.tensor([std])).shape and one))
    found.append(outcome(lambda: torch.normal(one, torch.ones(1, dtype=torch.complex64))))
    return found


@scenario
def gradients_at_the_ends_of_the_domain(torch):
    found = []
    for p in (0.0, 1.0, 0.25):
        for y in (0.0, 1.0, 0.5):
            x = torch.tensor([p, 0.5], dtype=torch.float64, requires_grad=True)
            target = torch.tensor([y, 0.5], dtype=torch.float64, requires_grad=True)
            torch.nn.functional.binary_cross_entropy(x, target, reduction="sum").backward()
            found.append([float(f"{g:.6g}") for g in (*x.grad, *target.grad)])
    return found


@scenario
def probabilities_are_checked_under_transforms(torch):
    loss, one = torch.nn.functional.binary_cross_entropy, torch.ones(2)

    def of_each(p):
        return torch.func.vmap(lambda row: loss(row, one))(torch.tensor(p))

    def of_all(p):
        return torch.func.grad(lambda x: loss(x, one))(torch.tensor(p))

    wrong = outcome(lambda: torch.func.grad(lambda x: loss(x, one))(torch.tensor([2.0, 0.5])))
    return [of_each([[0.5, 1.0], [0.25, 0.5]]).tolist(), of_all([0.5, 1.0]).tolist(), wrong]


@scenario
def empty_lists_of_dimensions(torch):
    x = torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
    found = []
    for name in ("all", "any"):
        call = getattr(torch, name)
        for value in (x, x.to(torch.uint8), torch.tensor(2.0), torch.ones(0, 2)):
            for keepdim in (False, True):
                found.append(outcome(lambda v=value, k=keepdim, c=call: c(v, dim=(), keepdim=k)))
        found.append(outcome(lambda c=call: c(x, dim=(), out=torch.empty(2, 3, dtype=torch.bool))))
        found.append(outcome(lambda c=call: c(x, dim=None)))
        found.append(outcome(lambda c=call: torch.func.vmap(lambda row: c(row, dim=()))(x)))
        found.append(outcome(lambda c=call: torch.func.vmap(lambda row: c(row, dim=(0,)))(x)))
    return found


@scenario
def powers_of_two(torch):
    found = []
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.bool):
        x = torch.tensor([1, 0, 1]).to(dtype)
        for exponent in (
            torch.tensor([3, -2, 0]),
            torch.tensor([2, 1, 1], dtype=torch.uint8),
            torch.tensor(2),
        ):
            found.append(outcome(lambda x=x, e=exponent: torch.ldexp(x, e)))
    found.append(outcome(lambda: torch.ldexp(torch.tensor([2.0**-100, 2.0**100]), torch.tensor([200, -200]))))
    found.append(outcome(lambda: torch.ldexp(torch.ones(2), torch.tensor([True, False]))))
    for dtype in (torch.bool, torch.int32, torch.float16, torch.complex64):
        whole = torch.ones(2).to(dtype)
        found.append(outcome(lambda x=whole: torch.ldexp(x, torch.tensor([True, False]))))
    found.append(outcome(lambda: torch.ldexp(torch.ones(2, dtype=torch.complex64), torch.tensor([1, 2]))))
    return found


@scenario
def dtypes_of_out(torch):
    x, matrix = torch.full((2,), 0.5), torch.eye(3)
    calls = {
        "abs": lambda out: torch.abs(torch.complex(x, x), out=out),
        "hardshrink": lambda out: torch.nn.functional.hardshrink(x, out=out),
        "cat": lambda out: torch.cat([x, x], out=out),
        "stack": lambda out: torch.stack([x, x], out=out),
        "hstack": lambda out: torch.hstack([x, x], out=out),
        "column_stack": lambda out: torch.column_stack([x, x], out=out),
        "diff": lambda out: torch.diff(x, out=out),
        "norm": lambda out: torch.norm(x, out=out),
        "vector_norm": lambda out: torch.linalg.vector_norm(x, out=out),
        "matrix_norm": lambda out: torch.linalg.matrix_norm(matrix, out=out),
        "vecdot": lambda out: torch.linalg.vecdot(x, x, out=out),
        "inner": lambda out: torch.inner(x, x, out=out),
        "nan_to_num": lambda out: torch.nan_to_num(x, out=out),
        "heaviside": lambda out: torch.heaviside(x, x, out=out),
        "logcumsumexp": lambda out: torch.logcumsumexp(x, 0, out=out),
        "sin": lambda out: torch.sin(x, out=out),
    }
    dtypes = (torch.float32, torch.float64, torch.float16, torch.complex64, torch.int64, torch.bool)
    return {
        name: [outcome(lambda d=d, c=call: c(torch.empty(0, dtype=d))) for d in dtypes]
        for name, call in calls.items()
    }


@scenario
def dtypes_of_losses_of_mixed_arguments(torch):
    functional = torch.nn.functional
    x, y = torch.tensor([0.5, -1.0, 2.0]), torch.tensor([1.0, -1.0, 1.0])
    found = []
    for first in (torch.float32, torch.float16, torch.float64):
        for second in (torch.float32, torch.bfloat16, torch.float64):
            a, b = x.to(first), y.to(second)
            for name in ("soft_margin_loss", "huber_loss", "hinge_embedding_loss"):
                loss = getattr(functional, name)
                found.append(outcome(lambda f=loss, a=a, b=b: f(a, b))[0][:2])
            found.append(outcome(lambda a=a, b=b: functional.cosine_embedding_loss(a, a, b[0]))[0][:2])
    found.append(
        outcome(lambda: functional.margin_ranking_loss(x, -x, torch.tensor([1, 0, 1], dtype=torch.uint8)))
    )
    found.append(outcome(lambda: functional.margin_ranking_loss(x, -x, torch.tensor([True, False, True]))))
    stats = torch.zeros(3), torch.ones(3)
    found.append(outcome(lambda: functional.batch_norm(torch.ones(2, 3, dtype=torch.float16), *stats))[0][:2])
    mean = torch.ones(2, dtype=torch.float16)
    found.append(outcome(lambda: torch.normal(mean, torch.zeros(2))))
    found.append(outcome(lambda: torch.unravel_index(torch.tensor([3], dtype=torch.int32), (2, 2))))
    return found


@scenario
def arguments_of_another_type(torch):
    x, functional = torch.ones(1, 1, 4), torch.nn.functional
    return [
        outcome(call)
        for call in (
            lambda: torch.nn.Linear(1, 1).to(1, 2, 3, 4),
            lambda: torch.nn.Linear(1, 1).to("cpu", 2),
            lambda: torch.nn.Linear(1, 1).to("cpu", torch.float64, 3),
            lambda: torch.nn.Linear(1, 1).to(1.5).weight[0] * 0,
            lambda: torch.nonzero(x, as_tuple=1),
            lambda: torch.stft(x[0, 0], 2, return_complex=1),
            lambda: torch.istft(torch.ones(2, 3, dtype=torch.complex64), True),
            lambda: functional.interpolate(x, size=2, mode="linear", align_corners=1),
            lambda: functional.grid_sample(torch.ones(1, 1, 2, 2), torch.ones(1, 1, 1, 2), align_corners=1),
            lambda: functional.hardtanh(None),
            lambda: torch.signal.windows.hann(2.5),
            lambda: torch.einsum(3, x),
            lambda: functional.embedding_bag(torch.tensor([[0]]), torch.ones(3)),
            lambda: functional.embedding_bag(torch.tensor([[0]]), torch.ones(3, 2), mode=3),
            lambda: functional.batch_norm(x, None, torch.ones(1)),
            lambda: functional.batch_norm(x, torch.ones(1), None, training=True),
        )
    ]


test_as_in_pytorch = scenario.test()
