"""Kinds of attention, and models made of them."""

from __future__ import annotations

import torch
from torch import nn

from programs.cases import descend, numbers, program


def tokens(count=32, of=2, most=20):
    torch.manual_seed(1)
    return torch.randint(0, most, (of, count))


def predicted(model, x):
    """Losses of a model that predicts each next token."""

    def loss():
        return nn.functional.cross_entropy(model(x)[:, :-1].transpose(1, 2), x[:, 1:])

    return descend(model.parameters(), loss, steps=5)


@program("rotary-embedding-torch/queries, keys and images")
def rotary():
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 8, 16), torch.randn(2, 2, 8, 16)
    rotary = RotaryEmbedding(dim=8)
    out = [rotary.rotate_queries_or_keys(q), *rotary.rotate_queries_with_cached_keys(q[:, :, -1:], k)]
    out += [*RotaryEmbedding(dim=8, use_xpos=True).rotate_queries_and_keys(q, k)]
    axial = RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=16, learned_freq=True)
    image = torch.randn(1, 4, 4, 32)
    turned = apply_rotary_emb(axial.get_axial_freqs(4, 4), image)
    (turned * image).sum().backward()
    return [n for part in (*out, turned, axial.freqs.grad) for n in numbers(part, 8)]


@program("local-attention/language model")
def local_attention():
    from local_attention import LocalTransformer

    torch.manual_seed(0)
    model = LocalTransformer(
        num_tokens=20,
        dim=16,
        depth=1,
        max_seq_len=32,
        local_attn_window_size=8,
        dim_head=8,
        heads=2,
        causal=True,
    )
    return predicted(model, tokens())


@program("performer-pytorch/language model")
def performer():
    from performer_pytorch import PerformerLM

    torch.manual_seed(0)
    model = PerformerLM(
        num_tokens=20, max_seq_len=32, dim=16, depth=1, heads=2, dim_head=8, causal=False, nb_features=16,
        feature_redraw_interval=None,
    )  # fmt: skip
    return predicted(model, tokens())


@program("linformer/language model")
def linformer():
    from linformer import LinformerLM

    torch.manual_seed(0)
    model = LinformerLM(num_tokens=20, dim=16, seq_len=32, depth=2, k=8, heads=2, reversible=True)
    return predicted(model, tokens())


@program("reformer-pytorch/language model")
def reformer():
    from reformer_pytorch import ReformerLM

    torch.manual_seed(0)
    model = ReformerLM(
        num_tokens=20,
        dim=16,
        depth=2,
        max_seq_len=32,
        heads=2,
        dim_head=8,
        bucket_size=4,
        n_hashes=2,
        causal=True,
    )
    return predicted(model, tokens())


VITS = {
    "vit": ("ViT", {"dim": 16, "depth": 1, "heads": 2, "mlp_dim": 16}),
    "simple_vit": ("SimpleViT", {"dim": 16, "depth": 1, "heads": 2, "mlp_dim": 16}),
    "deepvit": ("DeepViT", {"dim": 16, "depth": 1, "heads": 2, "mlp_dim": 16}),
    "cait": ("CaiT", {"dim": 16, "depth": 1, "cls_depth": 1, "heads": 2, "mlp_dim": 16}),
    "vit_for_small_dataset": ("ViT", {"dim": 16, "depth": 1, "heads": 2, "mlp_dim": 16}),
    "vit_with_patch_merger": ("ViT", {"dim": 16, "depth": 2, "heads": 2, "mlp_dim": 16}),
    "parallel_vit": ("ViT", {"dim": 16, "depth": 1, "heads": 2, "mlp_dim": 16}),
    "normalized_vit": ("nViT", {"dim": 16, "depth": 1, "heads": 2, "mlp_dim": 16}),
    "simple_vit_with_qk_norm": ("SimpleViT", {"dim": 16, "depth": 1, "heads": 2, "mlp_dim": 16}),
    "xcit": ("XCiT", {"dim": 16, "depth": 1, "cls_depth": 1, "heads": 2, "mlp_dim": 16}),
}


