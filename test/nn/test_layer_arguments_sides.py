"""Arguments that layers, initial values and padding refuse or warn about, as in PyTorch."""

from sides import Scenarios, raised, warned

scenario = Scenarios()


@scenario
def tables_of_another_shape(torch):
    given = torch.ones(2, 2)
    return [raised("", kind, 3, 2, _weight=given)[0] for kind in (torch.nn.Embedding, torch.nn.EmbeddingBag)]


@scenario
def sizes_that_make_no_layer(torch):
    nn = torch.nn
    return [
        raised("", nn.Bilinear, 0, 1, 1)[0],
        raised("", nn.Unflatten, 1, 3)[0],
        raised("", nn.Unflatten, 1.0, (2, 2))[0],
        nn.Unflatten(1, [2, 2])(torch.ones(1, 4)).shape,
        nn.Unflatten(1, torch.Size([2, -1]))(torch.ones(1, 4)).shape,
    ]


@scenario
def older_names_of_bounds(torch):
    return warned("min_value", torch.nn.Hardtanh, min_value=0, max_value=2)


@scenario
def a_value_for_padding_that_copies(torch):
    return raised(
        "doesn't take in value argument", torch.nn.functional.pad, torch.ones(1, 2, 3), (1, 1), "reflect", 2
    )


@scenario
def slopes_that_are_no_numbers(torch):
    gain = torch.nn.init.calculate_gain
    return [raised("", gain, "leaky_relu", slope)[0] for slope in ("a", True, None, 0.2)]


@scenario
def a_truncated_normal_far_from_its_bounds(torch):
    fill = torch.nn.init.trunc_normal_
    return [warned("", fill, torch.empty(2), *range_) for range_ in ((0, 1, 5, 6), (0, 1, -1, 1))]


test_as_in_pytorch = scenario.test()
