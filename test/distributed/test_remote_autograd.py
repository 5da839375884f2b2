"""Backward passes through calls, compared with PyTorch's; training with remote parameters."""

import pytest
from distributed.ranks import run
from distributed.remote_models import INIT, MODELS, START

END = """
rpc.shutdown()
touch(f"end{rank}")
for other in range(size):
    wait_for(f"end{other}")  # rank 0 serves the store, which PyTorch's shutdown needs
put([trained, found])
"""

SCENARIOS = """
def scenario(function, **options):
    with ad.context() as context:
        roots, *tensors = function()
        ad.backward(context, roots if isinstance(roots, list) else [roots], **options)
        theirs = [numbers(rpc.rpc_sync(w, gradient, args=(context, name))) for w, name in asked]
        found.append([function.__name__, grads(context, *tensors), [t.grad is None for t in tensors], theirs])

asked = []
def call():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    return rpc.rpc_sync("w1", mul, args=(x, y)).sum(), x, y
def twice_in_one_message():
    x = leaf(1.0, 2.0)
    return rpc.rpc_sync("w1", mul, args=(x, x)).sum(), x
def twice_in_two_messages():
    x = leaf(1.0, 2.0)
    return (rpc.rpc_sync("w1", mul, args=(x, 2)) * rpc.rpc_sync("w2", mul, args=(x, x))).sum(), x
def structures():
    x, y = leaf(1.0, 2.0), leaf(5.0, 6.0)
    a, b = rpc.rpc_sync("w1", two, args=(x, y))
    return (a * 2 + b["k"]).sum(), x, y
def one_result_alone():
    x, y = leaf(1.0, 2.0), leaf(5.0, 6.0)
    a, b = rpc.rpc_sync("w1", two, args=(x, y))
    return b["k"].sum(), x, y
def chain():
    x = leaf(0.1, 0.2)
    return rpc.rpc_sync("w1", nested, args=(["w2", "w0", "w1", "w2"], x)).sum(), x
def circle():
    x = leaf(0.1, 0.2)
    y = x * 2
    for w in ("w1", "w2", "w1", "w0"):
        y = rpc.rpc_sync(w, mul, args=(y, y + 1))
    return y.sum(), x
def two_results_of_one_graph():
    x = leaf(0.1, 0.2, 0.3)
    a, b = rpc.rpc_sync("w1", shared, args=(x,))
    return (rpc.rpc_sync("w2", mul, args=(a, b)) + a).sum(), x
def two_calls_into_one_graph():
    x = leaf(0.1, 0.2, 0.3)
    h = x.exp()
    return (rpc.rpc_sync("w1", mul, args=(h, 2)) + rpc.rpc_sync("w1", mul, args=(h.sin(), h))).sum(), x
def no_calls():
    x = leaf(1.0, 2.0)
    return (x * x).sum(), x
def two_roots():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    product, squares = rpc.rpc_sync("w1", mul, args=(x, y)), rpc.rpc_sync("w1", mul, args=(x, x))
    return [product.sum(), (x * 3).sum(), squares[0]], x, y
def references():
    x = leaf(1.0, 2.0)
    r = rpc.remote("w1", mul, args=(x, x))
    return (r.to_here() * rpc.rpc_sync("w2", by_reference, args=(r, x))).sum(), x
def a_reference_to_a_leaf():
    x = leaf(1.0, 2.0)
    return rpc.rpc_sync("w1", by_reference, args=(RRef(x), 3)).sum(), x
def futures():
    x = leaf(1.0, 2.0)
    y = rpc.rpc_async("w1", later, args=("w2", x)).then(lambda f: f.wait() + x)
    return y.wait().sum(), x
def writes_in_place():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = rpc.rpc_sync("w1", mul, args=(y, 3))
    z.add_(y)
    return z.sum(), x
def views():
    x = fw.arange(6.0).reshape(2, 3).requires_grad_()
    return rpc.rpc_sync("w1", mul, args=(x.t()[1:], x[:, 1:].t())).sum(), x
def to_itself():
    x = leaf(1.0, 2.0)
    return rpc.rpc_sync("w0", mul, args=(x, x)).sum(), x
def without_recording():
    x = leaf(1.0, 2.0)
    with fw.no_grad():
        y = rpc.rpc_sync("w1", mul, args=(x, 2))
    return (y + x).sum(), x
"""

