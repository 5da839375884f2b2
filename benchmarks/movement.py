"""Cases about moving elements: copies in another order, half types, sorting, long transforms."""

from families import Case, group

HALF = "x = torch.randn(4096, 1024).bfloat16(); y = torch.randn(4096, 1024).bfloat16()"
AFFINE = "w = torch.ones(1024).bfloat16(); b = torch.zeros(1024).bfloat16()"

MOVEMENT: list[Case] = [
    *group(
        "copies",
        "",
        {
            "permute to channels last": (
                "x = torch.randn(16, 64, 56, 56)",
                "x.permute(0, 2, 3, 1).contiguous()",
            ),
            "pixels of 3 channels apart": (
                "x = torch.randn(16, 224, 224, 3)",
                "x.permute(0, 3, 1, 2).contiguous()",
            ),
            "t 2048²": ("x = torch.randn(2048, 2048)", "x.t().contiguous()"),
            "t 2048² bfloat16": ("x = torch.randn(2048, 2048).bfloat16()", "x.t().contiguous()"),
            "heads": ("x = torch.randn(8, 512, 12, 64)", "x.permute(0, 2, 1, 3).contiguous()"),
            "float32 to bfloat16": ("x = torch.randn(1 << 22)", "x.bfloat16()"),
            "bfloat16 to float32": ("x = torch.randn(1 << 22).bfloat16()", "x.float()"),
        },
    ),
    *group(
        "bfloat16",
        HALF,
        {
            "sum": "x.sum()",
            "sum rows": "x.sum(1)",
            "softmax": "torch.softmax(x, -1)",
            "layer_norm": (AFFINE, "F.layer_norm(x, (1024,), w, b)"),
            "group_norm": ("x = torch.randn(16, 32, 56, 56).bfloat16()", "F.group_norm(x, 8)"),
        },
    ),
    *group(
        "fft",
        "",
        {
            "fft 256K": ("x = torch.randn(1 << 18, dtype=torch.complex64)", "torch.fft.fft(x)"),
            "fft2 64 x 256²": ("x = torch.randn(64, 256, 256, dtype=torch.complex64)", "torch.fft.fft2(x)"),
            "rfft2 64 x 256²": ("x = torch.randn(64, 256, 256)", "torch.fft.rfft2(x)"),
            "irfft 256 x 1024": ("x = torch.randn(256, 513, dtype=torch.complex64)", "torch.fft.irfft(x)"),
        },
    ),
    *group(
        "sort",
        "",
        {
            "sort int64 1M": ("x = torch.randint(0, 1 << 40, (1 << 20,))", "torch.sort(x)"),
            "sort float32 1M": ("x = torch.randn(1 << 20)", "torch.sort(x)"),
        },
    ),
    *group(
        "pool",
        "x = torch.randn(16, 64, 112, 112)",
        {"max_pool2d 3x3/2": "F.max_pool2d(x, 3, 2, 1)"},
    ),
    *group(
        "index",
        "x = torch.randn(1024, 1024); i = torch.randint(0, 1024, (1024, 1024))",
        {"gather 0": "torch.gather(x, 0, i)"},
    ),
]
