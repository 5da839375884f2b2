"""Images, metric learning, reinforcement learning, privacy, spikes, sound, tables, sizes of models."""

from __future__ import annotations

import torch
from torch import nn

from programs.cases import descend, numbers, program


@program("pytorch-metric-learning/losses and miners")
def metric_learning():
    from pytorch_metric_learning import distances, losses, miners, samplers

    torch.manual_seed(0)
    model = nn.Linear(6, 4)
    x, labels = torch.randn(12, 6), torch.arange(12) % 3
    kinds = [
        losses.TripletMarginLoss(distance=distances.CosineSimilarity()), losses.ContrastiveLoss(),
        losses.NTXentLoss(), losses.MultiSimilarityLoss(), losses.CircleLoss(), losses.SupConLoss(),
        losses.ArcFaceLoss(3, 4), losses.ProxyAnchorLoss(3, 4), losses.FastAPLoss(), losses.NCALoss(),
    ]  # fmt: skip
    miner, out = miners.TripletMarginMiner(margin=0.2), []
    for kind in kinds:
        loss = kind(model(x), labels, miner(model(x), labels))
        loss.backward()
        out.append(loss.item())
    assert samplers
    return [*out, *numbers(model.weight.grad)]


@program("segmentation-models-pytorch/models and losses")
def segmentation():
    import segmentation_models_pytorch as smp

    out = []
    x, y = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0)), torch.zeros(2, 1, 64, 64)
    y[:, :, 8:20] = 1
    for kind in ("Unet", "FPN", "Linknet", "DeepLabV3Plus", "UnetPlusPlus"):
        torch.manual_seed(0)
        model = getattr(smp, kind)("resnet18", encoder_weights=None, classes=1)
        loss = smp.losses.DiceLoss("binary")(model(x), y) + smp.losses.FocalLoss("binary")(model(x), y)
        loss.backward()
        out.append(loss.item())
    stats = smp.metrics.get_stats((x[:, :1] > 0).long(), y.long(), mode="binary")
    return [*out, smp.metrics.iou_score(*stats, reduction="micro").item()]


@program("monai/networks, losses and transforms")
def medical():
    from monai.inferers import SlidingWindowInferer
    from monai.losses import DiceCELoss
    from monai.metrics import DiceMetric
    from monai.networks.nets import UNETR, DenseNet, UNet
    from monai.transforms import Compose, RandFlip, Rotate90, ScaleIntensity, Spacing

    torch.manual_seed(0)
    net = UNet(
        spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1
    )
    x, y = torch.rand(1, 1, 16, 16, 16), (torch.rand(1, 1, 16, 16, 16) > 0.5).long()
    criterion = DiceCELoss(to_onehot_y=True, softmax=True)
    losses = descend(net.parameters(), lambda: criterion(net(x), y), steps=3)
    net.eval()
    with torch.no_grad():
        window = SlidingWindowInferer((8, 8, 8), overlap=0.25)(x, net)
        dense = DenseNet(2, 1, 2, init_features=8, growth_rate=4, block_config=(1, 1)).eval()(x[:, :, 0])
        wide = UNETR(1, 2, (16, 16, 16), 4, hidden_size=12, mlp_dim=12, num_heads=2).eval()(x)
    metric = DiceMetric()(window.argmax(1, keepdim=True), y)
    steps = Compose([ScaleIntensity(), Rotate90(), RandFlip(1.0, 0), Spacing((2.0, 2.0, 2.0))])
    parts = (window, dense, wide, metric, torch.as_tensor(steps(x[0])))
    return losses + [n for part in parts for n in numbers(part, 6)]


@program("pytorch-msssim/similarity")
def similarity():
    from pytorch_msssim import MS_SSIM, ssim

    torch.manual_seed(0)
    x, y = torch.rand(2, 3, 176, 176, requires_grad=True), torch.rand(2, 3, 176, 176)
    value = ssim(x, y, data_range=1) + MS_SSIM(data_range=1)(x, y)
    value.backward()
    # The gradients' sum itself is what is left of terms a hundred times as large, and of their rounding.
    return [value.item(), *numbers((x.grad * 1e3).abs())]


@program("piq/image quality")
def image_quality():
    import piq

    torch.manual_seed(0)
    x, y = torch.rand(2, 3, 64, 64, requires_grad=True), torch.rand(2, 3, 64, 64)
    names = ("psnr", "ssim", "gmsd", "vif_p", "fsim", "haarpsi", "mdsi", "dss", "srsim", "vsi")
    parts = [getattr(piq, name)(x, y) for name in names] + [piq.total_variation(x)]
    sum(parts).backward()
    return [part.item() for part in parts] + numbers(x.grad * 1e3)


