"""Linear algebra that is made of other operators: sizes, dtypes, errors and gradients as in PyTorch."""

import itertools

from sides import Scenarios, raised

scenario = Scenarios()


def outcome(call):
    """Rounded values, shape and dtype of what the call returns, or the type of what it raises."""
    try:
        result = call()
    except Exception as error:
        return type(error).__name__
    parts = result if isinstance(result, tuple | list) else [result]
    return [_plain(part) for part in parts]


def _plain(tensor):
    values = tensor.detach().resolve_conj()
    rows = (values.abs() if values.is_complex() else values).double().flatten().tolist()
    kind = str(values.dtype).rpartition(".")[2]
    return list(values.shape), kind, [round(x, 4) if x == x else "nan" for x in rows]


def filled(torch, *shape, dtype=None, seed=0):
    """Numbers that follow from the places, so that both frameworks have the same ones."""
    count = 1
    for n in shape:
        count *= n
    values = [((i * 37 + seed * 11) % 19 - 9) / 4 for i in range(count)]
    out = torch.tensor(values, dtype=torch.float64).reshape(shape)
    dtype = dtype or torch.float64
    return torch.complex(out, out.flip(-1)).to(dtype) if dtype.is_complex else out.to(dtype)


@scenario
def chains_of_products(torch):
    chain = torch.linalg.multi_dot
    sizes = [(3, 2), (3, 2, 5), (3, 2, 5, 1), (10, 2, 9, 3, 8, 1, 7), (2, 0, 3), (0, 2, 3), (7, 1, 7, 1, 7)]
    out = []
    for shape in sizes:
        parts = [filled(torch, a, b, seed=i) for i, (a, b) in enumerate(itertools.pairwise(shape))]
        out.append(outcome(lambda p=parts: chain(p)))
        out.append(outcome(lambda p=parts: torch.chain_matmul(*p)))
        out.append(outcome(lambda p=parts: chain([p[0][0], *p[1:]])) if shape[0] else None)
        out.append(outcome(lambda p=parts: chain([*p[:-1], p[-1][:, 0]])))
    vector = filled(torch, 3)
    out.append(outcome(lambda: chain([vector, vector])))
    out.append(outcome(lambda: chain([vector, filled(torch, 3, 3), vector])))
    return out


@scenario
def chains_that_do_not_fit(torch):
    chain, m, v = torch.linalg.multi_dot, filled(torch, 2, 3), filled(torch, 3)
    lists = [
        [],
        [m],
        [m, m],
        [m, v, m.T],
        [m, m.T.float()],
        [m[None], m.T],
        [v, v, v],
        [torch.tensor(1.0), m],
    ]
    return [raised("", chain, given)[0] for given in lists]


@scenario
def gradients_of_chains(torch):
    parts = [
        filled(torch, a, b, seed=i).requires_grad_() for i, (a, b) in enumerate([(2, 3), (3, 4), (4, 1)])
    ]
    product = torch.linalg.multi_dot(parts)
    return [_plain(g) for g in torch.autograd.grad(product.square().sum(), parts)]


@scenario
def norms_of_matrices(torch):
    norm, out = torch.linalg.matrix_norm, []
    tensors = [
        filled(torch, 3, 4), filled(torch, 2, 3, 3, dtype=torch.complex128),
        filled(torch, 2, 3, dtype=torch.float32), filled(torch, 0, 3), filled(torch, 3, 0),
        filled(torch, 0, 2, 3), filled(torch, 2, 3, dtype=torch.float16),
        torch.tensor([[1.0, float("nan")], [2.0, 3.0]]), torch.tensor([[1.0, float("inf")], [2.0, 3.0]]),
    ]  # fmt: skip
    for x, order, keep in itertools.product(
        tensors, (1, -1, float("inf"), -float("inf"), "fro"), (False, True)
    ):
        out.append(outcome(lambda x=x, o=order, k=keep: norm(x, o, keepdim=k)))
    for x, order in itertools.product(tensors[:6], (2, -2, "nuc")):
        out.append(outcome(lambda x=x, o=order: norm(x, o)))
        out.append(outcome(lambda x=x, o=order: norm(x, o, dim=(0, -1), keepdim=True)))
    return out


@scenario
def norms_that_are_refused(torch):
    norm, x = torch.linalg.matrix_norm, filled(torch, 3, 3)
    calls = [
        (x[0], "fro"), (x.long(), 2), (x, 3), (x, "two"), (x, 0), (x, 2, (0, 0)), (x, 2, (0, 5)),
        (x, 2, (0,)),
        (x, "nuc", (1, 1)), (x.half(), "nuc"),
    ]  # fmt: skip
    return [raised("", norm, *given)[0] for given in calls]


@scenario
def powers_of_matrices(torch):
    power, out = torch.linalg.matrix_power, []
    for x in (filled(torch, 3, 3), filled(torch, 2, 2, 2, dtype=torch.complex128), filled(torch, 0, 3, 3)):
        out += [outcome(lambda x=x, n=n: power(x, n)) for n in (0, 1, 2, 3, 7, 10, -1, -3)]
    x = filled(torch, 3, 3)
    same = power(x, 1)
    same.zero_()  # a copy: x stays
    out += [x.abs().sum().item() > 0, outcome(lambda: power(x[:2], 2)), outcome(lambda: power(x[0], 2))]
    return [*out, raised("singular", power, torch.zeros(2, 2), -1)[1]]