@program("vit-pytorch/ten vision transformers")
def vision_transformers():
    from importlib import import_module

    out = []
    for module, known in VITS.items():
        torch.manual_seed(0)
        model = getattr(import_module(f"vit_pytorch.{module}"), known[0])(
            image_size=16, patch_size=8, num_classes=3, **known[1]
        )
        x = torch.randn(2, 3, 16, 16)
        model.eval()
        loss = nn.functional.cross_entropy(model(x), torch.tensor([0, 2]))
        loss.backward()
        grad = next(p.grad for p in model.parameters() if p.grad is not None)
        out += [loss.item(), grad.double().abs().sum().item()]
    return out


@program("vit-pytorch/images of several sizes")
def variable_resolution():
    from vit_pytorch.na_vit import NaViT

    torch.manual_seed(0)
    free = NaViT(image_size=32, patch_size=8, num_classes=3, dim=16, depth=1, heads=2, mlp_dim=16).eval()
    images = [torch.randn(3, *size) for size in ((16, 16), (32, 8), (24, 16))]
    return numbers(free([images[:2], images[2:]]))


@program("hyper-connections/residual streams")
def hyper_connections():
    from hyper_connections import get_init_and_expand_reduce_stream_functions

    torch.manual_seed(0)
    connect, expand, reduce = get_init_and_expand_reduce_stream_functions(2)
    branch = connect(dim=8, branch=nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)))
    x = torch.randn(2, 4, 8)
    loss = lambda: (reduce(branch(expand(x))) - x * 0.5).square().mean()  # noqa: E731
    return descend(branch.parameters(), loss, steps=5)


@program("entmax/losses and sparse attention")
def entmax():
    import entmax

    torch.manual_seed(0)
    x = torch.randn(4, 6, requires_grad=True)
    y = torch.tensor([0, 1, 5, 2])
    parts = [
        entmax.sparsemax(x, -1),
        entmax.entmax15(x, -1),
        entmax.entmax_bisect(x, torch.tensor(1.3), dim=-1),
    ]
    losses = [entmax.sparsemax_loss(x, y).sum(), entmax.entmax15_loss(x, y).sum()]
    (sum(losses) + sum((p**2).sum() for p in parts)).backward()
    return [n for part in (*parts, x.grad) for n in numbers(part)] + [loss.item() for loss in losses]


@program("open-clip-torch/contrastive training")
def open_clip():
    import open_clip

    torch.manual_seed(0)
    model = open_clip.model.CLIP(
        embed_dim=16,
        vision_cfg={"image_size": 16, "layers": 1, "width": 64, "patch_size": 8, "head_width": 32},
        text_cfg={"context_length": 8, "vocab_size": 30, "width": 32, "heads": 2, "layers": 1},
    )
    images, text = torch.randn(4, 3, 16, 16), torch.randint(1, 29, (4, 8))
    text[:, -1] = 29
    criterion = open_clip.loss.ClipLoss()
    return descend(model.parameters(), lambda: criterion(*model(images, text)[:3]), steps=4)


@program("denoising-diffusion-pytorch/training and sampling")
def diffusion():
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet
    from denoising_diffusion_pytorch.denoising_diffusion_pytorch_1d import GaussianDiffusion1D, Unet1D

    torch.manual_seed(0)
    process = GaussianDiffusion(
        Unet(dim=8, dim_mults=(1, 2), flash_attn=False), image_size=8, timesteps=20, sampling_timesteps=4
    )
    images, out = torch.rand(2, 3, 8, 8), []
    optimizer = torch.optim.Adam(process.parameters(), 1e-3)
    for _ in range(3):
        loss = process(images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        out.append(loss.item())
    out += numbers(process.sample(batch_size=1))
    one = GaussianDiffusion1D(Unet1D(dim=8, dim_mults=(1, 2), channels=2), seq_length=16, timesteps=10)
    return [*out, one(torch.rand(2, 2, 16)).item()]
