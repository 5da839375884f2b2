"""One or more cases of every family of operators, by group; `cases.py` puts them behind its own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    group: str
    name: str
    setup: str
    statement: str
    per: int = 1
    unit: str = "seconds"


def group(name, setup, cases):
    """Cases that share their setup: {name: statement}, or {name: (further setup, statement)}."""
    for title, case in cases.items():
        more, statement = case if isinstance(case, tuple) else ("", case)
        yield Case(name, title, f"F = torch.nn.functional; torch.manual_seed(0)\n{setup}\n{more}", statement)


LINALG = "a = torch.randn(256, 256); b = torch.randn(256, 8); s = a @ a.mT + 256 * torch.eye(256)"
IMAGES = "x = torch.randn(16, 32, 56, 56)"
ROWS = "x = torch.randn(1024, 1024)"
ATTENTION = "q, k, v = (torch.randn(2, 8, 512, 64) for _ in range(3))"
RNN = "x = torch.randn(32, 16, 128)"
LOGITS = "x = torch.randn(512, 1000); y = torch.randint(0, 1000, (512,)); t = torch.randn(512, 1000)"
LISTS = "p = [torch.randn(64, 64) for _ in range(50)]; g = [torch.randn(64, 64) for _ in range(50)]"
GRID = "theta = torch.randn(4, 2, 3); grid = F.affine_grid(theta, (4, 16, 64, 64), False)"

FAMILIES = [
    *group(
        "linalg",
        LINALG,
        {
            "solve 256": "torch.linalg.solve(a, b)",
            "cholesky 256": "torch.linalg.cholesky(s)",
            "qr 256": "torch.linalg.qr(a)",
            "eigh 256": "torch.linalg.eigh(s)",
            "svd 128": ("a = torch.randn(128, 128)", "torch.linalg.svd(a)"),
            "inv 1024 x 4²": ("a = torch.randn(1024, 4, 4)", "torch.linalg.inv(a)"),
        },
    ),
    *group(
        "fft",
        "",
        {
            "fft 256 x 1024": ("x = torch.randn(256, 1024, dtype=torch.complex64)", "torch.fft.fft(x)"),
            "fft 1M": ("x = torch.randn(1 << 20, dtype=torch.complex64)", "torch.fft.fft(x)"),
            "fft 256 x 1009": ("x = torch.randn(256, 1009, dtype=torch.complex64)", "torch.fft.fft(x)"),
            "rfft 256 x 1024": ("x = torch.randn(256, 1024)", "torch.fft.rfft(x)"),
            "fft2 512²": ("x = torch.randn(512, 512, dtype=torch.complex64)", "torch.fft.fft2(x)"),
        },
    ),
    *group(
        "special",
        "x = torch.rand(1 << 20) * 4 + 0.1",
        {
            "lgamma 1M": "torch.lgamma(x)",
            "digamma 1M": "torch.digamma(x)",
            "erfinv 1M": ("x = torch.rand(1 << 20)", "torch.erfinv(x)"),
            "i0 1M": "torch.special.i0(x)",
            "pow 1M": "x ** 1.7",
        },
    ),
    *group(
        "attention",
        ATTENTION,
        {
            "2 x 8 x 512 x 64": "F.scaled_dot_product_attention(q, k, v)",
            "causal": "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        },
    ),
    *group(
        "rnn",
        RNN,
        {
            "lstm 32 x 16 x 128": ("m = torch.nn.LSTM(128, 128)", "m(x)"),
            "gru 32 x 16 x 128": ("m = torch.nn.GRU(128, 128)", "m(x)"),
        },
    ),
    *group(
        "pool",
        IMAGES,
        {
            "max_pool2d 2": "F.max_pool2d(x, 2)",
            "avg_pool2d 3": "F.avg_pool2d(x, 3, 2, 1)",
            "adaptive_avg_pool2d 1": "F.adaptive_avg_pool2d(x, 1)",
            "adaptive_avg_pool2d 7": "F.adaptive_avg_pool2d(x, 7)",
        },
    ),
    *group(
        "pad",
        IMAGES,
        {
            "constant": "F.pad(x, (1, 1, 1, 1))",
            "reflect": "F.pad(x, (1, 1, 1, 1), 'reflect')",
            "flip rows": "x.flip(2)",
            "flip columns": "x.flip(3)",
            "roll": "torch.roll(x, 3, 3)",
        },
    ),
    *group(
        "sort",
        ROWS,
        {
            "sort 1024²": "torch.sort(x)",
            "topk 10": "torch.topk(x, 10)",
            "unique 1M": ("x = torch.randint(0, 1000, (1 << 20,))", "torch.unique(x)"),
            "kthvalue": "torch.kthvalue(x, 100)",
            "median": "torch.median(x, 1)",
            "searchsorted 1M": ("s = torch.linspace(-3, 3, 1000)", "torch.searchsorted(s, x)"),
        },
    ),
    *group(
        "index",
        ROWS + "; i = torch.randint(0, 1024, (1024, 1024)); r = torch.randint(0, 1024, (1024,))",
        {
            "gather": "torch.gather(x, 1, i)",
            "scatter": "torch.scatter(x, 1, i, x)",
            "scatter_add": "torch.scatter_add(x, 0, i, x)",
            "x[r]": "x[r]",
            "x[mask]": ("m = x > 0", "x[m]"),
            "x[r] = y": ("y = torch.randn(1024, 1024)", "x.__setitem__(r, y)"),
            "index_select 1": "torch.index_select(x, 1, r)",
            "index_add": "torch.index_add(x, 0, r, x)",
            "nonzero": ("m = x > 0", "torch.nonzero(m)"),
            "where": ("m = x > 0", "torch.where(m, x, 0.0)"),
            "embedding": ("w = torch.randn(10000, 128); i = r.view(32, 32)", "F.embedding(i, w)"),
            "embedding_bag": ("w = torch.randn(10000, 128); i = r.view(32, 32)", "F.embedding_bag(i, w)"),
            "cat": "torch.cat([x, x], 1)",
        },
    ),
    *group(
        "resample",
        "x = torch.randn(4, 16, 64, 64)",
        {
            "interpolate nearest": "F.interpolate(x, scale_factor=2)",
            "interpolate bilinear": "F.interpolate(x, scale_factor=2, mode='bilinear')",
            "grid_sample": (GRID, "F.grid_sample(x, grid, align_corners=False)"),
        },
    ),
    *group(
        "norm",
        IMAGES + "; w = torch.ones(32); b = torch.zeros(32); n = torch.nn",
        {
            "batch_norm, training": "F.batch_norm(x, b, w, w, b, True)",
            "batch_norm, running": "F.batch_norm(x, b, w, w, b)",
            "group_norm": "F.group_norm(x, 8, w, b)",
            "rms_norm": ("x = torch.randn(4096, 1024)", "F.rms_norm(x, (1024,))"),
            "vector norm": "torch.linalg.vector_norm(x)",
        },
    ),
    *group(
        "reduction",
        "x = torch.randn(4096, 1024)",
        {
            "amax 4M": "x.amax()",
            "amax rows": "x.amax(1)",
            "max rows": "x.max(1)",
            "argmax columns": "x.argmax(0)",
            "count_nonzero 4M": "torch.count_nonzero(x)",
            "var rows": "x.var(1)",
            "mean bfloat16": ("x = x.bfloat16()", "x.mean(1)"),
            "any 4M": ("x = torch.zeros(4 << 20, dtype=torch.bool)", "x.any()"),
            "logsumexp": "torch.logsumexp(x, 1)",
            "softmax, dim 0": "torch.softmax(x, 0)",
            "softmax, middle dim": ("x = torch.randn(16, 64, 4096)", "torch.softmax(x, 1)"),
        },
    ),
    *group(
        "pointwise",
        "x = torch.randn(4 << 20)",
        {
            "clamp 4M": "x.clamp(-1, 1)",
            "relu 4M": "torch.relu(x)",
            "bfloat16 a + b 4M": ("x = x.bfloat16()", "x + x"),
        },
    ),
    *group(
        "conv",
        "x = torch.randn(8, 64, 56, 56)",
        {
            "depthwise 64 56² 3x3": ("w = torch.randn(64, 1, 3, 3)", "F.conv2d(x, w, None, 1, 1, 1, 64)"),
            "transposed 64-32 2x2/2": ("w = torch.randn(64, 32, 2, 2)", "F.conv_transpose2d(x, w, None, 2)"),
            "conv1d 64-64 3": (
                "x = torch.randn(8, 64, 1024); w = torch.randn(64, 64, 3)",
                "F.conv1d(x, w, None, 1, 1)",
            ),
        },
    ),
    *group(
        "loss",
        LOGITS,
        {
            "cross_entropy": "F.cross_entropy(x, y)",
            "mse_loss": "F.mse_loss(x, t)",
            "bce_with_logits": ("u = torch.rand(512, 1000)", "F.binary_cross_entropy_with_logits(x, u)"),
            "kl_div": ("u = torch.rand(512, 1000)", "F.kl_div(x, u, reduction='batchmean')"),
        },
    ),
    *group(
        "random",
        "x = torch.empty(1 << 20)",
        {
            "rand 1M": "torch.rand(1 << 20)",
            "randn 1M": "torch.randn(1 << 20)",
            "randperm 100K": "torch.randperm(100000)",
            "bernoulli 1M": "x.bernoulli_(0.3)",
            "dropout 1M": ("x = torch.ones(1 << 20)", "F.dropout(x, 0.5)"),
            "multinomial": ("x = torch.rand(256, 1000)", "torch.multinomial(x, 10, True)"),
        },
    ),
    *group(
        "scan",
        ROWS,
        {
            "cumsum rows": "x.cumsum(1)",
            "cumsum columns": "x.cumsum(0)",
            "cummax rows": "x.cummax(1)",
        },
    ),
    *group(
        "foreach",
        LISTS,
        {
            "add 50 x 64²": "torch._foreach_add(p, g, alpha=0.5)",
            "mul_ 50 x 64²": "torch._foreach_mul_(p, 0.999)",
            "norm 50 x 64²": "torch._foreach_norm(p)",
        },
    ),
    *group(
        "optim",
        LISTS
        + """
def made(kind, **options):
    parameters = [torch.rand(64, 64).requires_grad_() for _ in range(50)]
    for q in parameters:
        q.grad = torch.rand(64, 64)
    return getattr(torch.optim, kind)(parameters, **options)
""",
        {
            "SGD, momentum, 50 x 64²": ("o = made('SGD', lr=0.01, momentum=0.9)", "o.step()"),
            "AdamW 50 x 64²": ("o = made('AdamW')", "o.step()"),
            "AdamW, lists, 50 x 64²": ("o = made('AdamW', foreach=True)", "o.step()"),
            "RMSprop 50 x 64²": ("o = made('RMSprop')", "o.step()"),
        },
    ),
    *group(
        "distance",
        "a = torch.randn(512, 64); b = torch.randn(512, 64)",
        {
            "cdist 512 x 512 x 64": "torch.cdist(a, b)",
            "einsum bij,bjk->bik": (
                "a = torch.randn(16, 64, 64); b = torch.randn(16, 64, 64)",
                "torch.einsum('bij,bjk->bik', a, b)",
            ),
        },
    ),
]
