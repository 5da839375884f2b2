"""Print what one framework does with a renamed private device; arguments: the framework, the program."""

import copy
import io
import json
import pickle
import sys
import threading
import types
from importlib import import_module


def raised(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except Exception as error:
        return type(error).__name__
    return "nothing"


def refused(call, *args):
    """Whether the call raises RuntimeError. PyTorch first asks missing hooks for the index."""
    try:
        call(*args)
    except RuntimeError:
        return True
    return False


def names(torch):
    before, rename = torch.device("privateuseone:1"), torch.utils.rename_privateuse1_backend
    in_tree = [raised(rename, name) for name in ("cpu", "cuda", "xpu", "hip", "mps", "mtia", 3, None)]
    unknown = raised(torch.device, "abacus")
    rename("abacus")
    after = torch.device("abacus:1")
    found = [unknown, after == before, repr(before), before.type, hash(after) == hash(before)]
    found += [pickle.loads(pickle.dumps(after)) == before, repr(copy.deepcopy(before))]
    found += [str(torch.device("privateuseone")), torch.device("abacus").index]
    found += [raised(rename, "abacus"), raised(rename, "counter"), torch._C._get_privateuse1_backend_name()]
    found += [raised(torch.device, name) for name in ("abacus:", "abacus:x", "abacusx", "counter")]
    return in_tree + found


def name_of_a_kind_without_backend(torch):
    torch.utils.rename_privateuse1_backend("opencl")
    renamed = torch.device("opencl:2")
    return [renamed == torch.device("privateuseone:2"), repr(renamed), torch.device("opengl") == renamed]


def tensors_need_a_module(torch):
    torch.utils.rename_privateuse1_backend("abacus")
    without = [raised(torch.get_device_module, "abacus"), raised(torch.empty, 2, device="abacus")]
    module = types.ModuleType("abacus_of_wood")
    torch._register_device_module("abacus", module)
    found = [torch.abacus is module, torch.get_device_module("abacus") is module]
    found += [torch.get_device_module(torch.device("abacus", 1)) is module]
    found += [raised(torch._register_device_module, name, module) for name in ("abacus", "cpu", "counter")]
    found += [torch.get_device_module("cpu") is torch.cpu, torch.get_device_module("cuda") is torch.cuda]
    found += [raised(torch.get_device_module, value) for value in (3, "meta", "counter")]
    return without + found + [raised(torch.empty, 2, device="abacus"), refused(torch.ones(2).to, "abacus")]


def classes(torch):
    nn = torch.nn
    return [torch.Tensor, nn.Module, nn.utils.rnn.PackedSequence, torch.UntypedStorage, torch.TypedStorage]


def methods(torch):
    utils = torch.utils
    utils.rename_privateuse1_backend("abacus")
    torch._register_device_module("abacus", types.ModuleType("abacus"))
    utils.generate_methods_for_privateuse1_backend(
        for_tensor=False, for_module=False, for_packed_sequence=False, for_storage=True,
        unsupported_dtype=[torch.float64],
    )  # fmt: skip
    found = [[hasattr(c, "abacus"), hasattr(c, "is_abacus")] for c in classes(torch)]
    utils.generate_methods_for_privateuse1_backend()
    found += [[hasattr(c, "abacus"), hasattr(c, "is_abacus")] for c in classes(torch)]
    x = torch.ones(2)
    found += [x.is_abacus, x.to("meta").is_abacus, raised(setattr, x, "is_abacus", True)]
    found += [x.untyped_storage().is_abacus, x.storage().is_abacus]
    found += [raised(x.abacus, value) for value in ("cpu", "meta", "counter", 1.5, None, 1, "abacus:1", -1)]
    found += [raised(x.double().storage().abacus), raised(nn_module(torch).abacus, "cpu")]
    found.append(raised(nn_module(torch).abacus))
    packed = torch.nn.utils.rnn.pack_sequence([x])
    found += [packed.is_abacus, refused(packed.abacus)]
    return [*found, raised(utils.generate_methods_for_privateuse1_backend)]


def nn_module(torch):
    return torch.nn.Linear(1, 1)


def overrides_are_asked(torch):
    torch.utils.rename_privateuse1_backend("abacus")
    torch.utils.generate_methods_for_privateuse1_backend()
    seen = []

    class Noting(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(getattr(func, "__name__", "?"))
            return "answered"

    return [torch.ones(2).as_subclass(Noting).abacus(), seen]


def a_failed_generation_changes_nothing(torch):
    torch.utils.rename_privateuse1_backend("abacus")
    torch.nn.Module.abacus = None
    error = raised(torch.utils.generate_methods_for_privateuse1_backend)
    return [error, hasattr(torch.nn.utils.rnn.PackedSequence, "abacus")]


def one_of_many_threads_names_it(torch):
    outcome, barrier = [], threading.Barrier(8)

    def rename(name):
        barrier.wait()
        outcome.append(raised(torch.utils.rename_privateuse1_backend, name))

    threads = [threading.Thread(target=rename, args=("abacus_" + "abcdefgh"[i],)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    name = torch._C._get_privateuse1_backend_name()
    return [sorted(outcome), torch.device(name) == torch.device("privateuseone"), len(name)]


def the_name_reaches_checkpoints(torch):
    torch.utils.rename_privateuse1_backend("abacus")
    file = io.BytesIO()
    torch.save({"where": torch.device("abacus:3")}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)["where"]
    return [repr(loaded), loaded == torch.device("privateuseone:3")]


def lists_of_devices_have_the_name(torch):
    torch.utils.rename_privateuse1_backend("abacus")
    foreach, optimizer = torch.utils._foreach_utils, import_module(f"{torch.__name__}.optim.optimizer")
    lists = [foreach._get_foreach_kernels_supported_devices(), foreach._get_fused_kernels_supported_devices()]
    lists.append(optimizer._get_capturable_supported_devices())
    return [["abacus" in names, "privateuseone" in names] for names in lists]


def kernels_are_registered_by_the_name(torch):
    torch.utils.rename_privateuse1_backend("abacus")
    library, has = torch.library, torch._C._dispatch_has_kernel_for_dispatch_key
    library.define("private_device::twice", "(Tensor x) -> Tensor")
    found = [has("private_device::twice", "PrivateUse1"), torch._C._dispatch_key_for_device("abacus")]

    @library.custom_op("private_device::triple", mutates_args=(), device_types="cpu")
    def triple(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    found += [has(name, "PrivateUse1") for name in ("private_device::triple", "private_device::twice")]
    library.register_kernel("private_device::triple", "abacus", lambda x: x + x + x)
    library.impl("private_device::twice", "PrivateUse1", lambda x: x + x)
    for name in ("private_device::triple", "private_device::twice"):
        found += [has(name, "PrivateUse1"), raised(library.get_kernel, name, "PrivateUse1")]
    return [
        *found,
        raised(library.get_kernel, "private_device::twice", "CPU"),
        triple(torch.ones(2)).tolist(),
    ]


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[2]](import_module(sys.argv[1]))))
