"""Mistakes that user programs catch by the type of the exception, and results with named parts in print."""

import io

from sides import Scenarios, raised

scenario = Scenarios()


@scenario
def classes_that_do_not_exist(torch):
    F, rows = torch.nn.functional, torch.zeros(2, 3)
    found = []
    for wrong in (3, -1, 7):
        target = torch.tensor([0, wrong])
        for loss in (F.cross_entropy, F.nll_loss, torch.nn.CrossEntropyLoss()):
            found.append(raised(f"Target {wrong} is out of bounds", loss, rows, target))
    found.append(raised("Target 4 is out of bounds", F.cross_entropy, rows[0], torch.tensor(4)))
    images = torch.tensor([[1, 5], [-100, 0]])
    found.append(raised("Target 5 is out of bounds", F.nll_loss, torch.zeros(2, 3, 2), images))
    return [*found, F.cross_entropy(rows, torch.tensor([-100, 1]))]


@scenario
def a_layer_without_forward(torch):
    layer = type("Layer", (torch.nn.Module,), {})()
    return [raised('the required "forward"', layer, 1), callable(layer.forward)]


@scenario
def files_that_hold_no_tensors(torch):
    return [raised("", torch.load, io.BytesIO(data))[0] for data in (b"no archive", b"")]


@scenario
def results_in_print(torch):
    x = torch.tensor([[1.0, 3.0], [2.0, 0.0]])
    shown = (torch.max(x, 0), x.sort(1), torch.linalg.slogdet(x), torch.return_types.max((1, "a")))
    return [repr(result).replace(torch.__name__, "torch") for result in shown]


@scenario
def operators_by_name_match_a_schema(torch):
    """What no schema takes is told from what an operator refuses."""
    aten, x = torch.ops.aten, torch.ones(2, 3)
    return [
        raised("match any schema", aten._softmax_backward_data, x, x, 0.5, torch.float32),
        raised("match any schema", aten._softmax_backward_data, x, "x", 0, torch.float32),
        raised("match any schema", aten._softmax_backward_data, x, x, 0, torch.float32, no_such=1),
        raised("match any schema", aten.add, x),
        raised("match any schema", aten.add, x, x, x, x),
        raised("", aten.sum, x, 5)[0],
        aten.add(x, 1),
    ]


@scenario
def other_things_in_place_of_tensors(torch):
    x, window = torch.ones(8), torch.ones(4)
    calls = [
        lambda y: torch.atleast_1d(y),
        lambda y: torch.atleast_2d(x, y),
        lambda y: torch.atleast_3d(y),
        lambda y: torch.broadcast_tensors(x, y),
        lambda y: torch.tensordot(y, x, ([0], [0])),
        lambda y: torch.tensordot(x, y, ([0], [0])),
        lambda y: torch.einsum("i,i", x, y),
        lambda y: torch.nonzero(y),
        lambda y: torch.gradient(y),
        lambda y: torch.istft(y, 4, window=window),
        lambda y: torch.nn.functional.ctc_loss(y, x, [1], [1]),
        lambda y: torch.gradient(x, edge_order=y),
    ]
    found = [raised("", call, y)[0] for call in calls for y in (None, "x", 1.5)]
    found += [raised("", torch.gradient, x, edge_order=True)[0], raised("", torch.einsum, "i", [])[0]]
    return [*found, raised("", torch.unravel_index, torch.tensor([1]), torch.tensor([2, 3]))[0]]


@scenario
def numbers_of_devices(torch):
    """There is no accelerator that a number could name."""
    x = torch.ones(2)
    calls = [
        lambda: torch.device(0),
        lambda: torch.zeros(2, device=0),
        lambda: torch.tensor([1], device=1),
        lambda: torch.empty((2,), device=0),
        lambda: torch.randint(5, (2,), device=0),
        lambda: x.to(0),
        lambda: x.to(device=0),
        lambda: x.new_zeros(2, device=0),
        lambda: torch.nn.Linear(2, 2, device=0),
        lambda: torch.zeros(2, device=True),
        lambda: torch.zeros(2, device=1.5),
        lambda: torch.device(True),
    ]
    return [raised("", call)[0] for call in calls]


test_as_in_pytorch = scenario.test()
