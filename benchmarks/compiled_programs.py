"""Benchmark cases of `compile` on whole programs: steady calls, training steps, first calls, memory."""

from families import Case

BEGIN = """
F, nn = torch.nn.functional, torch.nn
torch.manual_seed(0)
def kernels():
    if torch.__name__ == "flambeau":
        from flambeau.compiler.emit import background
        background.finish(120)
def warm(call):
    for _ in range(3):
        call()
    kernels()  # then measure them
    for _ in range(40):
        call()
def stepping(model, loss, *inputs):
    compiled = torch.compile(model)
    def step():
        for p in model.parameters():
            p.grad = None
        loss(compiled(*inputs)).backward()
    return step
"""
GPT = """
class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.one, self.two = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.one(x)).split(c, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.two(x))))
class Gpt(nn.Module):
    def __init__(self, words=1000, width=128, heads=4, layers=2, most=512):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(most, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)
    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
def tokens(length, batch=4):
    return torch.randint(0, 1000, (batch, length))
def loss(logits):
    return logits.float().logsumexp(-1).mean()
"""
FIRST = """
if torch.__name__ == "torch":
    import torch._inductor.config as inductor
    inductor.force_disable_caches = True
def fresh():
    if hasattr(torch, "_dynamo"):
        torch._dynamo.reset()
    model = Gpt()
    return model, torch.compile(model)
def first(backward):
    model, compiled = fresh()
    given = tokens(128)
    start = clock()
    with torch.set_grad_enabled(backward):
        result = compiled(given)
    if backward:
        loss(result).backward()
    return clock() - start
def other_length():
    model, compiled = fresh()
    with torch.no_grad():
        compiled(tokens(128)), compiled(tokens(96))
        start = clock()
        compiled(tokens(112))
    return clock() - start
"""
# A process of its own measures what needs one: memory, and a first call that finds an earlier one's files.
OWN = f"""
import os, subprocess, sys, tempfile
cache = tempfile.TemporaryDirectory()
kept = {{"FLAMBEAU_CACHE_DIR": cache.name + "/f", "TORCHINDUCTOR_CACHE_DIR": cache.name + "/t",
        "PYTHONPYCACHEPREFIX": cache.name + "/p"}}
def alone(text):
    code = f"import {{torch.__name__}} as torch, time, resource; clock = time.perf_counter\\n" + text
    every = {{**os.environ, **kept}}
    every.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    done = subprocess.run([sys.executable, "-c", code], env=every, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the process ended with {{done.returncode}}: {{done.stderr[-400:]}}")
    return float(done.stdout.split()[-1])
PROGRAM = {BEGIN + GPT!r}
"""
WARM_START = """
START = PROGRAM + '''
compiled, given = torch.compile(Gpt()), tokens(128)
begin = clock()
with torch.no_grad():
    compiled(given)
spent = clock() - begin
kernels()
print(spent)
'''
alone(START)
"""
# The peak is what the kernel counts from a reset on, when the step is compiled and its memory is returned.
PEAK = """
STEP = PROGRAM + '''
import ctypes
from pathlib import Path
model = Gpt(layers=6)
for p in model.parameters():
    p.grad = torch.zeros_like(p)
compiled, given = torch.compile(model), tokens(256, 16)
def resident(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))
def step():
    loss(compiled(given)).backward()
warm(step)
getattr(torch._C, "_empty_cache", lambda: None)()
ctypes.CDLL(None).malloc_trim(0)
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
step()
print(resident("VmHWM") - before)
'''
"""
STEADY = {
    "gelu(x*w + b)*w 1M": (
        "x, w, b = torch.randn(1 << 20), torch.randn(1 << 20), torch.randn(1 << 20)\n"
        "f = torch.compile(lambda x: F.gelu(x * w + b) * w)",
        "f(x)",
    ),
    "softmax + mask 2048 x 512": (
        "x, m = torch.randn(2048, 512), torch.randn(512)\n"
        "f = torch.compile(lambda x: torch.softmax(x * 0.125 + m, -1))",
        "f(x)",
    ),
    "rms_norm + sigmoid 2048 x 512": (
        "x, w = torch.randn(2048, 512), torch.randn(512)\n"
        "f = torch.compile(lambda x: F.rms_norm(x, (512,), w) * x.sigmoid())",
        "f(x)",
    ),
    "cross entropy 512 x 32000, step": (
        "x, y = torch.randn(512, 32000, requires_grad=True), torch.randint(0, 32000, (512,))\n"
        "g = torch.compile(lambda x: F.cross_entropy(x, y))\n"
        "def f(x):\n    x.grad = None\n    g(x).backward()",
        "f(x)",
    ),
    "attention in words, 8 x 256 x 64": (
        "q, k, v = (torch.randn(1, 8, 256, 64) for _ in range(3))\n"
        "m = torch.full((256, 256), -1e9).triu(1)\n"
        "f = torch.compile(lambda q: torch.softmax(q @ k.mT * 0.125 + m, -1) @ v)",
        "f(q)",
    ),
    "layer_norm + gelu 2048 x 512, step": (
        "x, w, b = (torch.randn(*s, requires_grad=True) for s in ((2048, 512), (512,), (512,)))\n"
        "g = torch.compile(lambda x: F.gelu(F.layer_norm(x, (512,), w, b)))\n"
        "def f(x):\n    x.grad = w.grad = b.grad = None\n    g(x).sum().backward()",
        "f(x)",
    ),
}
TRAINING = {
    "MLP 3 x 512, 256 rows": (
        "m = nn.Sequential(*(l for _ in range(3) for l in (nn.Linear(512, 512), nn.GELU())))\n"
        "f = stepping(m, lambda y: y.square().mean(), torch.randn(256, 512))",
        "f()",
    ),
    "small ResNet, 8 x 3 x 32²": (
        "class Cell(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b = (nn.Conv2d(32, 32, 3, padding=1) for _ in range(2))\n"
        "        self.c, self.d = nn.BatchNorm2d(32), nn.BatchNorm2d(32)\n"
        "    def forward(self, x):\n"
        "        return (x + self.d(self.b(self.c(self.a(x)).relu()))).relu()\n"
        "head = nn.Linear(32768, 10)\n"
        "m = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), Cell(), Cell(), nn.Flatten(), head)\n"
        "f = stepping(m, lambda y: y.square().mean(), torch.randn(8, 3, 32, 32))",
        "f()",
    ),
    "GPT 2 x 128, 4 x 128": (f"{GPT}\nf = stepping(Gpt(), loss, tokens(128))", "f()"),
    "LSTM 32 x 16 x 128": (
        "m, x = nn.LSTM(128, 128), torch.randn(32, 16, 128)\n"
        "f = stepping(m, lambda y: y[0].square().mean(), x)",
        "f()",
    ),
    "AdamW, 8 x 512²": (
        "p = [torch.randn(512, 512, requires_grad=True) for _ in range(8)]\n"
        "for t in p:\n    t.grad = torch.randn(512, 512)\n"
        "o = torch.optim.AdamW(p, 1e-3)\no.step()\nf = torch.compile(o.step)",
        "f()",
    ),
}


def _cases():
    for title, (setup, statement) in {**STEADY, **TRAINING}.items():
        kind = "step of " if title in TRAINING else ""
        yield Case("compile", kind + title, f"{BEGIN}\n{setup}\nwarm(lambda: {statement})", statement)
    begin = BEGIN + GPT + FIRST
    yield Case("compile", "first call, GPT forward", begin, "first(False)", 1, "once")
    yield Case("compile", "first call, GPT forward and backward", begin, "first(True)", 1, "once")
    yield Case("compile", "third sequence length, GPT forward", begin, "other_length()", 1, "once")
    yield Case(
        "compile", "first call from the cache, GPT forward", OWN + WARM_START, "alone(START)", 1, "once"
    )
    yield Case("compile", "peak of a step, GPT 6 x 128", OWN + PEAK, "alone(STEP)", 1, "bytes")


PROGRAMS = tuple(_cases())
