"""Keywords that PyTorch's documentation names, and calls that differ from our schemas."""

import io
import re

import pytest
from sides import Scenarios

scenario = Scenarios()
FORMS = {
    "split": lambda t: t.split(tensor=t.arange(6), split_size_or_sections=2, dim=0),
    "split into": lambda t: t.split(t.arange(6), [2, 4]),
    "promote_types": lambda t: str(t.promote_types(type1=t.int8, type2=t.float32)).rpartition(".")[2],
    "can_cast": lambda t: t.can_cast(from_=t.int8, to=t.float32),
    "result_type": lambda t: str(t.result_type(tensor=t.ones(2), other=1j)).rpartition(".")[2],
    "cpu": lambda t: t.ones(1, 2, 2, 2).cpu(memory_format=t.channels_last).stride(),
    "rand_like": lambda t: t.rand_like(t.ones(3), generator=t.Generator().manual_seed(1)),
    "randn_like": lambda t: t.randn_like(t.ones(2), generator=t.Generator().manual_seed(1)),
    "randint_like": lambda t: t.randint_like(t.ones(3), 9, generator=t.Generator().manual_seed(1)),
    "randint_like low": lambda t: t.randint_like(t.ones(3), 3, 9, generator=t.Generator().manual_seed(1)),
    "save": lambda t: t.save(t.ones(1), io.BytesIO(), _use_new_zipfile_serialization=True),
    "names of functional": lambda t: t.functional.einsum("ij->j", t.ones(2, 3)),
    "anomaly": lambda t: [t.set_anomaly_enabled(True), t.is_anomaly_enabled(), t.set_anomaly_enabled(False)],
    "module parts": lambda t: [t.nn.modules.utils._triple(2), t.nn.modules.conv.Conv2d.__name__],
}


def _scenario(name):
    def call(torch):
        return FORMS[name](torch)

    call.__name__ = re.sub(r"\W", "_", name)
    return call


for _name in FORMS:
    scenario(_scenario(_name))
test_forms = scenario.test()


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_process_gets_its_share_of_the_samples(rank, drop_last):
    from flambeau.utils.data import DistributedSampler as Ours
    from oracle import pytorch

    theirs = pytorch().utils.data.DistributedSampler
    for size in (1, 2, 10, 12):
        for shuffle in (False, True):
            args = (range(size), 3, rank, shuffle, 5, drop_last)
            a, b = Ours(*args), theirs(*args)
            a.set_epoch(2)
            b.set_epoch(2)
            assert list(a) == list(b)
            assert len(a) == len(b)
    with pytest.raises(ValueError, match="Invalid rank 3"):
        Ours(range(3), 3, 3)
