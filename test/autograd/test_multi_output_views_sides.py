"""Writes to views that one call made together, under every mode of grad, as in PyTorch."""

from __future__ import annotations

import contextlib
import itertools

import flambeau
import pytest
from oracle import pytorch
from sides import leaf, plain

MAKERS = {
    "split": lambda x: x.split(2),
    "split sizes": lambda x: x.split([1, 3]),
    "chunk": lambda x: x.chunk(2),
    "unbind": lambda x: x.unbind(),
    "tensor_split": lambda x: x.tensor_split(2),
    "tensor_split unequal": lambda x: x.tensor_split(3),
    "tensor_split of more": lambda x: x.tensor_split(6),
    "tensor_split at": lambda x: x.tensor_split([1, 2]),
    "vsplit": lambda x: x.view(2, 2).vsplit(2),
    "hsplit": lambda x: x.hsplit(2),
    "iterate": list,
    "select": lambda x: [x[0]],
    "slice": lambda x: [x[:2]],
}
BASES = {
    "recorded": lambda torch: leaf(torch, 1, 2, 3, 4) * 1,
    "leaf": lambda torch: leaf(torch, 1, 2, 3, 4),
    "plain": lambda torch: torch.arange(4.0, dtype=torch.float64),
}
WRITES = {
    "by a number": lambda torch, view, base: view.mul_(2),
    "by a leaf": lambda torch, view, base: view.mul_(leaf(torch, 3)[0]),
    "through a view": lambda torch, view, base: view.reshape(-1)[:1].mul_(2),
    "to the base": lambda torch, view, base: [base.mul_(2), view.grad_fn][0],
    "detach": lambda torch, view, base: view.detach_(),
}
MODES = ("enable_grad", "no_grad", "inference_mode")
PHRASES = (
    "returns multiple views",
    "created in no_grad mode",
    "created in inference mode",
    "leaf Variable",
    "view of a leaf",
    "detach",
    "inference tensor",
)


def outcome(torch, maker, base_of, made_in, write, written_in):
    """What is raised, or what everything holds afterwards."""
    base = base_of(torch)
    with getattr(torch, made_in)():
        view = maker(base)[0]
    try:
        with getattr(torch, written_in)():
            write(torch, view, base)
        return seen(view, base)
    except RuntimeError as error:
        text = str(error).lower()
        return "RuntimeError", [p for p in PHRASES if p.lower() in text][:1]


def seen(view, base):
    """Values, flags, and whether the base can be differentiated."""
    gradient = None
    with contextlib.suppress(RuntimeError):
        if base.grad_fn is not None:
            base.sum().backward(retain_graph=True)
            gradient = "differentiable"
    return plain([view, base, view.requires_grad, base.requires_grad, view.is_leaf, gradient])


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("maker", MAKERS)
def test_writes(maker: str, base: str):
    torch = pytorch()
    for made_in, write, written_in in itertools.product(MODES, WRITES, MODES):
        if write == "detach" and written_in == "inference_mode":
            continue  # PyTorch's detach_ does nothing there
        args = (MAKERS[maker], BASES[base], made_in, WRITES[write], written_in)
        ours, theirs = outcome(flambeau, *args), outcome(torch, *args)
        assert ours == theirs, (made_in, write, written_in, ours, theirs)


def test_messages_name_the_mode():
    x = flambeau.ones(3, requires_grad=True) * 1
    for mode, phrase in (("no_grad", "no_grad mode"), ("inference_mode", "inference mode")):
        with getattr(flambeau, mode)():
            view = x[1:]
        with pytest.raises(RuntimeError, match=f"created in {phrase}"):
            view.mul_(2)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        x.split(1)[0].mul_(2)


def test_tensor_split_gives_the_pieces_of_numpy():
    import numpy as np

    for size, sections in itertools.product(range(7), range(1, 9)):
        ours = flambeau.arange(size).tensor_split(sections)
        assert [t.tolist() for t in ours] == [a.tolist() for a in np.array_split(np.arange(size), sections)]
