"""Attributes of tensors and generators that programs use, though PyTorch does not document them."""

import copy
import pickle

from sides import Scenarios, leaf, raised

scenario = Scenarios()
test_as_in_pytorch = scenario.test()


@scenario
def gradients_by_their_inner_name(torch):
    p = leaf(torch, 1.0, 2.0)
    p._grad = torch.ones(2, dtype=torch.float64)
    out = [p.grad, p._grad is p.grad, (p * 2)._grad, (p * 2)._grad_fn is not None, p._grad_fn]
    p._grad = None
    return [*out, p.grad, raised("", lambda: setattr(p, "_grad", 3))]


@scenario
def truth_of_all(torch):
    x = torch.tensor([True, False])
    return [x._is_all_true(), x._is_any_true(), raised("", torch.ones(2)._is_all_true)]


@scenario
def what_modules_load(torch):
    x, y = torch.zeros(2), torch.ones(2)
    found = x.module_load(y)
    return [found, x, x.module_load(y, assign=True).data_ptr() == y.data_ptr()]


@scenario
def generators_are_copied(torch):
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    ways = (lambda g: pickle.loads(pickle.dumps(g)), copy.deepcopy, lambda g: g.clone_state())
    copies = [way(generator) for way in ways]
    drawn = [
        torch.rand(2, generator=g).tolist() == torch.rand(2, generator=copies[0]).tolist() for g in copies[1:]
    ]
    seed = generator.seed()
    return [drawn[0], generator.initial_seed() == seed]
