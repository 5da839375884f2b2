"""Numbers from tensors, numbers into tensors, and None for lists that are empty by default, as in PyTorch."""

from sides import Scenarios, raised

scenario = Scenarios()


@scenario
def several_elements_are_no_number(torch):
    pair = torch.ones(2)
    return [raised("", convert, pair)[0] for convert in (int, float, complex, torch.Tensor.item)]


@scenario
def scalars_have_no_size_and_no_stride(torch):
    scalars = (torch.tensor(2.0), torch.ones(3, 4)[1, 2], torch.ones(2, 2, 2).sum())
    asked = [(name, dim) for name in ("size", "stride") for dim in (0, -1, 1)]
    return [[raised("imension", getattr(x, name), dim)[0] for name, dim in asked] for x in scalars]


@scenario
def a_complex_number_does_not_fit_into_real_elements(torch):
    found = []
    for index in (0, slice(None), [0], torch.tensor([True, False]), Ellipsis):
        for dtype in (torch.float32, torch.int64):
            target = torch.zeros(2, dtype=dtype)
            found.append(raised("without overflow", target.__setitem__, index, 1j))
            found.append(target)
    whole, wide = torch.zeros(2), torch.zeros(2, dtype=torch.complex64)
    whole[0], wide[0] = 3 + 0j, 1j
    return [found, whole, wide]


@scenario
def flags_of_computed_tensors_stay(torch):
    computed = torch.ones(1, requires_grad=True) * 2
    return [
        [raised("leaf variables", setattr, computed, "requires_grad", flag) for flag in (True, False)],
        computed.requires_grad_(True) is computed,
    ]


@scenario
def none_is_an_empty_list_of_dimensions(torch):
    table = torch.arange(6.0).view(2, 3)
    image = torch.arange(16.0).view(1, 1, 4, 4)
    return [
        table.amax(None),
        torch.amin(table, dim=None, keepdim=True),
        torch.roll(table, 1, None),
        torch.nn.functional.avg_pool2d(image, 2, None),
        torch.max_pool2d(image, 2, None),
        raised("", torch.flip, table, None)[0],
        raised("", torch.max_pool2d, image, 2, 2, None)[0],
        raised("", torch.max_pool2d, image, None)[0],
    ]


@scenario
def seeds_that_do_not_fit(torch):
    wrong = (2**64, -(2**63) - 1)
    fitting = (2**64 - 1, -(2**63), -1, 1.5)
    seeds = [torch.manual_seed(seed).initial_seed() for seed in fitting]
    own = torch.Generator()
    kinds = [raised("", own.manual_seed, seed)[0] for seed in (*wrong, "a", 1.5, True, torch.tensor(3))]
    seeds.append(own.manual_seed(2**64 - 1).initial_seed())
    return [[raised("overflow", torch.manual_seed, seed) for seed in wrong], kinds, seeds]


@scenario
def names_of_types(torch):
    class Own:
        pass

    things = (3, "a", None, [1], int, len, Own().__class__.__name__, torch.ones(1))
    return [torch.typename(thing).replace("flambeau", "torch") for thing in things]


test_as_in_pytorch = scenario.test()