GRADIENTS = """
if rank == 0:
    for function in (call, twice_in_one_message, twice_in_two_messages, structures, one_result_alone, chain,
                     circle, two_results_of_one_graph, two_calls_into_one_graph, no_calls, two_roots,
                     references,
                     a_reference_to_a_leaf, futures, writes_in_place, views, to_itself, without_recording):
        scenario(function)
    asked = [("w1", "a"), ("w2", "b")]
    def remote_parameters():
        x = leaf(1.0, 2.0, 3.0)
        y = rpc.rpc_sync("w1", apply_weight, args=("a", x))
        return rpc.rpc_sync("w2", apply_weight, args=("b", y * y)).sum(), x
    scenario(remote_parameters)
    scenario(remote_parameters)  # a context does not see the gradients of another one
    asked = []
    # several passes of one context
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        y = rpc.rpc_sync("w1", mul, args=(x, x)).sum()
        ad.backward(context, [y], retain_graph=True)
        ad.backward(context, [y])
        found.append(grads(context, x))
        found.append(raised(ad.backward, context, [y])[0])
        found.append(grads(context, x))
        found.append([rpc.rpc_sync("w1", known, args=(context,)), raised(ad.context().__enter__)[0]])
        other = ad.get_gradients(context)
    end = time.monotonic() + 5
    while rpc.rpc_sync("w1", known, args=(context,)) and time.monotonic() < end:
        time.sleep(0.01)
    found.append([known(context), rpc.rpc_sync("w1", known, args=(context,))])
    # contexts of several threads
    results = {}
    def train(k):
        with ad.context() as context:
            x = leaf(1.0, float(k))
            loss = rpc.rpc_sync(f"w{1 + k % 2}", mul, args=(x, x * k)).sum()
            ad.backward(context, [loss])
            results[k] = grads(context, x)
    threads = [threading.Thread(target=train, args=(k,)) for k in range(8)]
    [t.start() for t in threads], [t.join() for t in threads]
    found.append(sorted(results.items()))
    # errors
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        error = raised(ad.backward, context, [rpc.rpc_sync("w2", nested, args=(["w1"], broken(x))).sum()])
        found.append([error is not None, "broken backward" in error[1]])
        y = rpc.rpc_sync("w1", broken, args=(x,))
        error = raised(ad.backward, context, [y.sum()])
        found.append([error is not None, "broken backward" in error[1]])
        for roots in ([], [y], [fw.ones(())], y.sum(), None, [1.0]):
            found.append(raised(ad.backward, context, roots)[0])
        found.append([raised(ad.backward, 1 << 40, [y.sum()])[0], raised(ad.get_gradients, 1 << 40)[0]])
    # backward of references
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        r = rpc.remote("w1", use, args=(RRef(x),))
        r.backward(context)
        found.append(grads(context, x))
    local = RRef((x * 3).sum())
    local.backward()
    found.append([numbers(x.grad), raised(RRef(1).backward) is not None, raised(r.backward) is not None])
"""

TRAINING = """
if rank == 0:
    server_reference = rpc.remote("w1", get_server)
    found.append([round(v, 3) for v in train_with_server(server_reference, 0)])
    found.append([parameter(p) if p.is_owner() else numbers(p.to_here())
                  for p in server_reference.rpc_sync().references()])
    found.append(train_recurrent("w2"))
    batch = RRef(BatchServer(2))
    futures = [rpc.rpc_async(f"w{k}", train_in_batches, args=(batch, k)) for k in (1, 2)]
    first, second = [f.wait() for f in futures]
    found.append([first, first == second])
    # an optimizer leaves .grad alone, and says what is wrong
    p = leaf(1.0, 2.0)
    p.grad = fw.ones(2)
    steps = optim.DistributedOptimizer(fw.optim.SGD, [RRef(p)], lr=1.0)
    with ad.context() as context:
        ad.backward(context, [(p * 3).sum()])
        steps.step(context)
    found.append([numbers(p), numbers(p.grad)])
    found.append(raised(steps.step, 1 << 40)[0])
    found.append(raised(optim.DistributedOptimizer, fw.optim.SGD, [RRef(p)], nonsense=1) is not None)
"""

