"""Train a recurrent cell whose forward and backward are in C++, beside the same cell in Python.

    python examples/extensions/lltm/train.py

The task is to add up a sequence of numbers. Both cells start from equal weights, so their losses agree.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import flambeau as torch
from flambeau.utils.cpp_extension import load

SOURCE = Path(__file__).with_name("lltm.cpp")


class LLTMFunction(torch.autograd.Function):
    """One step, computed and differentiated by the extension."""

    @staticmethod
    def forward(ctx, native, input, weights, bias, h, c):
        outputs = native.forward(input, weights, bias, h, c)
        new_h, new_c = outputs[:2]
        ctx.native = native
        ctx.save_for_backward(*outputs[1:], weights)
        return new_h, new_c

    @staticmethod
    def backward(ctx, grad_h, grad_c):
        grads = ctx.native.backward(grad_h.contiguous(), grad_c.contiguous(), *ctx.saved_tensors)
        return None, *grads


class Cell(torch.nn.Module):
    """The cell.

    Args:
        inputs: the number of input features.
        state: the number of state features.
        native: the extension. None computes the cell in Python.
    """

    def __init__(self, inputs: int, state: int, native: object | None = None) -> None:
        super().__init__()
        self.native, self.state = native, state
        scale = state**-0.5
        self.weights = torch.nn.Parameter(torch.empty(3 * state, inputs + state).uniform_(-scale, scale))
        self.bias = torch.nn.Parameter(torch.empty(1, 3 * state).uniform_(-scale, scale))

    def forward(
        self, input: torch.Tensor, h: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the new state."""
        if self.native is not None:
            return LLTMFunction.apply(self.native, input, self.weights, self.bias, h, c)
        gates = torch.nn.functional.linear(torch.cat([h, input], 1), self.weights, self.bias[0])
        i, o, g = gates.chunk(3, 1)
        c = c + torch.sigmoid(i) * torch.nn.functional.elu(g)
        return torch.sigmoid(o) * torch.tanh(c), c


def losses(native: object | None, steps: int) -> list[float]:
    """Train for some steps; return the loss of each."""
    torch.manual_seed(0)
    cell, read = Cell(1, 16, native), torch.nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*cell.parameters(), *read.parameters()], lr=0.02)
    found = []
    for _ in range(steps):
        numbers = torch.rand(64, 6, 1)
        h = c = torch.zeros(64, 16)
        for t in range(numbers.shape[1]):
            h, c = cell(numbers[:, t], h, c)
        loss = torch.nn.functional.mse_loss(read(h), numbers.sum(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def main() -> None:
    """Train both cells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--build-directory", default=None)
    options = parser.parse_args()
    native = load("lltm_cpp", [SOURCE], build_directory=options.build_directory)
    in_cpp, in_python = losses(native, options.steps), losses(None, options.steps)
    largest = max(abs(a - b) for a, b in zip(in_cpp, in_python, strict=True))
    print(f"first loss {in_cpp[0]:.4f}, last loss {in_cpp[-1]:.4f}, largest difference {largest:.1e}")


if __name__ == "__main__":
    main()
