"""Random programs of views and writes, given by a seed, which any framework with PyTorch's names can run."""

import random


def views_of(x, draw):
    """The views that the shape of `x` allows, each as a function without arguments."""
    found = [
        lambda: x.view(-1) if x.is_contiguous() else x.reshape(x.shape),
        lambda: x.unsqueeze(draw.randrange(x.dim() + 1)),
        lambda: x.squeeze(),
        lambda: x.detach(),
        lambda: x.data,
        lambda: x[...],
        lambda: x.expand(x.shape),
    ]
    if x.is_contiguous() and x.numel() % 2 == 0 and x.numel() > 0:
        found.append(lambda: x.view(2, -1))
    if x.dim() > 0:
        dim = draw.randrange(x.dim())
        size = x.shape[dim]
        found += [
            lambda: x.transpose(dim, 0),
            lambda: x.permute(*reversed(range(x.dim()))),
            lambda: x.narrow(dim, min(1, size), max(0, size - 1)),
            lambda: x.select(dim, size // 2) if size else x,
            lambda: x[::2],
            lambda: x.chunk(2, dim)[-1],
            lambda: x.unbind(dim)[0] if size else x,
            lambda: x.split(1 + size // 2, dim)[0],
            lambda: x.unfold(dim, 2, 2) if size >= 2 else x,
        ]
    if x.dim() >= 2:
        found += [lambda: x.diagonal(draw.randrange(2), 0, 1), lambda: x.mT, lambda: x.flatten()]
    if x.dim() == 2:
        found.append(lambda: x.as_strided((x.shape[1],), (x.stride(1),)))
    return found


def writes_to(torch, x, y, draw):
    """Statements that write to `x` and may read `y`."""
    value = draw.randrange(1, 5) / 4
    source = y if y.shape == x.shape else y.sum()

    def assign_first():
        if x.dim() > 0 and x.shape[0] > 0:
            x[0] = value

    def assign_where():
        x[x > value] = 0.5

    def add_out():
        torch.add(source, value, out=x) if source is y else torch.add(x, value, out=x)

    def add_at():
        if x.dim() > 0 and x.shape[0] > 0:
            x.index_add_(0, torch.tensor([0]), x[:1].clone())

    return [
        lambda: x.add_(value),
        lambda: x.mul_(source),
        lambda: x.copy_(source),
        lambda: x.fill_(value),
        lambda: x.zero_(),
        lambda: x.sin_(),
        lambda: x.lerp_(source if source is y else x.clone(), value),
        lambda: x.masked_fill_(x > value, value),
        lambda: x.clamp_(max=2.0),
        lambda: x.addcmul_(x, x, value=value),
        lambda: x.sub_(x.clone().t() if x.dim() == 2 and x.shape[0] == x.shape[1] else 1),
        assign_first,
        assign_where,
        add_out,
        add_at,
    ]


def turns_of(x):
    """In-place views."""
    if x.dim() < 2:
        return [lambda: x.unsqueeze_(0), lambda: x.squeeze_()]
    return [lambda: x.transpose_(0, 1), lambda: x.t_() if x.dim() == 2 else x.squeeze_()]


def walk(torch, seed, start, steps=12):
    """Run a program; return the elements, sizes and strides of all its tensors after each statement."""
    draw = random.Random(seed)
    aliases = [start, start.clone()]
    found = []
    for _ in range(steps):
        x, y = draw.choice(aliases), draw.choice(aliases)
        kind = draw.random()
        if kind < 0.45 and len(aliases) < 8:
            aliases.append(draw.choice(views_of(x, draw))())
        elif kind < 0.55:
            draw.choice(turns_of(x))()
        else:
            draw.choice(writes_to(torch, x, y, draw))()
        found.append([(a.clone(), tuple(a.shape), a.stride()) for a in aliases])
    return found
