"""Nodes of einsum: each operand is an argument, also if the program passed one list."""

import flambeau
import pytest
from oracle import pytorch

CALLS = {
    "operands": lambda torch, a, b: torch.einsum("ij,jk->ik", a, b),
    "a list": lambda torch, a, b: torch.einsum("ij,jk->ik", [a, b]),
    "a tuple": lambda torch, a, b: torch.einsum("ij,jk->ik", (a, b)),
    "with a tensor": lambda torch, a, b: torch.einsum("ij,jk,kl->il", (a, b, torch.ones(2, 2))),
}


def nodes(torch, call):
    class Model(torch.nn.Module):
        def forward(self, a, b):
            return call(torch, a, b)

    graph = torch.fx.symbolic_trace(Model()).graph
    return [(n.op, getattr(n.target, "__name__", n.target), len(n.args)) for n in graph.nodes]


@pytest.mark.parametrize("name", CALLS)
def test_nodes(name):
    assert nodes(flambeau, CALLS[name]) == nodes(pytorch(), CALLS[name])
