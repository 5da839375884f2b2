"""Parametrized tensors: what registering, assigning and removing do to the originals, as in PyTorch."""

from sides import Scenarios, raised

scenario = Scenarios()


def exponential(torch):
    class Exponential(torch.nn.Module):
        def forward(self, x):
            return x.exp()

        def right_inverse(self, y):
            return y.log()

    return Exponential()


def outer(torch):
    class Outer(torch.nn.Module):
        def forward(self, a, b):
            return a.view(-1, 1) @ b.view(1, -1)

        def right_inverse(self, z):
            return z[:, 0], z[0]

    return Outer()


def module_of(torch, forward, inverse=None):
    """A parametrization of two functions."""
    body = {"forward": lambda self, *x: forward(*x)}
    if inverse is not None:
        body["right_inverse"] = lambda self, y: inverse(y)
    return type("Made", (torch.nn.Module,), body)()


def linear(torch, value=2.0):
    layer = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(layer.weight, value)
    return layer


@scenario
def the_parameter_stays_the_object_that_optimizers_know(torch):
    forms, layer = torch.nn.utils.parametrize, linear(torch)
    weight = layer.weight
    forms.register_parametrization(layer, "weight", exponential(torch))
    original = layer.parametrizations.weight.original
    found = [original is weight, layer.weight, original]
    layer.weight = torch.full((2, 2), 5.0)
    found += [layer.weight, layer.parametrizations.weight.original is weight]
    forms.remove_parametrizations(layer, "weight")
    return [*found, layer.weight is weight, layer.weight, type(layer).__name__]


@scenario
def an_optimizer_made_before_still_trains_the_weight(torch):
    forms, layer = torch.nn.utils.parametrize, linear(torch)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    forms.register_parametrization(layer, "weight", exponential(torch))
    forms.remove_parametrizations(layer, "weight")
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return layer.weight


@scenario
def a_further_parametrization_acts_on_the_present_value(torch):
    forms, layer = torch.nn.utils.parametrize, linear(torch)
    forms.register_parametrization(layer, "weight", exponential(torch))
    forms.register_parametrization(layer, "weight", exponential(torch))
    made = layer.parametrizations.weight
    return [layer.weight, made.original, len(made), made.unsafe]


@scenario
def what_does_not_fit_is_refused(torch):
    forms = torch.nn.utils.parametrize
    same = lambda x: x  # noqa: E731
    cases = [
        module_of(torch, lambda x: x[[0]]),
        module_of(torch, lambda x: x.double()),
        module_of(torch, lambda x: 3),
        module_of(torch, same, lambda y: 3),
        module_of(torch, same, lambda y: y[0]),
        module_of(torch, same, lambda y: y.double()),
        module_of(torch, lambda x, y: x, lambda y: (y, 3)),
    ]
    found = []
    for unsafe in (False, True):
        for case in cases:
            try:
                forms.register_parametrization(linear(torch), "weight", case, unsafe=unsafe)
                found.append("accepted")
            except Exception as error:
                found.append(type(error).__name__)
    further = linear(torch)
    forms.register_parametrization(further, "weight", module_of(torch, same))
    found += [raised("", forms.register_parametrization, further, "weight", case)[0] for case in cases[:6]]
    return [*found, len(further.parametrizations.weight)]


@scenario
def values_that_do_not_fit_the_originals_are_refused(torch):
    forms, layer = torch.nn.utils.parametrize, torch.nn.Linear(3, 2)
    forms.register_parametrization(layer, "weight", outer(torch))
    names = [name for name, _ in layer.named_parameters()]
    kinds = [
        raised("", setattr, layer, "weight", value)[0]
        for value in (torch.ones(2, 3, dtype=torch.float64), torch.ones(3))
    ]
    refused = raised("", forms.remove_parametrizations, layer, "weight", leave_parametrized=False)
    forms.remove_parametrizations(layer, "weight")
    return [names, kinds, refused[0], sorted(dict(layer.named_parameters())), layer.weight.requires_grad]


@scenario
def buffers_can_be_parametrized(torch):
    forms, layer = torch.nn.utils.parametrize, torch.nn.BatchNorm1d(2)
    mean = layer.running_mean
    forms.register_parametrization(layer, "running_mean", module_of(torch, lambda x: x + 1))
    found = [[name for name, _ in layer.named_buffers()], layer.running_mean]
    forms.remove_parametrizations(layer, "running_mean")
    return [*found, layer.running_mean is mean, layer.running_mean]


@scenario
def parametrizations_move_to_another_module(torch):
    forms = torch.nn.utils.parametrize
    source, target, third = linear(torch), linear(torch, 3.0), torch.nn.Module()
    forms.register_parametrization(source, "weight", exponential(torch))
    forms.register_parametrization(source, "bias", torch.nn.Identity())
    forms.transfer_parametrizations_and_params(source, target)
    forms.transfer_parametrizations_and_params(source, third, "weight")
    outer_source, outer_target = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    forms.register_parametrization(outer_source, "weight", outer(torch))
    forms.transfer_parametrizations_and_params(outer_source, outer_target)
    return [
        [forms.is_parametrized(target, name) for name in ("weight", "bias")],
        target.weight,
        third.weight,
        forms.is_parametrized(third, "bias"),
        bool(outer_target.weight.equal(outer_source.weight)),
        forms.type_before_parametrizations(target).__name__,
        forms.transfer_parametrizations_and_params(torch.nn.ReLU(), target) is target,
    ]


@scenario
def an_orthogonal_matrix_of_another_dtype_is_refused(torch):
    layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(3, 3, dtype=torch.complex64))
    return raised("", setattr, layer, "weight", torch.ones(3, 3))[0]


test_as_in_pytorch = scenario.test()
