"""Versions of what operators of `custom_op` write to, beside PyTorch's."""

import itertools

import flambeau
import pytest

torch = pytest.importorskip("torch")

_numbers = itertools.count()


def overwrite(t):
    """Write to the memory by no operator."""
    t.detach().numpy()[...] = 5.0


def kernels(torch):
    """Return functions that write by an operator, by NumPy, and not at all."""

    def by_operator(x: torch.Tensor) -> None:
        x.mul_(2)

    def by_numpy(x: torch.Tensor) -> None:
        overwrite(x)

    def not_at_all(x: torch.Tensor) -> None:
        pass

    def with_result(x: torch.Tensor) -> torch.Tensor:
        overwrite(x)
        return x.sum()

    return {f.__name__: f for f in (by_operator, by_numpy, not_at_all, with_result)}


KERNELS = list(kernels(flambeau))


def defined(torch, function, mutates_args):
    name = f"versions_{next(_numbers)}::op"
    return torch.library.custom_op(name, function, mutates_args=mutates_args)


def plain(torch, op):
    x = torch.ones(4)
    op(x)
    op(x)
    return [x]


def view(torch, op):
    x = torch.ones(4)
    part = x[:2]
    op(part)
    return [x, part]


def detached(torch, op):
    x = torch.ones(4)
    other = x.detach()
    op(other)
    return [x, other]


def leaf(torch, op):
    x = torch.ones(4).requires_grad_()
    op(x)
    return [x]


def view_of_result(torch, op):
    x = torch.ones(4).requires_grad_() * 1
    part = x[:2]
    op(part)
    return [x, part]


def inference(torch, op):
    x = torch.ones(4)
    with torch.inference_mode():
        op(x)
        op(torch.ones(2))
    return [x]


PROGRAMS = [plain, view, detached, leaf, view_of_result, inference]


@pytest.mark.parametrize("with_grad", [True, False])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_each_call_makes_a_version(kernel, program, with_grad):
    def versions(torch):
        op = defined(torch, kernels(torch)[kernel], {"x"})
        with torch.set_grad_enabled(with_grad):
            tensors = program(torch, op)
        return [(t._version, t.requires_grad, t.tolist()) for t in tensors]

    ours = versions(flambeau)
    assert ours == versions(torch) and ours[0][0] > 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_backward_sees_the_write(kernel):
    for framework in (flambeau, torch):
        op = defined(framework, kernels(framework)[kernel], {"x"})
        x, weight = framework.ones(4, requires_grad=True), framework.ones(4)
        y = x * weight
        with framework.no_grad():
            op(weight)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def two_tensors(torch, kernel):
    def declared_one(x: torch.Tensor, y: torch.Tensor) -> None:
        if kernel == "operators":
            x.mul_(2)
            y.mul_(3)
        else:
            overwrite(x)
            overwrite(y)

    return declared_one


@pytest.mark.parametrize("mutates_args", [{"x"}, "unknown", ()])
@pytest.mark.parametrize("kernel", ["operators", "NumPy"])
def test_an_argument_that_is_written_and_not_declared(kernel, mutates_args):
    def versions(torch):
        op = defined(torch, two_tensors(torch, kernel), mutates_args)
        x, y, z, same = (torch.ones(4) for _ in range(4))
        r = torch.ones(4, requires_grad=True) * 1
        with torch.no_grad():
            op(x, y)
        op(z[:2], torch.ones(4, requires_grad=True))
        op(r, torch.ones(4))
        op(same, same)
        return [(t._version, t.requires_grad, t.tolist()) for t in (x, y, z, r, same)]

    assert versions(flambeau) == versions(torch)


def test_lists_optional_tensors_and_failures():
    def versions(torch):
        def listed(xs: list[torch.Tensor], other: torch.Tensor | None) -> None:
            for x in xs:
                overwrite(x)

        def failing(x: torch.Tensor) -> None:
            raise ValueError("inside")

        both = defined(torch, listed, {"xs", "other"})
        a, b, c, d, e = (torch.ones(4) for _ in range(5))
        both([a, b], None)
        both([c, c], d)
        both([e[:2], e[2:]], e)
        both([], None)
        with pytest.raises(ValueError, match="inside"):
            defined(torch, failing, {"x"})(b)
        return [t._version for t in (a, b, c, d, e)]

    assert versions(flambeau) == versions(torch)


def test_writers_without_results_need_no_function_for_fake_tensors():
    for framework in (flambeau, torch):
        made = kernels(framework)
        x = framework.empty(3, device="meta")
        op = defined(framework, made["by_numpy"], {"x"})
        assert op(x) is None and x._version == 1
        seen = []
        op.register_fake(lambda x, seen=seen: seen.append(x.shape))
        op(x)
        assert seen == [(3,)]
        with pytest.raises((RuntimeError, NotImplementedError), match="register_fake"):
            defined(framework, made["with_result"], {"x"})(x)
        with pytest.raises((RuntimeError, NotImplementedError), match="register_fake"):
            defined(framework, made["not_at_all"], ())(x)