@scenario
def least_squares(torch):
    solve, out = torch.linalg.lstsq, []
    shapes = [((4, 2), (4, 3)), ((4, 2), (4,)), ((2, 4), (2, 1)), ((2, 4, 2), (2, 4)), ((0, 4, 2), (0, 4, 1)),
              ((3, 4, 2), (1, 4, 2)), ((4, 2), (3, 1)), ((4,), (4, 1))]  # fmt: skip
    for (left, right), driver in itertools.product(shapes, ("gels", "gelsd", "gelss", "gelsy", "other")):
        a, b = filled(torch, *left), filled(torch, *right, seed=1)

        def call(a=a, b=b, driver=driver):
            found = solve(a, b, driver=driver)
            return found.solution, found.residuals

        out.append(outcome(call))
    a = filled(torch, 4, 2)
    for x, y in ((a, a.float()), (a.long(), a.long()), (a.half(), a.half()), (a, torch.tensor(1.0))):
        out.append(outcome(lambda x=x, y=y: solve(x, y)))
    return out


def _gradients_or_error(torch, function, shape, dtype):
    x = filled(torch, *shape, dtype=dtype).requires_grad_()
    return outcome(lambda: torch.autograd.grad(function(x), x)[0])


@scenario
def gradients_of_factorizations(torch):
    """Of functions that do not depend on the signs and phases of vectors."""

    def singular(x):
        U, S, Vh = torch.linalg.svd(x, full_matrices=False)
        return ((U * S.to(U.dtype)) @ Vh).abs().square().sum() + S.sum()

    def orthogonal(x):
        Q, R = torch.linalg.qr(x)
        return (Q @ R).abs().square().sum() + R.abs().sum()

    def triangular(x):
        P, L, U = torch.linalg.lu(x)
        return L.abs().sum() + U.abs().square().sum()

    def inverse(x):
        return torch.linalg.pinv(x).abs().square().sum()

    found = []
    for dtype in (torch.float64, torch.complex128):
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 3)):
            for function in (singular, triangular, inverse):
                found.append(_gradients_or_error(torch, function, shape, dtype))
        for shape in ((3, 3), (4, 2), (2, 4)):
            found.append(_gradients_or_error(torch, orthogonal, shape, dtype))
    return found


@scenario
def tangents_of_factorizations(torch):
    out = []
    for shape in ((3, 3), (4, 2), (2, 4)):
        x, t = filled(torch, *shape), filled(torch, *shape, seed=2)
        for function in (
            lambda x: torch.linalg.svdvals(x),
            lambda x: torch.linalg.svd(x, full_matrices=False)[0].square(),
            lambda x: torch.linalg.qr(x)[1].square(),
            lambda x: torch.linalg.lu(x)[2],
            lambda x: torch.linalg.pinv(x),
        ):
            out.append(outcome(lambda f=function, x=x, t=t: torch.func.jvp(f, (x,), (t,))[1]))
    return out


@scenario
def products_of_vectors(torch):
    cross, a = torch.cross, filled(torch, 3, 3, 2)
    out = [outcome(lambda: cross(a, a.flip(0))), outcome(lambda: cross(a, a.flip(0), dim=1))]
    out += [outcome(lambda: cross(a[:2, :2], a[:2, :2])), outcome(lambda: cross(a, a, dim=2))]
    return [*out, outcome(lambda: cross(a[0], a[1].long())), outcome(lambda: cross(a[:, :0], a[:, :0]))]


@scenario
def powers_of_elements(torch):
    vander, x, out = torch.linalg.vander, filled(torch, 2, 3), []
    for given in (x, x[0], x[:, :0], x.long(), x.to(torch.complex128), x[0, 0], x > 0, x.half(), x[:0]):
        out += [outcome(lambda g=given, n=n: vander(g, N=n)) for n in (None, 1, 2, 4, 0, -1)]
    return out


@scenario
def tensors_of_equations(torch):
    solve, a, b = torch.linalg.tensorsolve, filled(torch, 2, 3, 6), filled(torch, 2, 3)
    out = [outcome(lambda: solve(a + torch.eye(6, dtype=a.dtype).reshape(2, 3, 6) * 9, b))]
    out += [outcome(lambda: solve(a, b[:1])), outcome(lambda: solve(a[0], b)), outcome(lambda: solve(b, a))]
    moved = (a + torch.eye(6, dtype=a.dtype).reshape(2, 3, 6) * 9).movedim(2, 0)
    return [*out, outcome(lambda: solve(moved, b, dims=(0,))), outcome(lambda: solve(moved, b, dims=(7,)))]


@scenario
def solutions_by_factors(torch):
    a, b, out = filled(torch, 3, 3) + torch.eye(3, dtype=torch.float64) * 9, filled(torch, 3, 2, seed=1), []
    factors, pivots = torch.linalg.lu_factor(a)
    for grad, left, adjoint in itertools.product((False, True), repeat=3):
        given = (factors.detach().requires_grad_(grad), pivots, b if left else b.T)
        named = {"left": left, "adjoint": adjoint}
        out.append(outcome(lambda g=given, n=named: torch.linalg.lu_solve(*g, **n)))
    vectors, tau = torch.geqrf(filled(torch, 4, 2))
    out.append(outcome(lambda: torch.linalg.householder_product(vectors, tau)))
    out.append(outcome(lambda: torch.linalg.householder_product(vectors.requires_grad_(), tau)))
    return out


test_as_in_pytorch = scenario.test()