PROGRAM = START + SCENARIOS + MODELS + INIT + GRADIENTS + "trained, found = found, []\n" + TRAINING
PROGRAM += END


def test_gradients_and_training_are_those_of_pytorch():
    mine, theirs = run(3, PROGRAM)[0], run(3, PROGRAM, "torch")[0]
    assert len(mine[0]) > 35 and len(mine[1]) == 7
    for own, other in zip(mine[0], theirs[0], strict=True):
        assert own == other
    for own, other in zip(mine[1], theirs[1], strict=True):
        assert flat(own) == pytest.approx(flat(other), abs=2e-3), (own, other)


def flat(value):
    if isinstance(value, list):
        return [v for item in value for v in flat(item)]
    return [value if isinstance(value, int | float) else float(sum(map(ord, str(value))))]


OWN = (
    START
    + MODELS
    + """
def context_count(): return len(contexts())
def contexts():
    from flambeau.distributed._gradient_contexts import contexts
    return contexts
def quiet(function, wanted):
    end = time.monotonic() + 5
    while function() != wanted and time.monotonic() < end:
        time.sleep(0.005)
    return function()
def write_and_return(x):
    y = x * 2
    z = rpc.rpc_sync("w2", mul, args=(y, 3))
    y.mul_(5)
    return z + y
hooked = []
def note(g): hooked.append(g.tolist())
def hooks(x):
    y = x * 2
    y.register_hook(note)
    weight("hooked", 2).register_hook(note)
    return y * weight("hooked", 2)
def noted(): return hooked
def long_chain(x, n):
    for _ in range(n):
        x = x * 1.0001
    return x
def many(x): return [x * k for k in range(60)]
"""
    + INIT
    + """
if rank == 0:
    # a result that takes no part in the loss, at any depth
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        y = rpc.rpc_sync("w1", mul, args=(x, x))
        unused = rpc.rpc_sync("w2", mul, args=(y, x))
        unused_too = rpc.rpc_sync("w1", nested, args=(["w2"], x))
        ad.backward(context, [y.sum()])
        found.append(grads(context, x))
    # an undefined gradient
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        y = rpc.rpc_sync("w1", mul, args=(x, 2))
        class Stop(fw.autograd.Function):
            @staticmethod
            def forward(ctx, v): return v * 1
            @staticmethod
            def backward(ctx, g): return None
        ad.backward(context, [Stop.apply(y).sum() + x.sum()])
        found.append(grads(context, x))
    # a write after a tensor was sent: its gradient belongs to the value that was sent
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        ad.backward(context, [rpc.rpc_sync("w1", write_and_return, args=(x,)).sum()])
        found.append(grads(context, x))
    # hooks run once, with the whole gradient
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        ad.backward(context, [rpc.rpc_sync("w1", hooks, args=(x,)).sum()])
        found.append(sorted(rpc.rpc_sync("w1", noted)))
    # a pass of this process alone says what to call
    with ad.context() as context:
        y = rpc.rpc_sync("w1", mul, args=(leaf(1.0), 2))
        found.append(raised(y.sum().backward))
    # long graphs, and many messages into one graph
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        y = rpc.rpc_sync("w1", long_chain, args=(x, 3000))
        ad.backward(context, [y.sum()])
        found.append([round(v, 3) for v in ad.get_gradients(context)[x].tolist()])
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        h = x.exp()
        parts = [rpc.rpc_async(f"w{1 + k % 2}", mul, args=(h * k, h)) for k in range(40)]
        ad.backward(context, [sum(p.wait().sum() for p in parts)])
        found.append(fw.allclose(ad.get_gradients(context)[x], 780 * 2 * (2 * x).exp().detach(), rtol=1e-4))
    # several trainers at once, each with its contexts and optimizer, for the same parameters
    server_reference = rpc.remote("w1", get_server)
    futures = [rpc.rpc_async(f"w{k}", train_with_server, args=(server_reference, k)) for k in (1, 2)]
    losses = [f.wait() for f in futures]
    found.append(all(v == v for run in losses for v in run))
    # a module of another worker
    m = RemoteModule("w1/cpu", Net)
    with ad.context() as context:
        y = m(fw.ones(2, 3))
        ad.backward(context, [y.sum()])
        optim.DistributedOptimizer(fw.optim.SGD, m.remote_parameters(), lr=0.1).step(context)
    local = Net()
    same_values = local(fw.ones(2, 3))
    same_values.sum().backward()
    fw.optim.SGD(local.parameters(), lr=0.1).step()
    found.append(numbers(y) == numbers(same_values))
    remote_values = [numbers(p.to_here()) for p in m.remote_parameters()]
    found.append(remote_values == [numbers(p) for p in local.parameters()])
    found.append([m.on, str(m.device), len(m.remote_parameters(recurse=False))])
    x = fw.ones(1, 3)
    found.append(numbers(local(x)))
    other = RemoteModule.init_from_module_rref("w1", m.get_module_rref())
    found.append([numbers(m.forward_async(x).wait()), numbers(other.forward(x))])
    found.append([numbers(rpc.rpc_sync("w2", use_module, args=(m, x)))])
    refused = "parameters buffers modules state_dict cuda cpu float extra_repr requires_grad_".split()
    found.append([raised(getattr(m, name))[0] for name in refused])
    m.train(False)
    in_training = rpc.rpc_sync("w1", is_training, args=(m.get_module_rref(),))
    wrong = [("w1", int), ("nobody", Net), ("/cpu", Net), ("w1", nn.Linear, (1,))]
    found.append([raised(RemoteModule, *given)[0] for given in wrong])
    found.append([in_training, raised(pickle.dumps, m)[0]])
    # nothing remains
    found.append([quiet(lambda: rpc.rpc_sync(w, context_count), 0) for w in ("w0", "w1", "w2")])
    # a worker that has ended is an error of the pass, and not of the end of the context
    with ad.context() as context:
        x = leaf(1.0, 2.0)
        y = rpc.rpc_sync("w2", mul, args=(x, x))
        touch("leave")
        wait_for("gone")
        time.sleep(0.1)
        found.append(raised(ad.backward, context, [y.sum()]))
elif rank == 2:
    wait_for("leave")
    rpc.shutdown(graceful=False)
    touch("gone")
    put(None)
    sys.exit()
raised(rpc.shutdown)
put(found)
"""
)


def test_what_pytorch_lacks():
    found = run(3, OWN)[0]
    assert found[0] == [[2.0, 4.0]]
    assert found[1] == [[1.0, 1.0]]
    assert found[2] == [[16.0, 16.0]]
    assert found[3] == [[0.5, 1.5], [2.0, 4.0]]
    assert found[4][0] == "RuntimeError" and "distributed.autograd.backward" in found[4][1]
    assert found[5] == [round(1.0001**3000, 3)] * 2
    assert found[6:8] == [True, True]
    assert found[8:11] == [True, True, ["w1", "cpu", 0]]  # a module of another worker
    assert found[12:14] == [[found[11]] * 2, [found[11]]]
    assert found[14:17] == [
        ["ValueError"] * 9,
        ["ValueError", "RuntimeError", "ValueError", "TypeError"],
        [False, "RuntimeError"],
    ]
    assert found[17] == [0, 0, 0]
    assert found[18][0] == "RuntimeError" and "'w2'" in found[18][1]
