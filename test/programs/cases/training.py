"""Libraries that run the training loop, and files."""

from __future__ import annotations

import tempfile

import torch
from torch import nn

from programs.cases import numbers, program


def regression(count=32):
    x = torch.randn(count, 4)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))


@program("lightning/fit, checkpoint and resume")
def lightning_fit():
    import lightning as L

    class Model(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters()
            self.net, self.losses = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), []

        def training_step(self, batch, index):
            loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    L.seed_everything(0)
    data = regression()
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False,
            "enable_model_summary": False, "default_root_dir": folder, "num_sanity_val_steps": 0,
        }  # fmt: skip
        model = Model()
        first = L.Trainer(max_epochs=3, **options)
        first.fit(model, torch.utils.data.DataLoader(data, 8))
        first.save_checkpoint(f"{folder}/one.ckpt")
        again = Model()
        L.Trainer(max_epochs=6, **options).fit(
            again, torch.utils.data.DataLoader(data, 8), ckpt_path=f"{folder}/one.ckpt"
        )
        read = Model.load_from_checkpoint(f"{folder}/one.ckpt")
    torch.testing.assert_close(read.net[0].weight, model.net[0].weight)
    losses = [*model.losses, *again.losses]
    assert losses[-1] < losses[0]
    return losses


@program("accelerate/one process")
def accelerated():
    from accelerate import Accelerator

    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5)
    loader = torch.utils.data.DataLoader(regression(), 8, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses = []
    for _ in range(4):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(loss.item())
    assert losses[-1] < losses[0]
    return losses


@program("skorch/grid search")
def skorch_fit():
    import numpy as np
    from skorch import NeuralNetClassifier

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4)).astype("float32")
    y = (x.sum(1) > 0).astype("int64")
    net = NeuralNetClassifier(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2), nn.Softmax(-1)),
        max_epochs=4, lr=0.1, verbose=0, train_split=None, iterator_train__shuffle=False,
    )  # fmt: skip
    net.fit(x, y)
    return [*net.history[:, "train_loss"], float((net.predict(x) == y).mean())]


@program("fastai/learner")
def fastai_fit():
    from fastai.callback import progress, schedule
    from fastai.data.core import DataLoaders
    from fastai.learner import Learner
    from fastai.optimizer import Adam

    assert progress and schedule  # give Learner no_bar() and fit_one_cycle()
    torch.manual_seed(0)
    loaders = DataLoaders(
        torch.utils.data.DataLoader(regression(), 8), torch.utils.data.DataLoader(regression(), 8)
    )
    learner = Learner(
        loaders, nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), nn.MSELoss(), Adam, lr=1e-2
    )
    with learner.no_bar(), learner.no_logging():
        learner.fit_one_cycle(3)
    return [float(value) for value in learner.recorder.losses]


@program("safetensors/files")
def safetensors_files():
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    torch.manual_seed(0)
    state = {
        "a": torch.randn(3, 4),
        "b": torch.arange(5),
        "half": torch.randn(4).half(),
        "bf": torch.randn(3).bfloat16(),
    }
    with tempfile.TemporaryDirectory() as folder:
        save_file(state, f"{folder}/x.safetensors", metadata={"kind": "test"})
        read = load_file(f"{folder}/x.safetensors")
        with safe_open(f"{folder}/x.safetensors", "pt") as file:
            part = file.get_slice("a")[1:, :2]
    for name, value in state.items():
        torch.testing.assert_close(read[name], value)
        assert read[name].dtype == value.dtype
    return [*numbers(part), *numbers(read["half"])]


@program("torchmetrics and tensorboard/writer")
def written():
    from pathlib import Path

    from torch.utils.tensorboard import SummaryWriter

    with tempfile.TemporaryDirectory() as folder:
        with SummaryWriter(folder) as writer:
            for step in range(5):
                writer.add_scalar("loss", torch.tensor(1.0 / (step + 1)), step)
            writer.add_histogram("weights", torch.arange(10.0), 0)
        return [float(sum(path.stat().st_size > 0 for path in Path(folder).iterdir()))]


LAUNCHED = """
import torch
from accelerate import Accelerator

torch.manual_seed(0)
accelerator, model = Accelerator(cpu=True), torch.nn.Linear(2, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
for _ in range(3):
    loss = (model(torch.ones(3, 2)) - 1).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.print(loss.item(), accelerator.num_processes)
"""


@program("accelerate/launch of a script")
def launched():
    import subprocess
    import sys
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(LAUNCHED)
        command = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1"]
        done = subprocess.run([*command, f"{folder}/train.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1500:]
    return [float(word) for word in done.stdout.split()]


CELLS = (
    "import torch; _ = torch.manual_seed(0)",
    "model = torch.nn.Linear(2, 1); print(model(torch.ones(1, 2)).item())",
    "data = torch.utils.data.TensorDataset(torch.arange(8.0))",
    "print(*(b[0].sum().item() for b in torch.utils.data.DataLoader(data, 4, num_workers=2)))",
    "import subprocess, sys",
    "print(subprocess.run([sys.executable, '-c', 'import torch; print(torch.ones(3).sum().item())'],"
    " capture_output=True, text=True).stdout)",
)


@program("ipykernel/cells of a notebook")
def notebook():
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    texts = []

    def show(message):
        texts.append(message["content"].get("text", ""))
        assert message["msg_type"] != "error", message["content"]

    try:
        for cell in ("%load_ext flambeau",) * ("flambeau" in torch.__version__) + CELLS:
            client.execute_interactive(cell, output_hook=show, timeout=60)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return [float(word) for text in texts for word in text.split() if word[0].isdigit() or word[0] == "-"]
