"""Programs as users write them, run with PyTorch and with flambeau: equal numbers, from equal seeds."""

import importlib
import math
import warnings

import flambeau
import numpy as np
import pytest
from oracle import pytorch

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def plain(value):
    """Tensors as dtype, shape and numbers."""
    if hasattr(value, "detach"):
        parts = value.detach().cpu()
        parts = np.asarray(parts.numpy())
        return [str(value.dtype).rpartition(".")[2], list(value.shape), parts]
    if isinstance(value, dict):
        return [plain(list(value)), plain(list(value.values()))]
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def assert_equal(ours, theirs, where):
    if isinstance(ours, np.ndarray):
        np.testing.assert_allclose(ours, theirs, rtol=3e-4, atol=1e-5, err_msg=where)
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_equal(a, b, f"{where}[{i}]")
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=3e-4, abs=1e-5), where
    else:
        assert ours == theirs, where


def sub(torch, name):
    return importlib.import_module(f"{torch.__name__}.{name}")


@program
def mlp_training(torch):
    nn = torch.nn
    torch.manual_seed(0)
    x = torch.randn(64, 10)
    y = torch.randint(0, 3, (64,))
    m = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.2), nn.BatchNorm1d(16), nn.Linear(16, 3))
    opt = torch.optim.AdamW(m.parameters(), lr=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=20)
    out = []
    for _ in range(20):
        opt.zero_grad()
        loss = nn.CrossEntropyLoss(label_smoothing=0.1)(m(x), y)
        loss.backward()
        n = nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
        sched.step()
        out.append((loss.item(), n.item(), sched.get_last_lr()[0]))
    m.eval()
    print(m)
    print(opt)
    return out


