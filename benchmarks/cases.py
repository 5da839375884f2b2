"""The benchmark cases: each is setup code and a timed statement, run alike by both frameworks.

`torch` is the framework under test (flambeau or PyTorch). A case may give `per` (how many units one
run of the statement stands for) and `unit`: of "bytes" (and "once", seconds), the statement
returns the value itself. Cases of single families stand in families.py, larger
networks in networks.py, jobs of several processes in distributed.py.
"""

from compiled import COMPILED
from compiled_programs import PROGRAMS
from distributed import DISTRIBUTED
from families import FAMILIES, Case
from layers import LAYERS
from movement import MOVEMENT
from networks import LSTM, RESNET, TINY


def pointwise(name, expression, size):
    millions = size >> 20
    return Case(
        "pointwise", f"{name} {millions}M", f"a = torch.rand({size}); b = torch.rand({size})", expression
    )


def product(n):
    return Case(
        "matmul", f"mm {n}", f"a = torch.randn({n}, {n}); b = torch.randn({n}, {n})", "torch.mm(a, b)"
    )


def conv(channels, out, size, kernel, stride):
    setup = (
        f"x = torch.randn(8, {channels}, {size}, {size}); "
        f"w = torch.randn({out}, {channels}, {kernel}, {kernel}); "
        f"conv = torch.nn.functional.conv2d"
    )
    return Case(
        "conv",
        f"{channels}-{out} {size}² {kernel}x{kernel}/{stride}",
        setup,
        f"conv(x, w, None, {stride}, {kernel // 2})",
    )


ONE = "a = torch.ones(1); b = torch.ones(1)"
ONE_GRAD = "a = torch.ones(1, requires_grad=True); b = torch.ones(1)"
MATRIX = "x = torch.randn(64, 64)"
CHAIN = """
def forward():
    y = x
    for _ in range(1000):
        y = y * 1.0001
    return y
x = torch.ones(1, requires_grad=True)
import time
def backward():
    y = forward()
    start = time.perf_counter()
    y.backward(torch.ones(1))
    spent = time.perf_counter() - start
    x.grad = None
    return spent
"""
TRAIN = """
nn = torch.nn
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
    nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Dropout(0.25), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
x = torch.randn(32, 1, 8, 8); y = torch.randint(0, 10, (32,))
def step():
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
MLP = """
nn = torch.nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 64); y = torch.randint(0, 10, (64,))
def step():
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
# Per-sample gradients of a small network, by a loop of backward passes and by vmap.
SAMPLES = """
nn, func = torch.nn, torch.func
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
parameters = {name: p.detach() for name, p in model.named_parameters()}
x = torch.randn(64, 64); y = torch.randint(0, 10, (64,))
def loss(p, x, y):
    return nn.functional.cross_entropy(func.functional_call(model, p, (x.unsqueeze(0),)), y.unsqueeze(0))
mapped = torch.vmap(func.grad(loss), in_dims=(None, 0, 0))
def loop():
    rows = []
    for i in range(64):
        rows.append(torch.autograd.grad(
            nn.functional.cross_entropy(model(x[i:i + 1]), y[i:i + 1]), list(model.parameters())))
    return [torch.stack(column) for column in zip(*rows)]
"""
CONV_SAMPLES = """
nn, func = torch.nn, torch.func
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 10))
parameters = {name: p.detach() for name, p in model.named_parameters()}
x = torch.randn(32, 1, 8, 8); y = torch.randint(0, 10, (32,))
def loss(p, x, y):
    return nn.functional.cross_entropy(func.functional_call(model, p, (x.unsqueeze(0),)), y.unsqueeze(0))
mapped = torch.vmap(func.grad(loss), in_dims=(None, 0, 0))
"""
TRANSFORM = """
func = torch.func
torch.manual_seed(0)
w = torch.randn(64, 64); v = torch.randn(64); one = torch.randn(64)
def layer(v):
    return torch.tanh(w @ v)
def scalar(v):
    return torch.tanh(w @ v).square().sum()
"""

# Memory is what the process has: peaks as the kernel counts them, from a reset on.
MEMORY = """
import ctypes
import time
from importlib import import_module
from pathlib import Path
def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
graphs = []  # alive, so that the next round finds no memory that this one has freed
def graph_bytes():
    x = torch.ones(1, requires_grad=True)
    before = resident("VmRSS")
    y = x
    for _ in range(300_000):
        y = y * x
    graphs.append(y)
    return (resident("VmRSS") - before) / 300_000
def chain():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0001
    start = time.perf_counter()
    y.backward()
    del y
    return time.perf_counter() - start
checkpoint = import_module(torch.__name__ + ".utils.checkpoint").checkpoint
def peak(wrap):
    def block(t):
        for _ in range(4):
            t = t.sin().exp().tanh()
        return t
    x = torch.rand(1 << 20, requires_grad=True)
    getattr(torch._C, "_empty_cache", lambda: None)()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    y = x
    for _ in range(8):
        y = wrap(block, y)
    y.sum().backward()
    return resident("VmHWM") - before
def plain(block, y):
    return block(y)
def checkpointed(block, y):
    return checkpoint(block, y, use_reentrant=False)
"""

