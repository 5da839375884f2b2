"""Lists as indices, compared with PyTorch: some stand for tuples."""

from sides import Scenarios

scenario = Scenarios()
S = slice

INDICES = {
    "slice and list": lambda t: [S(None), [2, 1]],
    "numbers": lambda t: [0, 1],
    "lists": lambda t: [[0, 1], [1, 2]],
    "list of one list": lambda t: [[0, 1]],
    "slice": lambda t: [S(0, 1)],
    "none": lambda t: [None, 0],
    "ellipsis": lambda t: [Ellipsis, 0],
    "tensor and number": lambda t: [t.tensor([0, 1]), 0],
    "tensors": lambda t: [t.tensor(0), t.tensor(1)],
    "tensors of one": lambda t: [t.tensor([0]), t.tensor([1])],
    "masks": lambda t: [True, False],
    "list of a mask": lambda t: [[True, False]],
    "empty": lambda t: [],
    "list of an empty one": lambda t: [[]],
    "columns": lambda t: [[0], [1], [2], [3]],
    "tuples": lambda t: [(0, 1), (1, 2)],
    "number and list": lambda t: [0, [1, 0]],
    "33 numbers": lambda t: [0] * 33,
    "in a tuple": lambda t: ([0, 1], [1, 2]),
    "nested in a tuple": lambda t: ([[0, 1], [1, 0]],),
    "range": lambda t: range(2),
    "text": lambda t: "a",
    "bytes": lambda t: b"a",
    "set": lambda t: {0},
    "object": lambda t: object(),
    "two ellipses": lambda t: (..., ...),
    "number between ellipses": lambda t: (..., 0, ...),
    "number behind ellipses": lambda t: (..., ..., 0),
}


def read(x, index):
    try:
        return x[index]
    except Exception as error:
        return type(error).__name__


def write(x, index):
    try:
        x[index] = -1.0
    except Exception as error:
        return type(error).__name__
    return x


@scenario
def reads(torch):
    x = torch.arange(24.0).reshape(2, 3, 4)
    return [[name, read(x, make(torch))] for name, make in INDICES.items()]


@scenario
def writes(torch):
    x = torch.arange(24.0).reshape(2, 3, 4)
    return [[name, write(x.clone(), make(torch))] for name, make in INDICES.items()]


test_as_in_pytorch = scenario.test()
