"""Members and calls of modules, which C finds and runs, under every way to change them, as in PyTorch."""

import copy
import gc
import pickle
from collections import OrderedDict

import flambeau as fb
from sides import Scenarios, raised

scenario = Scenarios()


class Pickled(fb.nn.Linear):
    """Found by its name when it is unpickled."""


def layer(torch, cls=None):
    made = (cls or torch.nn.Linear)(2, 2)
    torch.nn.init.constant_(made.weight, 0.5)
    torch.nn.init.constant_(made.bias, 1.0)
    return made


def ones(torch):
    return torch.ones(1, 2)


@scenario
def a_class_with_its_own_getattr_is_asked_last(torch):
    class Own(torch.nn.Linear):
        def __getattr__(self, name):
            if name == "absent":
                return "found"
            return super().__getattr__(name)

    class Below(Own):
        pass

    made = layer(torch, Below)
    return [made.absent, made(ones(torch)), raised("", lambda: made.other)]


@scenario
def a_class_with_its_own_getattribute_is_obeyed(torch):
    class Own(torch.nn.Linear):
        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            return 7 if name == "in_features" else value

    class Below(Own):
        pass

    made = layer(torch, Below)
    return [made.in_features, made.weight, made(ones(torch))]


@scenario
def a_class_with_its_own_call_is_obeyed(torch):
    class Own(torch.nn.Linear):
        def __call__(self, x):
            return super().__call__(x) + 1

    class Below(Own):
        pass

    return [layer(torch, Below)(ones(torch))]


@scenario
def functions_assigned_to_module_are_obeyed_until_they_are_put_back(torch):
    made, module = layer(torch), torch.nn.Module
    read, call = module.__getattr__, module.__call__
    module.__getattr__ = lambda self, name: 3.0 if name == "extra" else read(self, name)
    module.__call__ = lambda self, *args: call(self, *args) * 2

    class Later(torch.nn.Linear):
        pass

    later = layer(torch, Later)
    try:
        found = [made.extra, made(ones(torch)), later.extra, later(ones(torch))]
    finally:
        module.__getattr__, module.__call__ = read, call
    return [*found, made(ones(torch)), raised("", lambda: made.extra), raised("", lambda: later.extra)]


@scenario
def functions_assigned_to_a_subclass_are_obeyed(torch):
    class Own(torch.nn.Linear):
        pass

    class Below(Own):
        pass

    made = layer(torch, Below)
    before = made(ones(torch))
    Own.__getattr__ = lambda self, name: "any"
    Own.__call__ = lambda self, x: "called"
    found = [before, made.absent, made(ones(torch))]
    del Own.__getattr__, Own.__call__
    return [*found, made(ones(torch)), raised("", lambda: made.absent)]


@scenario
def a_mixin_before_module_takes_precedence(torch):
    class Mixin:
        def __getattr__(self, name):
            return f"mixin {name}" if name.startswith("free_") else super().__getattr__(name)

        def __call__(self, x):
            return super().__call__(x) - 1

    class Own(Mixin, torch.nn.Linear):
        pass

    made = layer(torch, Own)
    return [made.free_one, made.weight, made(ones(torch))]


@scenario
def hooks_run_from_the_call_after_they_are_registered(torch):
    made, seen = layer(torch), []
    found = [made(ones(torch))]
    handles = [
        made.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        made.register_forward_hook(lambda m, args, out: out + 1),
        made.register_full_backward_hook(lambda m, before, after: seen.append(len(before))),
    ]
    found.append(made(ones(torch)))
    made(ones(torch).requires_grad_()).sum().backward()
    for handle in handles:
        handle.remove()
    return [*found, made(ones(torch)), seen]


@scenario
def hooks_of_all_modules_run(torch):
    made = layer(torch)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda m, args, out: out * 3)
    found = [made(ones(torch))]
    handle.remove()
    return [*found, made(ones(torch))]


@scenario
def a_forward_of_the_instance_is_called(torch):
    made = layer(torch)
    made.forward = lambda x, *, scale: x * scale
    return [made(ones(torch), scale=3), raised("", lambda: made(ones(torch)))]


@scenario
def class_attributes_and_properties_come_before_members(torch):
    class Own(torch.nn.Module):
        shadowed = "class"

        @property
        def fails(self):
            raise AttributeError("inner")

        @property
        def reads(self):
            return self.bias_of_property

    made = Own()
    made._parameters["shadowed"] = torch.nn.Parameter(torch.ones(1))
    made._buffers["plain"] = torch.ones(2)
    made.__dict__["plain"] = "instance"
    made._modules["child"] = None
    found = [made.shadowed, made.plain, made.child]
    made._parameters["bias_of_property"] = torch.nn.Parameter(torch.ones(1))
    return [
        *found,
        made.reads,
        raised("", lambda: made.fails),
        raised("", lambda: made.nothing),
        hasattr(made, "x"),
    ]


@scenario
def tables_that_are_replaced_are_read_as_they_are(torch):
    class Logged(OrderedDict):
        def __getitem__(self, name):
            return super().__getitem__(name) + 1

    made = layer(torch)
    made._parameters = OrderedDict(made._parameters)
    found = [made.weight]
    made._parameters = Logged(made._parameters)
    return [*found, made.weight]


@scenario
def a_module_without_init_has_no_members(torch):
    made = torch.nn.Linear.__new__(torch.nn.Linear)
    return [raised("", lambda: made.weight), raised("", lambda: made.child)]


@scenario
def copies_and_swapped_parameters_are_found(torch):
    made = layer(torch)
    twin = copy.deepcopy(made)
    twin.weight = torch.nn.Parameter(torch.zeros(2, 2))
    del twin.bias
    twin.register_parameter("bias", None)
    made.__class__ = type("Swapped", (torch.nn.Linear,), {"extra": 2})
    return [twin(ones(torch)), made(ones(torch)), made.extra, twin.bias]


@scenario
def names_that_are_no_strings_raise(torch):
    return [raised("", lambda: getattr(layer(torch), 3))]


@scenario
def a_module_that_calls_itself_without_end_raises(torch):
    class Endless(torch.nn.Module):
        def forward(self, x):
            return self(x)

    return [raised("", lambda: Endless()(1))]


@scenario
def tracing_leaves_the_lookup_intact(torch):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = layer(torch)

        def forward(self, x):
            return self.inner(x).relu() + self.inner.weight.sum()

    net = Net()
    traced = torch.fx.symbolic_trace(net)
    return [traced(ones(torch)), net(ones(torch)), raised("", lambda: net.absent)]


def test_a_pickled_module_finds_its_members():
    made = Pickled(2, 2)
    again = pickle.loads(pickle.dumps(made))
    assert (again.weight == made.weight).all()
    assert (again(fb.ones(2)) == made(fb.ones(2))).all()


def test_classes_of_modules_are_collected():
    def count():
        gc.collect()
        return len(fb.nn.Linear.__subclasses__())

    before = count()
    for _ in range(20):
        type("Short", (fb.nn.Linear,), {})(2, 2)(fb.ones(2))
    assert count() == before


test_as_in_pytorch = scenario.test()
