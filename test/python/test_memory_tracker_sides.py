"""A memory tracker as a program would write it over TorchDispatchMode, in both frameworks with equal numbers.

It counts the bytes of live storages by the innermost module that allocated them, and the peak of their sum.
Weak references to storages tell which are freed; views share the storage of their base and count once.
"""

import gc
import importlib
from collections import Counter

from sides import Scenarios

scenario = Scenarios()


def part(torch, name):
    return importlib.import_module(f"{torch.__name__}.{name}")


def depth(name):
    """By which the innermost of the modules that run is found."""
    return name != "Global", name.count("."), name


class LiveBytes:
    """The storages that live, with their owners and sizes.

    Args:
        modules: a ModuleTracker.
        weak_reference: the class of references to storages.
    """

    def __init__(self, modules, weak_reference):
        self.modules, self.weak_reference = modules, weak_reference
        self.live, self.most, self.peak = Counter(), Counter(), 0
        self.known = {}

    def watch(self, tensor, owner=None):
        """Count the storage of a tensor, once, until it is freed; an `owner` takes it over."""
        self.sweep()
        storage = tensor.untyped_storage()
        reference, size = self.weak_reference(storage), storage.nbytes()
        if owner and reference in self.known:
            self.live[self.known.pop(reference)[0]] -= size
        if size and reference not in self.known:
            owner = owner or max(self.modules.parents, key=depth)
            self.known[reference] = owner, size
            self.live[owner] += size
            self.most[owner] = max(self.most[owner], self.live[owner])
            self.peak = max(self.peak, self.live.total())

    def sweep(self):
        """Forget the storages that are freed."""
        for reference in [one for one in self.known if one.expired()]:
            owner, size = self.known.pop(reference)
            self.live[owner] -= size

    def now(self):
        """The bytes that live, by owner, and their sum."""
        gc.collect()
        self.sweep()
        return [{name: size for name, size in sorted(self.live.items()) if size}, self.live.total()]


def memory_tracker(torch):
    """A mode of one of the frameworks that watches what operators return."""
    tree_leaves = part(torch, "utils._pytree").tree_leaves
    modules = part(torch, "utils.module_tracker").ModuleTracker()
    weak_reference = part(torch, "multiprocessing.reductions").StorageWeakRef

    class MemoryTracker(LiveBytes, part(torch, "utils._python_dispatch").TorchDispatchMode):
        def __init__(self):
            super().__init__(modules, weak_reference)
            super(LiveBytes, self).__init__()

        def __enter__(self):
            modules.__enter__()
            return super().__enter__()

        def __exit__(self, *exception):
            super().__exit__(*exception)
            modules.__exit__(*exception)

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            for value in tree_leaves(result):
                if isinstance(value, torch.Tensor):
                    self.watch(value)
            return result

    return MemoryTracker()


def block(torch):
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = torch.nn.Linear(4, 32, bias=False), torch.nn.Linear(32, 4, bias=False)

        def forward(self, x):
            return self.down(self.up(x).tanh())

    return torch.nn.Sequential(Block(), torch.nn.Flatten(), Block())


def watched(torch):
    """A model with its input, known to a tracker that also counts gradients."""
    model, x, tracker = block(torch), torch.ones(16, 4), memory_tracker(torch)
    tracker.watch(x, "input")
    for name, weight in model.named_parameters():
        tracker.watch(weight, "weights")
        weight.register_post_accumulate_grad_hook(lambda w, name=name: tracker.watch(w.grad, f"grad {name}"))
    return model, x, tracker


@scenario
def forward_of_a_model(torch):
    model, x, tracker = watched(torch)
    found = [tracker.now()]
    with tracker:
        y = model(x)
        found.append(tracker.now())
        del y
    return [*found, tracker.now(), tracker.peak, dict(sorted(tracker.most.items()))]


@scenario
def inference_frees_what_is_between(torch):
    model, x, tracker = watched(torch)
    with torch.no_grad(), tracker:
        y = model(x)
    return [tracker.now(), tracker.peak, dict(sorted(tracker.most.items())), y.numel() * 4]


@scenario
def training_steps(torch):
    model, x, tracker = watched(torch)
    optimizer, found = torch.optim.SGD(model.parameters(), 0.1), []
    with tracker:
        for _ in range(2):
            loss = model(x).square().sum()
            found.append(tracker.now())
            loss.backward()
            del loss
            found.append(tracker.now())
            optimizer.step()
            optimizer.zero_grad()
            found.append(tracker.now())
    return found


@scenario
def modules_whose_backward_has_run_hold_nothing(torch):
    model, x = block(torch), torch.ones(16, 4)
    reference = part(torch, "multiprocessing.reductions").StorageWeakRef
    found = []
    with part(torch, "utils.module_tracker").ModuleTracker():
        inner = model[0](x)
        between = reference(inner.untyped_storage())
        model[2](inner).sum().backward()
        del inner
        gc.collect()
        found.append(between.expired())
    return found


@scenario
def views_count_once(torch):
    tracker = memory_tracker(torch)
    with tracker:
        base = torch.zeros(8, 8)
        views = [base.t(), base[2:], base.view(64), base.unsqueeze(0).expand(4, 8, 8), base.detach()]
        shared = tracker.now()
        del base
        kept = tracker.now()
        copy = views[1].clone()
        del views
        return [shared, kept, tracker.now(), copy.numel(), tracker.peak]


@scenario
def in_place_and_out_forms_allocate_nothing(torch):
    x, y = torch.ones(10), torch.zeros(10)
    tracker = memory_tracker(torch)
    with tracker:
        tracker.watch(x)
        tracker.watch(y)
        x.add_(1).mul_(y)
        torch.add(x, x, out=y)
        return [tracker.now(), tracker.peak]


@scenario
def resized_storages(torch):
    tracker = memory_tracker(torch)
    with tracker:
        x = torch.zeros(100)
        before = tracker.now()
        x = x[:10].clone()
        return [before, tracker.now(), tracker.peak, x.untyped_storage().nbytes()]


@scenario
def exceptions_leave_nothing(torch):
    tracker = memory_tracker(torch)
    with tracker:
        try:
            torch.zeros(5) + torch.zeros(7)
        except RuntimeError:
            pass
        return [tracker.now(), tracker.peak]


test_scenarios = scenario.test()