@program
def lm_encoder(torch):
    nn = torch.nn
    torch.manual_seed(0)

    class LM(nn.Module):
        def __init__(s):
            super().__init__()
            s.e = nn.Embedding(20, 16)
            s.p = nn.Parameter(torch.randn(1, 8, 16) * 0.02)
            s.t = nn.TransformerEncoder(
                nn.TransformerEncoderLayer(
                    16, 4, 32, batch_first=True, dropout=0.0, norm_first=True, activation="gelu"
                ),
                2,
                enable_nested_tensor=False,
            )
            s.h = nn.Linear(16, 20, bias=False)
            s.h.weight = s.e.weight

        def forward(s, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            return s.h(s.t(s.e(x) + s.p, mask=mask, is_causal=True))

    m = LM()
    x = torch.randint(0, 20, (4, 8))
    opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    out = []
    for _ in range(5):
        lo = m(x[:, :])
        loss = nn.functional.cross_entropy(lo[:, :-1].reshape(-1, 20), x[:, 1:].reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        out.append(loss.item())
    print(sum(p.numel() for p in m.parameters()), [n for n, _ in m.named_parameters()][:4])
    return out


@program
def seq2seq(torch):
    nn = torch.nn
    torch.manual_seed(1)
    m = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    s = torch.randn(2, 5, 16)
    t = torch.randn(2, 4, 16)
    pad = torch.tensor([[False] * 5, [False, False, False, True, True]])
    o = m(
        s,
        t,
        tgt_mask=m.generate_square_subsequent_mask(4),
        src_key_padding_mask=pad,
        memory_key_padding_mask=pad,
    )
    o.pow(2).mean().backward()
    return o, [p.grad.norm() for p in m.parameters()]


@program
def vae(torch):
    nn = torch.nn
    F = sub(torch, "nn.functional")
    torch.manual_seed(0)
    enc = nn.Linear(12, 8)
    dec = nn.Linear(4, 12)
    x = torch.rand(16, 12)
    opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-2)
    r = []
    for _ in range(5):
        mu, lv = enc(x).chunk(2, -1)
        z = mu + torch.randn_like(mu) * (0.5 * lv).exp()
        rec = F.binary_cross_entropy_with_logits(dec(z), x, reduction="sum")
        kl = -0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
        loss = rec + kl
        opt.zero_grad()
        loss.backward()
        opt.step()
        r.append(loss.item())
    return r


@program
def gan(torch):
    nn = torch.nn
    torch.manual_seed(0)
    g = nn.Sequential(
        nn.ConvTranspose2d(4, 8, 4, 1, 0),
        nn.BatchNorm2d(8),
        nn.ReLU(True),
        nn.ConvTranspose2d(8, 1, 4, 2, 1),
        nn.Tanh(),
    )
    d = nn.Sequential(
        nn.utils.parametrizations.spectral_norm(nn.Conv2d(1, 8, 4, 2, 1)),
        nn.LeakyReLU(0.2),
        nn.Flatten(),
        nn.Linear(8 * 16, 1),
    )
    og = torch.optim.Adam(g.parameters(), 2e-3, betas=(0.5, 0.999))
    od = torch.optim.RMSprop(d.parameters(), 1e-3)
    out = []
    for _ in range(3):
        real = torch.randn(6, 1, 8, 8).tanh()
        z = torch.randn(6, 4, 1, 1)
        fake = g(z)
        ld = nn.functional.softplus(-d(real)).mean() + nn.functional.softplus(d(fake.detach())).mean()
        od.zero_grad()
        ld.backward()
        od.step()
        lg = nn.functional.softplus(-d(fake)).mean()
        og.zero_grad()
        lg.backward()
        og.step()
        out += [ld.item(), lg.item()]
    # gradient penalty
    e = torch.rand(6, 1, 1, 1)
    xi = (e * real + (1 - e) * fake.detach()).requires_grad_()
    (gr,) = torch.autograd.grad(d(xi).sum(), xi, create_graph=True)
    gp = ((gr.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
    gp.backward()
    return out, gp, d[3].weight.grad.norm()


@program
def rnn_packed(torch):
    nn = torch.nn
    rnn = sub(torch, "nn.utils.rnn")
    torch.manual_seed(0)
    seqs = [torch.randn(n, 5) for n in (4, 2, 6)]
    lens = torch.tensor([4, 2, 6])
    x = rnn.pad_sequence(seqs, batch_first=True)
    lstm = nn.LSTM(5, 7, 2, batch_first=True, bidirectional=True)
    p = rnn.pack_padded_sequence(x, lens, batch_first=True, enforce_sorted=False)
    o, (h, c) = lstm(p)
    u, ul = rnn.pad_packed_sequence(o, batch_first=True)
    loss = nn.Linear(14, 3)(torch.cat([h[-2], h[-1]], 1)).logsumexp(1).mean()
    loss.backward()
    print(p.batch_sizes, ul, p.data.shape)
    return u, h, c, loss, [q.grad.abs().sum() for q in lstm.parameters()]


@program
def resnet(torch):
    nn = torch.nn
    torch.manual_seed(0)

    class B(nn.Module):
        def __init__(s, i, o, st):
            super().__init__()
            s.c1 = nn.Conv2d(i, o, 3, st, 1, bias=False)
            s.b1 = nn.BatchNorm2d(o)
            s.c2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
            s.b2 = nn.BatchNorm2d(o)
            s.s = (
                nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o))
                if st != 1 or i != o
                else nn.Identity()
            )

        def forward(s, x):
            return torch.relu(s.b2(s.c2(torch.relu(s.b1(s.c1(x))))) + s.s(x))

    m = nn.Sequential(
        nn.Conv2d(3, 8, 7, 2, 3),
        nn.MaxPool2d(3, 2, 1),
        B(8, 8, 1),
        B(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 5),
    ).to(memory_format=torch.channels_last)
    for mod in m.modules():
        if isinstance(mod, nn.Conv2d):
            nn.init.kaiming_normal_(mod.weight, mode="fan_out", nonlinearity="relu")
    x = torch.randn(2, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    o = m(x)
    o.sum().backward()
    print(m[0](x).stride(), m[3].c1.weight.stride())
    print(str(m)[:200])
    return o, m[0].weight.grad.norm(), m[3].b1.running_var


@program
def ema_swa(torch):
    sw = sub(torch, "optim.swa_utils")
    torch.manual_seed(0)
    nn = torch.nn
    m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    e = sw.AveragedModel(m, multi_avg_fn=sw.get_ema_multi_avg_fn(0.9))
    s = sw.AveragedModel(m)
    o = torch.optim.SGD(m.parameters(), 0.1)
    sc = sw.SWALR(o, 0.05, anneal_epochs=2)
    x = torch.randn(8, 3)
    for _ in range(4):
        o.zero_grad()
        m(x).pow(2).sum().backward()
        o.step()
        e.update_parameters(m)
        s.update_parameters(m)
        sc.step()
    sw.update_bn([x[:4], x[4:]], s)
    return (
        [*e.parameters()],
        [*s.parameters()],
        s.n_averaged,
        s.module[1].running_mean,
        sc.get_last_lr(),
        list(e.state_dict()),
    )


@program
def loader(torch):
    D = sub(torch, "utils.data")
    torch.manual_seed(0)

    class DS(D.Dataset):
        def __len__(s):
            return 11

        def __getitem__(s, i):
            return {"x": torch.full((2,), float(i)), "y": i, "n": f"s{i}", "a": np.arange(2) + i}

    out = []
    for b in D.DataLoader(
        DS(), batch_size=4, shuffle=True, num_workers=2, generator=torch.Generator().manual_seed(3)
    ):
        out.append(b)
    for b in D.DataLoader(DS(), batch_size=4, collate_fn=lambda rows: [d["y"] for d in rows], drop_last=True):
        out.append(b)
    tr, te = D.random_split(DS(), [0.7, 0.3], generator=torch.Generator().manual_seed(1))
    print(len(tr), len(te), tr.indices)
    w = D.WeightedRandomSampler([0.1, 0.9, 0.5], 6, generator=torch.Generator().manual_seed(0))
    print(list(w))
    pairs = D.TensorDataset(torch.arange(6).reshape(3, 2), torch.arange(3))
    return [*out, *D.DataLoader(pairs, 2)]


@program
def einsum_attention(torch):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 6, 8).unbind(0)
    s = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(8)
    m = torch.ones(6, 6, dtype=torch.bool).tril()
    a = s.masked_fill(~m, float("-inf")).softmax(-1)
    o = torch.einsum("bhij,bhjd->bhid", a, v)
    o2 = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    mha = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    r, w = mha(q[:, 0], k[:, 0], v[:, 0], average_attn_weights=False)
    return o, o2, r, w, (o - o2).abs().max() < 1e-5


@program
def rl(torch):
    torch.manual_seed(0)
    F = sub(torch, "nn.functional")
    lg = torch.randn(5, 4, requires_grad=True)
    a = torch.tensor([0, 3, 1, 1, 2])
    lp = lg.log_softmax(-1).gather(1, a[:, None]).squeeze(1)
    R = torch.tensor([1.0, 0, 2, 1, 0])
    disc = torch.zeros(5)
    run = 0.0
    for i in range(4, -1, -1):
        run = R[i] + 0.9 * run
        disc[i] = run
    adv = (disc - disc.mean()) / (disc.std() + 1e-8)
    loss = -(lp * adv).mean() - 0.01 * -(lg.softmax(-1) * lg.log_softmax(-1)).sum(-1).mean()
    loss.backward()
    cnt = torch.zeros(4).scatter_add_(0, a, R)
    red = torch.zeros(4).scatter_reduce(0, a, R, "amax", include_self=False)
    act = torch.multinomial(lg.softmax(-1), 2, generator=torch.Generator().manual_seed(0))
    return loss, lg.grad, cnt, red, act, F.one_hot(a), F.smooth_l1_loss(lp, R, beta=0.5), F.huber_loss(lp, R)


@program
def fft_conv(torch):
    torch.manual_seed(0)
    x = torch.randn(2, 50)
    k = torch.randn(7)
    n = 56
    y = torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(k, n), n)
    z = torch.nn.functional.conv1d(x[:, None], k.flip(0)[None, None], padding=6)[:, 0]
    st = torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True)
    i = torch.istft(st, 16, 4, window=torch.hann_window(16), length=50)
    return y, z, st, i, torch.fft.fftshift(torch.fft.fftfreq(5)), torch.fft.fft2(x.reshape(10, 10)).abs()


