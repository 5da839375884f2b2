"""Read the file of the C++ program checkpoint: read_checkpoint.py FILE DIGITS [CONTINUED_FILE].

Prints what the program prints. The third argument is a file to write after one more epoch; the program
continues from it.
"""

import sys
from pathlib import Path

import flambeau
from flambeau import nn
from flambeau.nn import functional as F


class Net(nn.Module):
    """The network of checkpoint.cpp."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.norm, self.out = nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 10)

    def forward(self, x: flambeau.Tensor) -> flambeau.Tensor:
        """Return the scores of ten digits."""
        return self.out(F.relu(self.norm(self.hidden(x))))


rows = flambeau.tensor([list(map(int, line.split())) for line in Path(sys.argv[2]).read_text().splitlines()])
x, y = rows[:, :64] / 16.0, rows[:, 64]
is_test = flambeau.arange(len(x)) % 5 == 0

checkpoint = flambeau.load(sys.argv[1])  # weights only: the file cannot run code
net = Net()
net.load_state_dict(checkpoint["model"])
optimizer = flambeau.optim.AdamW(net.parameters())
optimizer.load_state_dict(checkpoint["optimizer"])
if len(sys.argv) > 3:
    for inputs, labels in zip(x[~is_test].split(64), y[~is_test].split(64), strict=True):
        optimizer.zero_grad()
        F.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
    checkpoint["epochs"] += 1
    state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
    flambeau.save({**state, "epochs": checkpoint["epochs"]}, sys.argv[3])
right = net.eval()(x[is_test]).argmax(1).eq(y[is_test]).sum().item()
print(f"epochs {checkpoint['epochs']} right {right}")
