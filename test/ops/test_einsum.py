"""einsum and tensordot against NumPy, their gradients and their errors."""

import flambeau as fb
import numpy as np
import pytest
from oracle import pytorch

pytestmark = pytest.mark.products

EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    ("bij,bkj->bk", (2, 3, 4), (2, 5, 4)),
    ("i,j->ij", (3,), (4,)),
    ("i,i->i", (3,), (3,)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij->ji", (2, 3)),
    ("ba", (2, 3)),
    ("ij->j", (2, 3)),
    ("ij->", (2, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("i...,j...->ij...", (2, 4), (3, 1)),
    ("...i->i...", (2, 3, 4)),
    ("bn,anm,bm->ba", (2, 3), (5, 3, 4), (2, 4)),
    ("ij,jk,kl,lm->im", (2, 3), (3, 2), (2, 4), (4, 2)),
    ("ij,kl->jl", (2, 3), (4, 5)),
    ("a,b,c->cab", (2,), (3,), (4,)),
    ("ij,jk->ik", (2, 0), (0, 3)),
    (",->", (), ()),
]


def arrays(shapes: tuple[tuple[int, ...], ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(shapes))
    return [np.asarray(rng.standard_normal(shape)) for shape in shapes]


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda case: case[0])
def test_values_equal_numpy(case: tuple):
    equation, *shapes = case
    given = arrays(tuple(shapes))
    found = fb.einsum(equation, *map(fb.from_numpy, given))
    np.testing.assert_allclose(found.numpy(), np.einsum(equation, *given), rtol=1e-12, atol=1e-12)


def test_lists_of_numbers_name_dimensions_too():
    a, b = map(fb.from_numpy, arrays(((2, 3), (3, 4))))
    assert fb.equal(fb.einsum(a, [0, 1], b, [1, 2], [0, 2]), a @ b)
    assert fb.equal(fb.einsum(a, [0, ...], [..., 0]), a.t())


def test_a_size_of_one_broadcasts():
    a, b = arrays(((2, 3), (1, 4)))
    found = fb.einsum("ij,jk->ik", fb.from_numpy(a), fb.from_numpy(b))
    np.testing.assert_allclose(found.numpy(), a.sum(1, keepdims=True) * b)


def test_gradient_is_that_of_the_matrix_product():
    a, b = (fb.from_numpy(x).requires_grad_() for x in arrays(((2, 3, 4), (2, 4, 5))))
    fb.einsum("bij,bjk->bik", a, b).sum().backward()
    ones = np.ones((2, 3, 5))
    np.testing.assert_allclose(a.grad.numpy(), ones @ b.detach().numpy().transpose(0, 2, 1))
    np.testing.assert_allclose(b.grad.numpy(), a.detach().numpy().transpose(0, 2, 1) @ ones)


@pytest.mark.parametrize("dims", [0, 1, 2, ([1], [0]), ([0, -1], [1, 0])])
def test_tensordot_equals_numpy(dims: object):
    a, b = arrays(((3, 4, 4) if dims == 2 else (3, 4), (4, 4, 3) if dims == 2 else (4, 3)))
    found = fb.tensordot(fb.from_numpy(a), fb.from_numpy(b), dims)
    np.testing.assert_allclose(found.numpy(), np.tensordot(a, b, dims), rtol=1e-12)


@pytest.mark.parametrize(
    ("equation", "count", "words"),
    [
        ("ij,jk", 1, "fewer operands"),
        ("ij", 2, "more operands"),
        ("i", 1, r"expected 2 subscripts for operand 0, got 1"),
        ("ijk", 1, r"expected 2 subscripts for operand 0, got 3"),
        ("ij->k", 1, "subscript k belongs to no operand"),
        ("ij->ii", 1, "subscript i more than once"),
        ("i1", 1, "a letter at index 1"),
        ("i.j", 1, "outside of an ellipsis"),
        ("...i...", 1, "after the ellipsis"),
        ("ii", 1, "subscript i is repeated for operand 0 but the sizes don't match"),
        ("ij,ki", 2, "size 3 in operand 1, but 2"),
    ],
)
def test_errors(equation: str, count: int, words: str):
    with pytest.raises(RuntimeError, match=words):
        fb.einsum(equation, *[fb.ones(2, 3)] * count)


def test_tensordot_names_sizes_that_differ():
    with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
        fb.tensordot(fb.ones(2, 3), fb.ones(2, 3), 1)


def random_case(rng: np.random.Generator) -> tuple[str, list[np.ndarray]]:
    """An equation of one to three operands over up to five labels, some of size 0 or 1 or repeated."""
    sizes = {label: int(rng.choice([0, 1, 2, 3, 4], p=[0.05, 0.2, 0.25, 0.25, 0.25])) for label in "abcde"}
    terms = ["".join(rng.choice(list("abcde"), rng.integers(0, 5))) for _ in range(rng.integers(1, 4))]
    present = sorted(set("".join(terms)))
    output = "".join(rng.permutation([n for n in present if rng.random() < 0.5]))
    arrays = []
    for term in terms:
        alone = {n: 1 if rng.random() < 0.15 and term.count(n) == 1 else sizes[n] for n in term}
        arrays.append(rng.standard_normal([alone[n] for n in term]))
    return ",".join(terms) + "->" + output, arrays


@pytest.mark.parametrize("seed", range(4))
def test_random_equations_as_in_pytorch(seed: int):
    rng = np.random.default_rng(seed)
    torch = pytorch()
    for _ in range(100):
        equation, arrays = random_case(rng)
        ours = fb.einsum(equation, *map(fb.tensor, arrays)).numpy()
        theirs = torch.einsum(equation, *map(torch.tensor, arrays)).numpy()
        assert ours.shape == theirs.shape, (equation, [a.shape for a in arrays])
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12, err_msg=equation)


def test_an_equation_serves_other_sizes_after_an_error():
    torch = pytorch()
    x = np.arange(6.0).reshape(2, 3)
    for shape in ((2, 3), (3, 2), (2, 3), (1, 3), (4, 2)):
        y = np.ones(shape)
        for _ in range(2):
            try:
                theirs = torch.einsum("ij,kj->ik", torch.tensor(x), torch.tensor(y)).numpy()
            except RuntimeError:
                with pytest.raises(RuntimeError, match="subscript j has size 2 in operand 1"):
                    fb.einsum("ij,kj->ik", fb.tensor(x), fb.tensor(y))
            else:
                np.testing.assert_allclose(fb.einsum("ij,kj->ik", fb.tensor(x), fb.tensor(y)).numpy(), theirs)


def test_the_result_is_new_memory_of_the_operands_dtype():
    x = fb.ones(2, 2, dtype=fb.int32)
    for equation in ("ij,jk->ik", "ij,ij->ij", "ij,->ij", "ij,kl->ij"):
        second = fb.ones((), dtype=fb.int32) if ",->" in equation else x
        result = fb.einsum(equation, x, second)
        assert result.dtype == fb.int32
        assert result.data_ptr() != x.data_ptr()