@program
def linalg(torch):
    torch.manual_seed(0)
    A = torch.randn(6, 3, dtype=torch.float64)
    b = torch.randn(6, 2, dtype=torch.float64)
    L = torch.linalg
    s = L.lstsq(A, b)
    q, r = L.qr(A)
    S = L.svd(A, full_matrices=False)
    M = A.T @ A
    w, v = L.eigh(M)
    p = L.cholesky(M)
    return (
        s.solution,
        (q @ r),
        S.S,
        w,
        p,
        L.solve(M, torch.ones(3, dtype=torch.float64)),
        L.det(M),
        L.slogdet(M),
        L.inv(M) @ M,
        L.pinv(A),
        L.cond(A),
        L.norm(A, "nuc"),
        L.matrix_exp(M / 10),
        torch.trace(M),
        L.multi_dot([M, M, M]),
    )


@program
def complex_gd(torch):
    z = torch.tensor([1 + 1j, -2 + 0.5j], requires_grad=True)
    o = torch.optim.SGD([z], 0.1)
    r = []
    for _ in range(5):
        o.zero_grad()
        loss = (z.abs() ** 2 - 1).pow(2).sum() + (z * 1j).real.sum()
        loss.backward()
        o.step()
        r.append(loss.item())
    return r, z, z.grad, torch.view_as_real(z.detach()), z.angle(), z.conj().imag + 0


@program
def metrics(torch):
    torch.manual_seed(0)
    lg = torch.randn(20, 5)
    y = torch.randint(0, 5, (20,))
    acc = [(lg.topk(k, 1).indices == y[:, None]).any(1).float().mean() for k in (1, 2, 3)]
    s, i = torch.sort(lg[:, 0], descending=True, stable=True)
    conf = torch.bincount(y * 5 + lg.argmax(1), minlength=25).reshape(5, 5)
    u, inv, c = torch.unique(y, return_inverse=True, return_counts=True)
    return (
        acc,
        s,
        i,
        conf,
        u,
        inv,
        c,
        torch.quantile(lg, torch.tensor([0.1, 0.5, 0.9]), dim=0),
        lg.median(0),
        lg.cummax(0),
        torch.searchsorted(s.flip(0), torch.tensor([0.0, 0.5])),
        torch.bucketize(lg[0], torch.tensor([-1.0, 0, 1])),
        torch.corrcoef(lg.T),
        torch.cov(lg.T),
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, capsys):
    torch = pytorch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = plain(PROGRAMS[name](torch))
        text = capsys.readouterr().out
        ours = plain(PROGRAMS[name](flambeau))
    assert_equal(ours, theirs, name)
    assert capsys.readouterr().out.replace("flambeau", "torch") == text
