"""Names of private modules: PyTorch's are where PyTorch has them, and pickles find the earlier ones."""

import importlib
import pickle
import sys

import flambeau as fb
import pytest
from oracle import pytorch

MOVED = {
    "_windows": "hann_window",
    "_einsum": "einsum",
    "_rebuild": "_rebuild_sparse_tensor",
    "_storage": "UntypedStorage",
    "_typed_storage": "TypedStorage",
    "_info": "finfo",
    "_defaults": "get_default_device",
    "_grouping": "unique",
    "_recurrent": "gru",
}


@pytest.mark.parametrize("module", MOVED)
def test_pickles_name_files_that_became_rooms(module):
    name = MOVED[module]
    written = f"cflambeau.{module}\n{name}\n.".encode()  # protocol 0: a global of a module
    found = pickle.loads(written)
    assert callable(found) and found.__name__ == name
    assert pickle.loads(pickle.dumps(found)) is found


def test_a_storage_of_an_older_pickle_is_read():
    whole = fb.arange(3.0).untyped_storage()
    now = type(whole).__module__.encode()
    older = pickle.dumps(whole, 0).replace(now, b"flambeau._storage")
    assert older != pickle.dumps(whole, 0)
    assert bytes(pickle.loads(older)) == bytes(whole)


@pytest.mark.parametrize(
    "module", ["_tensor", "_tensor_str", "_utils", "_jit_internal", "_sources", "_lobpcg"]
)
def test_private_modules_of_pytorch_keep_their_place(module):
    theirs = importlib.import_module(f"{pytorch().__name__}.{module}")
    ours = importlib.import_module(f"flambeau.{module}")
    assert getattr(fb, module) is ours and sys.modules[f"flambeau.{module}"] is ours
    names = [n for n, value in vars(theirs).items() if getattr(value, "__module__", "") == theirs.__name__]
    assert [name for name in names if hasattr(ours, name)], names
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ours.no_such_name
