"""Functions and models of the programs that test gradients and training through calls."""

START = """
import importlib, pickle, threading
rpc = importlib.import_module(fw.__name__ + ".distributed.rpc")
ad = importlib.import_module(fw.__name__ + ".distributed.autograd")
RRef, optim = rpc.RRef, importlib.import_module(fw.__name__ + ".distributed.optim")
RemoteModule = importlib.import_module(fw.__name__ + ".distributed.nn").RemoteModule
nn, F = fw.nn, fw.nn.functional

def leaf(*values): return fw.tensor(values, requires_grad=True)
def mul(x, y): return x * y
def nested(names, x):
    y = x * (2 + rpc.get_worker_info().id)
    return rpc.rpc_sync(names[0], nested, args=(names[1:], y.sin())) + y if names else y.exp()
weights = {}
def weight(name, n=3):
    if name not in weights:
        weights[name] = fw.linspace(0.5, 1.5, n).requires_grad_()
    return weights[name]
def apply_weight(name, x): return weight(name, x.numel()) * x
def gradient(context, name): return ad.get_gradients(context).get(weights[name])
def number_of_gradients(context): return len(ad.get_gradients(context))
def shared(x):
    h = x.exp() * weight("shared")
    return h.sin(), h.cos()
def two(x, y): return [x + y, {"k": x * y}]
def by_reference(r, x): return r.to_here() * x
def use(r): return (r.to_here() ** 2).sum()
@rpc.functions.async_execution
def later(to, x): return rpc.rpc_async(to, mul, args=(x, x)).then(lambda f: f.wait() * 3)
def known(context):
    try:
        return len(ad.get_gradients(context)) >= 0
    except RuntimeError:
        return False
def numbers(x): return None if x is None else [round(v, 4) for v in x.flatten().tolist()]
def grads(context, *tensors):
    found = ad.get_gradients(context)
    return [numbers(found.get(t)) for t in tensors]
def no_gradient(x): return x.detach() * 1
class Broken(fw.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 1
    @staticmethod
    def backward(ctx, g): raise ValueError("broken backward")
def broken(x): return Broken.apply(x)
"""

INIT = """
rpc.init_rpc(f"w{rank}", rank=rank, world_size=size)
found = []
"""

MODELS = """
def numbers_of(p): return numbers(p)
def is_training(r): return r.local_value().training
def use_module(module, x): return module.forward(x)
def parameter(r): return numbers(r.local_value())

# 1. a parameter server: trainers get references to the parameters of one model
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(3, 4), nn.Linear(4, 1)
        for k, p in enumerate(self.parameters()):
            with fw.no_grad():
                p.copy_(fw.linspace(-0.5, 0.5 + 0.1 * k, p.numel()).reshape(p.shape))
    def forward(self, x): return self.outer(fw.tanh(self.inner(x)))
class Server:
    def __init__(self): self.model = Net()
    def forward(self, x): return self.model(x)
    def references(self): return [RRef(p) for p in self.model.parameters()]
server = None
def get_server():
    global server
    server = server or Server()
    return server
def train_with_server(reference, seed):
    steps = optim.DistributedOptimizer(fw.optim.SGD, reference.rpc_sync().references(), lr=0.1, momentum=0.5)
    losses = []
    for k in range(4):
        x = fw.arange(6.0).reshape(2, 3) / (seed + k + 1)
        with ad.context() as context:
            loss = F.mse_loss(reference.rpc_sync().forward(x), x.sum(1, keepdim=True))
            ad.backward(context, [loss])
            steps.step(context)
        losses.append(loss.item())
    return losses

# 2. a recurrent network in three parts: embedding and decoder in one worker, the recurrent part in another
class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)
        with fw.no_grad():
            self.table.weight.copy_(fw.linspace(-1, 1, 20).reshape(5, 4))
    def forward(self, x): return self.table(x)
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 5)
        with fw.no_grad():
            self.linear.weight.copy_(fw.linspace(1, -1, 30).reshape(5, 6))
            self.linear.bias.zero_()
    def forward(self, x): return self.linear(x)
def call_forward(r, *args): return r.local_value()(*args)
def references_of(r): return [RRef(p) for p in r.local_value().parameters()]
class Recurrent(nn.Module):
    def __init__(self, worker):
        super().__init__()
        self.embedding, self.decoder = rpc.remote(worker, Embedding), rpc.remote(worker, Decoder)
        self.rnn = nn.LSTM(4, 6)
        with fw.no_grad():
            for p in self.rnn.parameters():
                p.copy_(fw.linspace(-0.3, 0.4, p.numel()).reshape(p.shape))
    def forward(self, x, hidden):
        embedded = rpc.rpc_sync(self.embedding.owner(), call_forward, args=(self.embedding, x))
        output, hidden = self.rnn(embedded, hidden)
        return rpc.rpc_sync(self.decoder.owner(), call_forward, args=(self.decoder, output)), hidden
    def references(self):
        remote = [r for part in (self.embedding, self.decoder)
                  for r in rpc.rpc_sync(part.owner(), references_of, args=(part,))]
        return remote + [RRef(p) for p in self.rnn.parameters()]
def train_recurrent(worker):
    model = Recurrent(worker)
    steps = optim.DistributedOptimizer(fw.optim.Adam, model.references(), lr=0.05)
    losses, hidden = [], (fw.zeros(1, 2, 6), fw.zeros(1, 2, 6))
    for k in range(4):
        x = (fw.arange(6).reshape(3, 2) + k) % 5
        with ad.context() as context:
            output, hidden = model(x, tuple(h.detach() for h in hidden))
            loss = F.cross_entropy(output.reshape(-1, 5), ((x + 1) % 5).reshape(-1))
            ad.backward(context, [loss])
            steps.step(context)
        losses.append(round(loss.item(), 3))
    return losses

# 3. a server that updates its model once per batch of gradients, with functions that return futures
class BatchServer:
    def __init__(self, trainers):
        self.model, self.trainers, self.lock = Net(), trainers, threading.Lock()
        self.optimizer = fw.optim.SGD(self.model.parameters(), lr=0.1)
        self.future, self.count = fw.futures.Future(), 0
        for p in self.model.parameters():
            p.grad = fw.zeros_like(p)
    def get_model(self): return self.model
    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch(reference, gradients):
        self = reference.local_value()
        with self.lock:
            for p, g in zip(self.model.parameters(), gradients):
                p.grad += g / self.trainers
            self.count += 1
            future = self.future
            if self.count == self.trainers:
                self.count = 0
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=False)
                self.future = fw.futures.Future()
                future.set_result(self.model)
        return future
def train_in_batches(reference, seed):
    model = reference.rpc_sync().get_model()
    for k in range(3):
        x = fw.arange(6.0).reshape(2, 3) / (seed + k + 1)
        model.zero_grad()
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        gradients = [p.grad for p in model.parameters()]
        model = rpc.rpc_sync(reference.owner(), BatchServer.update_and_fetch, args=(reference, gradients))
    return [numbers(p) for p in model.parameters()]
"""
