"""fully_shard: a group that one process does not train, a module that returns its parameter, misuse."""

import pytest
from distributed.ranks import run
from distributed.sharded_models import MODELS

UNUSED = (
    MODELS
    + """
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.always, self.sometimes = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, is_used):
        y, z = self.always(x), self.sometimes(x)
        return (y + z if is_used else y).sum()

fw.manual_seed(0)
model = Two()
fully_shard(model.sometimes, reshard_after_forward=False)
fully_shard(model)
model.set_reduce_scatter_unused_params(True)
found = []
for user in (0, 1, None):
    model.zero_grad()
    model(fw.ones(2, 3) * (rank + 1), rank == user).backward()
    found.append([p.grad.full_tensor().tolist() for p in model.parameters()])
put(found)
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize("framework", ["flambeau", "torch"])
def test_a_process_without_gradients_reduces_zeros(framework):
    if framework == "torch":
        pytest.importorskip("torch")
    first, second = run(2, UNUSED, framework)
    assert first == second
    for (*_, weight, bias), expected in zip(first, (1.0, 2.0, 0.0), strict=True):
        # Half of the sum over two rows, whose elements are the rank + 1.
        assert weight == [[expected] * 3] * 3 and bias == [1.0 if expected else 0.0] * 3


CORNERS = (
    MODELS
    + """
from flambeau.distributed.fsdp._state import ModuleState

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(fw.ones(3))

    def forward(self, x):
        return self.weight

calls, inner = [], ModuleState._before_backward
ModuleState._before_backward = lambda self, grad: (calls.append(1), inner(self, grad))[1]
own = fully_shard(Own())
counts = []
for _ in range(3):
    (own(fw.ones(3)) * 2).sum().backward()
    counts.append(len(calls))
assert own.weight.grad.full_tensor().tolist() == [6.0] * 3
assert counts == [1, 2, 3], counts  # one hook, not one more in each pass

layer = nn.Linear(2, 2)
error = raised(fully_shard, [layer, layer])
assert error[0] == "AssertionError" and "can only be applied to a module once" in error[1], error
assert type(layer) is nn.Linear and type(fully_shard(layer)).__name__ == "FSDPLinear"

for name in ("set_gradient_divide_factor", "set_reduce_scatter_divide_factor"):
    error = raised(getattr(layer, name), 0)
    assert error[0] == "ZeroDivisionError" and "other than 0, got 0" in error[1], error
layer.set_gradient_divide_factor(2)
layer(fw.ones(2)).sum().backward()
assert (layer.weight.grad.full_tensor() == 0.5).all()

outer = nn.Sequential(nn.Linear(2, 2))
fully_shard(outer[0], reshard_after_forward=1)
fully_shard(outer)(fw.ones(2))
assert type(outer[0].weight) is nn.Parameter  # each process keeps the whole
put(1)
dist.destroy_process_group()
"""
)


def test_returned_parameters_and_misuse():
    run(1, CORNERS)
