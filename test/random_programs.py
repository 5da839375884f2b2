"""Random functions of tensors, for compiled functions."""

import random

import flambeau as fb

UNARY = [
    "sin",
    "exp",
    "tanh",
    "sigmoid",
    "relu",
    "abs",
    "neg",
    "square",
    "erf",
    "floor",
    "cos",
    "log1p",
    "sign",
]
BINARY = ["add", "mul", "sub", "maximum", "minimum", "atan2", "hypot"]


def unary(a, b, row, step):
    return getattr(fb, step.unary)(a)


def binary(a, b, row, step):
    return getattr(fb, step.binary)(a, b)


def number(a, b, row, step):
    return (a + step.number) * 2 - 1


def where(a, b, row, step):
    return fb.where(a > b, a, b * step.number)


def view(a, b, row, step):
    return a.t().contiguous().t() + row


def reduced(a, b, row, step):
    return a - a.sum(-1, keepdim=True) * 0.1


def product(a, b, row, step):
    return a @ fb.tanh(b).t() @ b * 0.01


def write(a, b, row, step):
    made = (a * 1).contiguous()
    made[0] = step.number
    made.view(-1)[3:5].mul_(2)
    return made


def clamped(a, b, row, step):
    return a.clamp(-step.number, step.number)


def compared(a, b, row, step):
    return (a > b) * a


def rounded(a, b, row, step):
    return a.bfloat16().mul(2).float()


def of_sizes(a, b, row, step):
    rows, columns = a.shape
    return a.reshape(rows * columns).view(rows, columns) * (rows / 8) + fb.arange(columns) / (columns + 1)


def branch(a, b, row, step):
    return a - b if a.size(0) > 5 else a * b


def halves(a, b, row, step):
    return fb.cat([a[: a.shape[0] // 2], b[b.size(0) // 2 :]])


KINDS = [unary] * 6 + [binary] * 6 + [number] * 3
KINDS += [where, view, reduced, product, write, clamped, compared, rounded]
SIZED = [*KINDS, of_sizes, of_sizes, branch, halves]


class Step:
    """One random operation on two of the last values."""

    def __init__(self, draw, kinds):
        self.kind, self.unary, self.binary = draw.choice(kinds), draw.choice(UNARY), draw.choice(BINARY)
        self.number, self.first, self.second = draw.random(), draw.randint(1, 3), draw.randint(1, 4)

    def __call__(self, values, row):
        a, b = values[-min(self.first, len(values))], values[-min(self.second, len(values))]
        return fb.nan_to_num(self.kind(a, b, row, self)).clamp(-1e3, 1e3)


def random_program(seed, kinds=KINDS):
    """A function of three tensors: pointwise operators, broadcasting, views, reductions, products, writes."""
    draw = random.Random(seed)
    steps = [Step(draw, kinds) for _ in range(draw.randint(4, 25))]

    def run(x, y, row):
        values = [x, y, x * row]
        for step in steps:
            values.append(step(values, row))
        return values[-1], values[-2], values[len(values) // 2].detach() * 2

    return run
