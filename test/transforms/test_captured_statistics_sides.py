"""Running statistics that a transformed function captures, compared with PyTorch."""

from sides import Scenarios, raised

scenario = Scenarios()


def image(torch):
    return torch.arange(1.0, 25, dtype=torch.float64).reshape(2, 3, 2, 2).cos()


def buffers(torch):
    return torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)


def layers(torch):
    f = torch.nn.functional
    return (
        lambda x, m, v: f.batch_norm(x, m, v, training=True),
        lambda x, m, v: f.batch_norm(x, m, v, training=False),
        lambda x, m, v: f.instance_norm(x, m, v, use_input_stats=True),
        lambda x, m, v: f.instance_norm(x, m, v, use_input_stats=False),
    )


@scenario
def jvp(torch):
    found = []
    for layer in layers(torch):
        mean, var = buffers(torch)
        x = image(torch)
        out, tangent = torch.func.jvp(lambda t, f=layer, m=mean, v=var: f(t, m, v), (x,), (x.sin(),))
        found += [out, tangent.round(decimals=9), mean, var]
    return found


@scenario
def grad_and_vjp(torch):
    found = []
    for layer in layers(torch):
        mean, var = buffers(torch)
        x = image(torch)
        found.append(
            torch.func.grad(lambda t, f=layer, m=mean, v=var: f(t, m, v).pow(3).sum())(x).round(decimals=9)
        )
        _, pull = torch.func.vjp(lambda t, f=layer, m=mean, v=var: f(t, m, v), x)
        found += [pull(x)[0].round(decimals=9), mean, var]
    return found


@scenario
def jacfwd(torch):
    mean, var = buffers(torch)
    layer = layers(torch)[0]
    return [torch.func.jacfwd(lambda t: layer(t, mean, var))(image(torch)[:, :, :1]).sum((0, 1)), mean]


@scenario
def vmap(torch):
    x = torch.stack([image(torch), image(torch) * 2])
    means, variances = (torch.stack([b, b]) for b in buffers(torch))
    found = []
    for layer in layers(torch)[:2]:
        mean, var = buffers(torch)
        found.append(torch.vmap(layer)(x, means, variances))
        if layer is layers(torch)[1]:
            found.append(torch.vmap(lambda t, f=layer, m=mean, v=var: f(t, m, v))(x))
    mean, var = buffers(torch)
    whole = layers(torch)[0]
    found.append(raised("", torch.vmap(lambda t: whole(t, mean, var)), x))
    return [*found, means, variances, mean]


@scenario
def modules(torch):
    torch.manual_seed(0)
    layer = torch.nn.InstanceNorm2d(3, affine=True, track_running_stats=True).double()
    x = image(torch)
    found = [*torch.func.jvp(layer, (x,), (x.sin(),)), layer.running_mean, layer.running_var]
    layer.eval()
    return [*found, *torch.func.jvp(layer, (x,), (x.sin(),))]


@scenario
def no_variance_at_all(torch):
    f = torch.nn.functional
    x = image(torch)
    mean, var = buffers(torch)
    return [
        f.instance_norm(x, eps=0.0),
        torch.nn.InstanceNorm2d(3, eps=0)(x),
        f.instance_norm(x, mean, var, use_input_stats=False, eps=0.0),
        f.batch_norm(x, mean, var, eps=0.0),
        raised("positive during training", f.batch_norm, x, mean, var, training=True, eps=0.0),
        raised("non-negative", f.batch_norm, x, mean, var, eps=-1.0),
        f.layer_norm(x, (2, 2), eps=0.0),
        f.group_norm(x, 3, eps=0.0),
    ]


test_as_in_pytorch = scenario.test()
