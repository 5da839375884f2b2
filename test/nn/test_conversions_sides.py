"""What modules do with their parameters when they convert, load and are called with others, as in PyTorch."""

import copy
import pickle
from collections import OrderedDict

from sides import Scenarios, raised, warned

scenario = Scenarios()


def swapping(torch, run):
    """What `run` gives while conversions exchange parameters."""
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        return run()
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


@scenario
def parameters_and_gradients_stay_the_objects_that_they_were(torch):
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    weight, grad = layer.weight, layer.weight.grad
    layer.double()
    return [layer.weight is weight, layer.weight.grad is grad, str(grad.dtype)[-7:]]


@scenario
def conversions_can_make_new_parameters(torch):
    layer = torch.nn.Linear(2, 2)
    weight = layer.weight
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)
    return [
        layer.weight is weight,
        str(weight.dtype)[-7:],
        torch.__future__.get_overwrite_module_params_on_conversion(),
    ]


@scenario
def conversions_can_exchange_parameters(torch):
    layer = torch.nn.Linear(2, 2)
    layer(torch.ones(1, 2)).sum().backward()
    weight, grad = layer.weight, layer.weight.grad

    def run():
        layer.to(torch.float64)
        return torch.__future__.get_swap_module_params_on_conversion()

    found = [swapping(torch, run), layer.weight is weight, layer.weight.grad is grad]
    return [*found, str(grad.dtype)[-7:], weight.requires_grad, type(weight).__name__]


@scenario
def an_exchange_that_fails_keeps_the_gradient(torch):
    layer = torch.nn.Linear(2, 1, bias=False)
    held = (layer.weight * layer.weight).sum()
    layer.weight.grad = torch.ones(1, 2)
    kind = swapping(torch, lambda: raised("couldn't swap", layer.double))
    return [kind, layer.weight.grad, held.requires_grad, str(layer.weight.dtype)[-7:]]


@scenario
def a_prefix_is_taken_off_a_state(torch):
    state = OrderedDict({"module.a": 1, "b": 2})
    state._metadata = OrderedDict({"": {}, "module": {"version": 2}, "module.x": {"version": 1}})
    torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    return [sorted(state.items()), dict(state._metadata)]


@scenario
def packed_sequences_convert(torch):
    rnn = torch.nn.utils.rnn
    packed = rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])], enforce_sorted=False)
    names = ("double", "float", "half", "long", "int", "short", "char", "byte")
    dtypes = [str(getattr(packed, name)().data.dtype).partition(".")[2] for name in names]
    same = [packed.long() is packed, packed.cpu() is packed, packed.to("cpu", dtype=torch.int64) is packed]
    meta = packed.to("meta")
    return [dtypes, same, packed.is_pinned(), meta.sorted_indices.is_meta, meta.batch_sizes.is_meta]


@scenario
def what_is_no_list_of_sequences_is_refused(torch):
    rnn = torch.nn.utils.rnn
    wrong = (5, None, [], "abc", [1])
    return [
        [raised("", rnn.pad_sequence, given)[0] for given in wrong],
        raised("", rnn.pack_sequence, []),
        raised("", rnn.pack_padded_sequence, torch.ones(3, 4), [[3, 2], [2, 1]]),
        raised("", rnn.PackedSequence, torch.ones(1), torch.ones(1, device="meta")),
    ]


@scenario
def called_with_tensors_that_the_module_replaces(torch):
    class Counts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count = self.count + 1
            return x * self.count

    module, given = Counts(), {"count": torch.ones(1)}
    result = torch.func.functional_call(module, given, torch.ones(1))
    several = {"count": torch.ones(1)}
    torch.func.functional_call(module, [several], torch.ones(1))
    return [result, given["count"], several["count"], module.count]


@scenario
def called_with_names_that_the_module_lacks(torch):
    class Reads(torch.nn.Linear):
        def forward(self, x):
            return getattr(self, "extra", torch.zeros(1)) + x

    call, module, one = torch.func.functional_call, Reads(1, 1), torch.ones(1)
    wrong = ("", "a.", "a.b")
    return [
        call(module, {"extra": one}, one),
        hasattr(module, "extra"),
        [raised("", call, module, {name: one}, one)[0] for name in wrong],
    ]


@scenario
def deprecated_forms_say_so(torch):
    parts = torch.nn.utils
    layer, weights = torch.nn.Linear(2, 1), {"weight": torch.ones(1, 2)}

    def old_backward_hook():
        watched = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
        watched.register_backward_hook(lambda *_: None)
        watched(torch.ones(1, 2, requires_grad=True)).sum().backward()

    return [
        warned("deprecated", parts.weight_norm, torch.nn.Linear(2, 1)),
        warned("deprecated", parts.stateless.functional_call, layer, weights, torch.ones(1, 2)),
        warned("", parts.clip_grad_norm_, (p for p in ()), 1.0),
        warned("", parts.clip_grad_norm_, [], 1.0),
        warned("", old_backward_hook),
    ]


@scenario
def modules_that_cannot_be_left_empty(torch):
    make = torch.nn.utils.skip_init
    wrong = (torch.ones, torch.nn.ReLU, int)
    return [raised("", make, kind, 2)[0] for kind in wrong]


@scenario
def spectral_norm_names_its_form_in_the_state(torch):
    layer = torch.nn.utils.spectral_norm(torch.nn.Linear(3, 2))
    noted = dict(layer.state_dict()._metadata)
    torch.nn.utils.remove_spectral_norm(layer)
    wrong = raised("", torch.nn.utils.spectral_norm, torch.nn.Linear(1, 1), "nothing")
    new = raised("", torch.nn.utils.parametrizations.spectral_norm, torch.nn.Linear(1, 1), "nothing")
    return [noted, dict(layer.state_dict()._metadata), wrong[0], new[0]]


@scenario
def the_projection_of_attention_has_its_own_class(torch):
    layer = torch.nn.MultiheadAttention(2, 1)
    return [
        type(layer.out_proj).__name__,
        repr(layer),
        type(pickle.loads(pickle.dumps(layer)).out_proj).__name__,
    ]


@scenario
def lazy_modules_say_what_they_lack(torch):
    layer = torch.nn.LazyLinear(2)
    return [
        raised("shape of an uninitialized", torch.nn.Linear(1, 2).load_state_dict, layer.state_dict()),
        raised("share memory on an uninitialized", layer.share_memory),
        raised("run a forward pass", torch.jit.script, layer),
        [raised("", torch.nn.LazyConv2d(1, 1), torch.ones(n * [2]))[0] for n in (1, 2, 5)],
        [torch.nn.LazyConv2d(1, 1)(torch.ones(n * [2])).shape for n in (3, 4)],
    ]


@scenario
def a_class_can_be_decorated(torch):
    def decorate():
        @torch.no_grad()
        class Made:
            def __init__(self):
                self.recording = torch.is_grad_enabled()

        return Made

    return [warned("", decorate), decorate()().recording, copy.copy(torch.is_grad_enabled())]


test_as_in_pytorch = scenario.test()