@program("lpips/perceptual distance")
def perceptual():
    import lpips

    torch.manual_seed(0)
    distance = lpips.LPIPS(net="squeeze", pretrained=False, pnet_rand=True, verbose=False).eval()
    x = torch.rand(1, 3, 64, 64, requires_grad=True)
    value = distance(x, torch.rand(1, 3, 64, 64)).sum()
    value.backward()
    return [value.item(), *numbers(x.grad)]


@program("pytorch-crf/sequence labels")
def random_field():
    from torchcrf import CRF

    torch.manual_seed(0)
    field, emit = CRF(4, batch_first=True), nn.Linear(5, 4)
    x, tags = torch.randn(3, 6, 5), torch.randint(0, 4, (3, 6))
    mask = torch.arange(6) < torch.tensor([[6], [4], [3]])
    parameters = [*field.parameters(), *emit.parameters()]
    losses = descend(parameters, lambda: -field(emit(x), tags, mask=mask, reduction="mean"), lr=1e-2)
    return [*losses, *(float(tag) for row in field.decode(emit(x), mask) for tag in row)]


@program("efficientnet-pytorch/forward and backward")
def efficientnet():
    from efficientnet_pytorch import EfficientNet

    torch.manual_seed(0)
    model = EfficientNet.from_name("efficientnet-b0", num_classes=3).eval()
    loss = nn.functional.cross_entropy(model(torch.randn(1, 3, 64, 64)), torch.tensor([1]))
    loss.backward()
    return [loss.item(), *numbers(model._fc.weight.grad, 8)]


@program("torchinfo/summary")
def summary():
    from torchinfo import summary
    from torchvision.models import resnet18

    model = resnet18(num_classes=4)
    found = summary(model, (1, 3, 64, 64), verbose=0)
    assert "BasicBlock" in str(found)
    return [float(found.total_params), float(found.total_mult_adds), float(found.total_output_bytes)]


@program("torchsummary/summary")
def older_summary():
    import contextlib
    import io

    from torchsummary import summary

    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        summary(
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)),
            (3, 8, 8),
            device="cpu",
        )
    return [
        float(word.replace(",", "")) for word in text.getvalue().split() if word.replace(",", "").isdigit()
    ]


@program("thop/operations")
def operations():
    from thop import profile
    from torchvision.models import mobilenet_v2

    return [float(n) for n in profile(mobilenet_v2(), (torch.randn(1, 3, 64, 64),), verbose=False)]


@program("ptflops/operations")
def operations_of_tensors():
    from ptflops import get_model_complexity_info
    from torchvision.models import resnet18

    out = []
    for backend in ("pytorch",):
        found = get_model_complexity_info(
            resnet18(), (3, 64, 64), as_strings=False, print_per_layer_stat=False, backend=backend
        )
        out += [float(n) for n in found]
    return out


@program("torch-pruning/channels of a residual network")
def pruned():
    import torch_pruning as tp
    from torchvision.models import resnet18

    torch.manual_seed(0)
    model, x = resnet18(num_classes=4).eval(), torch.randn(1, 3, 64, 64)
    pruner = tp.pruner.MetaPruner(
        model,
        x,
        importance=tp.importance.MagnitudeImportance(p=2),
        pruning_ratio=0.5,
        ignored_layers=[model.fc],
    )
    before = tp.utils.count_ops_and_params(model, x)
    pruner.step()
    after = tp.utils.count_ops_and_params(model, x)
    return [*map(float, before), *map(float, after), *numbers(model(x))]


@program("stable-baselines3/policies")
def policies():
    import gymnasium
    from stable_baselines3 import A2C, DQN, PPO

    out = []
    for kind, options in (
        (PPO, {"n_steps": 32, "batch_size": 16, "n_epochs": 2}),
        (A2C, {}),
        (DQN, {"learning_starts": 10}),
    ):
        model = kind("MlpPolicy", gymnasium.make("CartPole-v1"), seed=0, device="cpu", **options)
        model.learn(64)
        out += [n for p in list(model.policy.parameters())[:2] for n in numbers(p, 6)]
        out.append(float(model.predict([0.0, 0.1, 0.0, 0.1], deterministic=True)[0]))
    return out


