"""Benchmark cases of `compile` with the default backend: the first call, the cost of a call, steady calls."""

from families import Case

# Each first call is of a function that nobody compiled before, also not in an earlier process.
FIRST = """
F = torch.nn.functional
if torch.__name__ == "torch":
    import torch._inductor.config as inductor
    inductor.force_disable_caches = True
def first(make, *inputs):
    if hasattr(torch, "_dynamo"):
        torch._dynamo.reset()
    compiled = torch.compile(make())
    start = clock()
    compiled(*inputs)
    return clock() - start
def chain():
    return lambda x: ((x * 2 + 1).sigmoid() * x - 0.5).tanh() * 3
x = torch.randn(1 << 20)
"""
STEADY = f"""{FIRST}
compiled = torch.compile(chain())
compiled(x)
"""
CALL = """
small = torch.randn(64)
plus = torch.compile(lambda x: x + 1, backend="eager")
plus(small)
"""
LAYERS_CALL = """
layers = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(100)]).requires_grad_(False)
wide = torch.compile(layers, backend="eager")
rows = torch.randn(2, 16)
wide(rows)
"""
NORM = f"""{FIRST}
rows, w, b = torch.randn(2048, 512), torch.randn(512), torch.randn(512)
norm = torch.compile(lambda x: F.gelu(F.layer_norm(x, (512,), w, b)))
for _ in range(60):
    norm(rows)
"""
STEP = f"""{FIRST}
def gated(x, a, b):
    return (F.silu(x * a + b) * x).tanh().mean()
gate = torch.compile(gated)
g, a, b = torch.randn(512, 1024, requires_grad=True), torch.randn(1024), torch.randn(1024)
gate(g, a, b).backward()
"""

COMPILED = (
    Case("compile", "first call, six operators 1M", FIRST, "first(chain, x)", 1, "once"),
    Case("compile", "six operators 1M", STEADY, "compiled(x)"),
    Case("compile", "x + 1, 64 elements, backend eager", CALL, "plus(small)"),
    Case("compile", "100 layers 16 wide, backend eager", LAYERS_CALL, "wide(rows)"),
    Case("compile", "layer_norm + gelu 2048 x 512", NORM, "norm(rows)"),
    Case("compile", "gate 512 x 1024, forward and backward", STEP, "gate(g, a, b).backward()"),
)
