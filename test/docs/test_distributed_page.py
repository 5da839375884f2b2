"""docs/distributed.md: programs of its sections, run by two processes, and a table of a pipeline."""

import re
import textwrap
from pathlib import Path

from distributed.ranks import run
from flambeau.distributed.pipelining._orders import one_f_one_b
from flambeau.distributed.pipelining._timeline import timed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "distributed.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
START = """
import flambeau
dist.init_process_group()
os.chdir(folder)
"""
MODEL = """
from flambeau.distributed.tensor import Shard, distribute_tensor
mesh = dist.init_device_mesh("cpu", (size,))
flambeau.manual_seed(SEED)
model = flambeau.nn.Linear(3, 5)
if SEED:
    model.weight = flambeau.nn.Parameter(distribute_tensor(model.weight.detach(), mesh, [Shard(0)]))
optimizer = flambeau.optim.Adam(model.parameters())
step = 7
for p in model.parameters():
    p.grad = flambeau.ones_like(p)
optimizer.step()
"""
END = """
whole = model.weight.full_tensor() if SEED else model.weight
put([step, whole.tolist(), weights["bias"].tolist(), optimizer.state[model.bias]["exp_avg"].tolist()])
"""


def test_a_model_is_saved_and_continued_with_other_placements():
    section = PAGE.read_text().partition("## Checkpoints\n")[2].partition("\n## ")[0]
    saving, loading = BLOCK.findall(section)
    first = START + MODEL.replace("SEED", "0") + saving
    wanted = "want = [step, model.weight.tolist(), model.bias.tolist(), [0.1] * 5]\n"
    rounded = """
def near(a, b):
    return flambeau.allclose(flambeau.tensor(a), flambeau.tensor(b))
"""
    second = MODEL.replace("SEED", "1") + "step = 0\n" + loading + END.replace("SEED", "1")
    check = textwrap.dedent(
        """
        got = json.loads(folder.joinpath(f"values-{rank}").read_text())
        put([got[0] == want[0], *[near(a, b) for a, b in zip(got[1:], want[1:])]])
        """
    )
    assert run(2, first + wanted + rounded + second + check) == [[True] * 4] * 2


def test_the_pipeline_trains_and_its_table_is_that_of_the_schedule():
    section = PAGE.read_text().partition("## Pipeline parallel\n")[2].partition("\n## ")[0]
    (program,) = BLOCK.findall(section)
    data = "flambeau.manual_seed(0)\nx, y = flambeau.randn(8, 8), flambeau.randn(8, 2)\n"
    end = "put([None if output is None else list(output.shape), len(losses)])\n"
    assert run(2, START + data + program + end) == [[None, 0], [[8, 2], 4]]
    rows = [line.split()[2:] for line in section.splitlines() if line.startswith("    rank ")]
    table = timed({rank: one_f_one_b(rank, 3, 1, 4) for rank in range(3)})
    assert rows == [["." if action is None else str(action) for action in table[rank]] for rank in range(3)]


def test_the_programs_with_calls_run():
    section = PAGE.read_text().partition("## Remote procedure calls\n")[2].partition("\n## ")[0]
    calling, training = BLOCK.findall(section)
    start = "import flambeau\nflambeau.manual_seed(0)\n"
    values = "values = [list(y.shape), total.tolist(), future.wait().tolist()] if rank == 0 else None\n"
    program = start + calling + values + training + "put([values, loss.item() if rank == 0 else None])\n"
    (values, loss), _ = run(2, program)
    assert values == [[1], [2.0, 2.0], [3.0, 3.0]] and loss < 1