CASES = [
    Case("overhead", "a + b, one element", ONE, "a + b"),
    Case("overhead", "a + b, one element, with grad", ONE_GRAD, "a + b"),
    Case("overhead", "a + 1, one element", ONE, "a + 1"),
    Case("overhead", "torch.add(a, b, out=c)", ONE + "; c = torch.ones(1)", "torch.add(a, b, out=c)"),
    Case("views", "transpose", MATRIX, "x.transpose(0, 1)"),
    Case("views", "view", MATRIX, "x.view(4096)"),
    Case("views", "x[3]", MATRIX, "x[3]"),
    Case("views", "x[1:5, ::2]", MATRIX, "x[1:5, ::2]"),
    Case("views", "unsqueeze", MATRIX, "x.unsqueeze(0)"),
    Case("autograd", "backward, per node of 1000", CHAIN, "backward()", 1000),
    Case("autograd", "graph memory per node", MEMORY, "graph_bytes()", 1, "bytes"),
    Case("autograd", "peak of 96 layers of 4 MiB", MEMORY, "peak(plain)", 1, "bytes"),
    Case("autograd", "the same, checkpointed by 12", MEMORY, "peak(checkpointed)", 1, "bytes"),
    Case("autograd", "backward and end of 1M nodes, each", MEMORY, "chain()", 1_000_000, "once"),
    pointwise("a + b", "a + b", 4 << 20),
    pointwise("a + b", "a + b", 16 << 20),
    pointwise("a * 2", "a * 2", 16 << 20),
    pointwise("exp", "a.exp()", 4 << 20),
    pointwise("tanh", "a.tanh()", 4 << 20),
    pointwise("sigmoid", "a.sigmoid()", 4 << 20),
    pointwise("gelu", "torch.nn.functional.gelu(a)", 4 << 20),
    Case(
        "pointwise",
        "exp 16K, in cache",
        "a = torch.rand(16384); o = torch.empty(16384)",
        "torch.exp(a, out=o)",
    ),
    Case(
        "pointwise",
        "log 16K, in cache",
        "a = torch.rand(16384); o = torch.empty(16384)",
        "torch.log(a, out=o)",
    ),
    Case("pointwise", "row broadcast 4M", "a = torch.rand(2048, 2048); b = torch.rand(2048)", "a + b"),
    Case("pointwise", "transposed 4M", "a = torch.rand(2048, 2048); b = torch.rand(2048, 2048).t()", "a + b"),
    Case("reduction", "sum 16M", "a = torch.rand(1 << 24)", "a.sum()"),
    Case("reduction", "sum rows 4M", "a = torch.rand(2048, 2048)", "a.sum(1)"),
    Case("reduction", "sum columns 4M", "a = torch.rand(2048, 2048)", "a.sum(0)"),
    Case("reduction", "softmax 4096 x 1024", "a = torch.randn(4096, 1024)", "torch.softmax(a, 1)"),
    Case(
        "reduction",
        "layer_norm 4096 x 1024",
        "a = torch.randn(4096, 1024)",
        "torch.nn.functional.layer_norm(a, (1024,))",
    ),
    *(product(n) for n in (64, 128, 256, 512, 1024, 2048)),
    Case(
        "matmul",
        "bmm 64 x 64²",
        "a = torch.randn(64, 64, 64); b = torch.randn(64, 64, 64)",
        "torch.bmm(a, b)",
    ),
    Case(
        "matmul",
        "bmm 512 x 16²",
        "a = torch.randn(512, 16, 16); b = torch.randn(512, 16, 16)",
        "torch.bmm(a, b)",
    ),
    Case("matmul", "a @ b.t() 1024", "a = torch.randn(1024, 1024); b = torch.randn(1024, 1024)", "a @ b.t()"),
    Case(
        "matmul",
        "bfloat16 mm 1024",
        "a = torch.randn(1024, 1024).bfloat16(); b = torch.randn(1024, 1024).bfloat16()",
        "torch.mm(a, b)",
    ),
    Case("matmul", "mv 2048", "a = torch.randn(2048, 2048); b = torch.randn(2048)", "torch.mv(a, b)"),
    conv(3, 64, 112, 7, 2),
    conv(64, 64, 56, 3, 1),
    conv(128, 128, 28, 3, 1),
    conv(256, 256, 14, 3, 1),
    conv(512, 512, 7, 3, 1),
    conv(64, 256, 56, 1, 1),
    *FAMILIES,
    *LAYERS,
    *COMPILED,
    *PROGRAMS,
    *MOVEMENT,
    *DISTRIBUTED,
    Case("training", "digits network, batch 32", TRAIN, "step()"),
    Case("training", "MLP, batch 64", MLP, "step()"),
    Case("training", "ResNet-18, 4 x 3 x 112²", RESNET, "step()"),
    Case("training", "LSTM 32 x 16 x 128", LSTM, "step()"),
    Case("tiny", "Linear(4, 4)", TINY, "layer(x)"),
    Case("tiny", "SGD, 20 x 4²", TINY, "optimizer.step()"),
    Case("transforms", "per-sample gradients, MLP, loop", SAMPLES, "loop()"),
    Case("transforms", "per-sample gradients, MLP, vmap", SAMPLES, "mapped(parameters, x, y)"),
    Case("transforms", "per-sample gradients, conv, vmap", CONV_SAMPLES, "mapped(parameters, x, y)"),
    Case("transforms", "vmap of one operator", TRANSFORM + "f = torch.vmap(torch.sin)", "f(w)"),
    Case("transforms", "grad", TRANSFORM + "f = func.grad(scalar)", "f(v)"),
    Case("transforms", "jvp", TRANSFORM, "func.jvp(layer, (v,), (one,))"),
    Case("transforms", "jacrev 64 x 64", TRANSFORM + "f = func.jacrev(layer)", "f(v)"),
    Case("transforms", "jacfwd 64 x 64", TRANSFORM + "f = func.jacfwd(layer)", "f(v)"),
    Case("transforms", "hessian 64 x 64", TRANSFORM + "f = func.hessian(scalar)", "f(v)"),
]