@program("pytorch-ignite/engine and metrics")
def engine():
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.handlers import EarlyStopping, LRScheduler
    from ignite.metrics import Accuracy, ConfusionMatrix, Loss

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    x = torch.randn(24, 4)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x[:, :3].argmax(1)), 8)
    optimizer, criterion, out = torch.optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss(), []
    trainer = create_supervised_trainer(model, optimizer, criterion)
    metrics = {"accuracy": Accuracy(), "loss": Loss(criterion), "matrix": ConfusionMatrix(3)}
    evaluator = create_supervised_evaluator(model, metrics=metrics)
    trainer.add_event_handler(
        Events.EPOCH_COMPLETED, LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2))
    )
    evaluator.add_event_handler(
        Events.COMPLETED, EarlyStopping(3, lambda e: -e.state.metrics["loss"], trainer)
    )

    @trainer.on(Events.EPOCH_COMPLETED)
    def evaluated(engine):
        state = evaluator.run(data)
        out.extend([state.metrics["accuracy"], state.metrics["loss"], *numbers(state.metrics["matrix"])])

    trainer.run(data, max_epochs=4)
    return out


@program("opacus/private training")
def private():
    from opacus import GradSampleModule, PrivacyEngine

    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(24, 2))
    x, y = torch.randn(12, 2, 8), torch.arange(12) % 2
    wrapped = GradSampleModule(model)
    nn.functional.cross_entropy(wrapped(x), y).backward()
    out = [n for p in model.parameters() for n in numbers(p.grad_sample, 4)]
    wrapped.zero_grad()
    wrapped.remove_hooks()
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), 4)
    engine = PrivacyEngine()
    linear = nn.Linear(16, 2)
    made = engine.make_private(
        module=linear, optimizer=torch.optim.SGD(linear.parameters(), 0.1), data_loader=data,
        noise_multiplier=1e-6, max_grad_norm=1.0, poisson_sampling=False,
    )  # fmt: skip
    for a, b in made[2]:
        made[1].zero_grad()
        loss = nn.functional.cross_entropy(made[0](a.flatten(1)), b)
        loss.backward()
        made[1].step()
        out.append(loss.item())
    return out


@program("snntorch/leaky neurons")
def leaky():
    import snntorch as snn
    from snntorch import functional, spikegen, surrogate

    torch.manual_seed(0)
    first, neuron, last = (
        nn.Linear(4, 8),
        snn.Leaky(0.9, spike_grad=surrogate.fast_sigmoid()),
        nn.Linear(8, 3),
    )
    x, y = spikegen.rate(torch.rand(6, 4), num_steps=5), torch.arange(6) % 3

    def loss():
        memory, spikes = neuron.init_leaky(), []
        for step in x:
            spike, memory = neuron(first(step), memory)
            spikes.append(last(spike))
        return functional.ce_rate_loss()(torch.stack(spikes), y)

    return descend([*first.parameters(), *last.parameters()], loss, steps=5, lr=1e-2)


@program("pytorch-tabnet/table")
def table():
    import numpy as np
    from pytorch_tabnet.tab_model import TabNetRegressor

    rng = np.random.default_rng(0)
    x = rng.standard_normal((64, 5)).astype("float32")
    y = x.sum(1, keepdims=True)
    model = TabNetRegressor(n_d=4, n_a=4, n_steps=2, seed=0, verbose=0, device_name="cpu")
    model.fit(x, y, max_epochs=4, batch_size=32, virtual_batch_size=16)
    return [
        *model.history["loss"],
        *model.predict(x[:4])[:, 0].tolist(),
        *model.feature_importances_.tolist(),
    ]


@program("julius/resampling and filters")
def sound():
    import julius

    torch.manual_seed(0)
    x = torch.randn(1, 1, 400, requires_grad=True)
    parts = [
        julius.resample_frac(x, 4, 5),
        julius.lowpass_filter(x, 0.1),
        julius.fft_conv1d(x, torch.randn(1, 1, 32)),
    ]
    parts.append(julius.SplitBands(100, 3)(x))
    sum(part.square().sum() for part in parts).backward()
    return [n for part in (*parts, x.grad) for n in numbers(part, 8)]


@program("asteroid-filterbanks/analysis and synthesis")
def filterbank():
    from asteroid_filterbanks import STFTFB, Decoder, Encoder, FreeFB
    from asteroid_filterbanks.transforms import mag

    torch.manual_seed(0)
    x, out = torch.randn(2, 1, 200), []
    for bank in (FreeFB(16, 16, 8), STFTFB(16, 16, 8)):
        encoder = Encoder(bank)
        decoder = Decoder.pinv_of(encoder)
        code = encoder(x)
        out += [*numbers(code, 8), *numbers(mag(code), 8), *numbers(decoder(code), 8)]
    return out
