"""Libraries of optimizers, and averages of parameters."""

from __future__ import annotations

import torch
from torch import nn

from programs.cases import numbers, program


def problem():
    """A small model, and its loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    x = torch.randn(16, 4)
    return model, lambda: nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))


def trained(model, loss_of, optimizer, steps=8):
    """Losses of a few steps, in the form that optimizers with a closure need."""

    def closure():
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward(create_graph=getattr(optimizer, "needs_graph", False))
        return loss

    out = []
    for _ in range(steps):
        optimizer.step(closure)
        out.append(loss_of().item())
    return out


def falling(losses):
    assert losses[-1] < losses[0], losses
    return losses


@program("lion-pytorch/training")
def lion():
    from lion_pytorch import Lion
    from lion_pytorch.cautious_lion import Lion as Cautious

    model, loss = problem()
    losses = falling(trained(model, loss, Lion(model.parameters(), lr=1e-2, weight_decay=1e-2)))
    return losses + falling(trained(model, loss, Cautious(model.parameters(), lr=1e-3, cautious_factor=0.1)))


@program("schedulefree/training and evaluation")
def schedule_free():
    import schedulefree

    out = []
    for kind in ("AdamWScheduleFree", "SGDScheduleFree", "RAdamScheduleFree"):
        model, loss = problem()
        optimizer = getattr(schedulefree, kind)(model.parameters(), lr=1e-2)
        optimizer.train()
        out += trained(model, loss, optimizer)
        optimizer.eval()
        out += [loss().item(), *numbers(model[0].weight, 4)]
    return out


@program("pytorch-optimizer/optimizers, one after another")
def many_optimizers():
    import pytorch_optimizer

    names = (
        "ADOPT AdaBelief AdaBound AdaDelta AdaFactor AdaGC AdaHessian AdaMax AdaMod AdaNorm AdaPNM "
        "AdaShift AdaSmooth AdamC AdamG AdamP AdaTAM Adai Adalite AggMo Aida AdEMAMix Amos ASGD AvaGrad "
        "CAME DAdaptAdam DAdaptSGD DiffGrad FAdam FTRL Fromage GaLore Grams Gravity GrokFastAdamW Kate "
        "Lamb LARS Lion MADGRAD MARS MSVAG NAdam NovoGrad PAdam PID PNM Prodigy QHAdam QHM RACS Ranger "
        "Ranger21 RAdam SCION ScalableShampoo SGDP SGDSaI SGDW SOAP SRMM SWATS Shampoo SM3 SignSGD "
        "SimplifiedAdEMAMix SophiaH StableAdamW TAM Tiger VSGD Yogi "
    ).split()
    out = []
    for name in names:
        kind = getattr(pytorch_optimizer, name)
        model, loss = problem()
        options = {"num_iterations": 8} if name == "Ranger21" else {}
        optimizer = kind(model.parameters(), **options)
        optimizer.needs_graph = name in ("AdaHessian", "SophiaH")
        out += trained(model, loss, optimizer)
    return out


@program("torch-optimizer/training")
def older_optimizers():
    import torch_optimizer

    out = []
    names = (
        "AdaBound AdaMod AggMo DiffGrad Lamb NovoGrad QHAdam RAdam Ranger SGDP Shampoo SWATS Yogi A2GradExp "
        "AccSGD Adafactor AdamP Apollo MADGRAD PID"
    ).split()
    for name in names:
        model, loss = problem()
        out += trained(model, loss, getattr(torch_optimizer, name)(model.parameters()))
    return out


@program("adabelief-pytorch/training")
def adabelief():
    from adabelief_pytorch import AdaBelief

    model, loss = problem()
    optimizer = AdaBelief(model.parameters(), lr=1e-2, eps=1e-12, rectify=True, print_change_log=False)
    return falling(trained(model, loss, optimizer))


@program("madgrad/training")
def madgrad():
    from madgrad import MADGRAD, MirrorMADGRAD

    out = []
    for kind in (MADGRAD, MirrorMADGRAD):
        model, loss = problem()
        out += falling(trained(model, loss, kind(model.parameters(), lr=1e-2)))
    return out


@program("ema-pytorch/training")
def exponential_average():
    from ema_pytorch import EMA

    model, loss = problem()
    ema = EMA(model, beta=0.9, update_after_step=2, update_every=2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(8):
        trained(model, loss, optimizer, 1)
        ema.update()
    again = EMA(model, beta=0.9)
    again.load_state_dict(ema.state_dict())
    return [*numbers(ema.ema_model[0].weight), *numbers(again(torch.ones(2, 4)))]


@program("torch-ema/training")
def torch_ema():
    from torch_ema import ExponentialMovingAverage

    model, loss = problem()
    ema, optimizer, out = (
        ExponentialMovingAverage(model.parameters(), 0.9),
        torch.optim.Adam(model.parameters()),
        [],
    )
    for _ in range(6):
        trained(model, loss, optimizer, 1)
        ema.update()
        with ema.average_parameters():
            out.append(loss().item())
    ema.copy_to()
    return [*out, loss().item()]
