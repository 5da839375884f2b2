"""Train a convolutional network on the handwritten digits that scikit-learn ships.

1,797 pictures of 8 x 8 pixels; a fifth is held out. Prints loss and accuracy per epoch, saves the
loss curve and the confusion matrix as a picture, and fails if the accuracy stays below 97%.
"""

import argparse
import sys
import time
from pathlib import Path

import flambeau as torch
import numpy as np
from flambeau import nn
from flambeau.nn import functional as F
from flambeau.utils.data import DataLoader, TensorDataset
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split


class DigitNet(nn.Module):
    """Two convolutions with batch norm, then two linear layers: 8 x 8 pixels to 10 scores."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),
            nn.Dropout(0.25),
            nn.Linear(64, 10),
        )

    def forward(self, x):
        return self.classifier(self.features(x))


def device(name):
    if name.startswith("opencl"):
        import flambeau_opencl  # noqa: F401  (makes the device)
    return torch.device(name)


def load(batch_size, device):
    digits = load_digits()
    pixels = (digits.images / 16.0).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    split = train_test_split(pixels, labels, test_size=0.2, random_state=0, stratify=labels)
    train_x, test_x, train_y, test_y = (torch.from_numpy(part).to(device) for part in split)
    loader = DataLoader(TensorDataset(train_x, train_y), batch_size=batch_size, shuffle=True)
    return loader, test_x, test_y


def progress(done, total, text):
    if sys.stdout.isatty():
        filled = int(30 * done / total)
        print(f"\r  [{'█' * filled}{'·' * (30 - filled)}] {text}", end="", flush=True)


def train_epoch(model, loader, optimizer, epoch):
    model.train()
    losses = []
    for i, (x, y) in enumerate(loader, 1):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        progress(i, len(loader), f"epoch {epoch:2d}  loss {losses[-1]:.4f}")
    return losses


@torch.no_grad()
def predict(model, x):
    model.eval()
    return model(x).argmax(dim=1)


def picture(path, losses, per_epoch, confusion, accuracy):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    steps = np.arange(1, len(losses) + 1) / (len(losses) / len(per_epoch))
    left.plot(steps, losses, color="tab:orange", alpha=0.35, label="loss of a batch")
    left.plot(np.arange(1, len(per_epoch) + 1), per_epoch, color="tab:red", label="mean of the epoch")
    left.set(xlabel="epoch", ylabel="cross entropy", yscale="log", title="Training loss")
    left.legend()
    right.imshow(confusion, cmap="Oranges")
    for (i, j), count in np.ndenumerate(confusion):
        if count:
            shade = "white" if count > confusion.max() / 2 else "black"
            right.text(j, i, count, ha="center", va="center", color=shade)
    right.set(xlabel="predicted", ylabel="true", title=f"Held-out digits: {accuracy:.1%} right")
    right.set_xticks(range(10))
    right.set_yticks(range(10))
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/demo"))
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--device", default="cpu", type=device, help="cpu, or opencl of flambeau_opencl")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    torch.manual_seed(0)
    loader, test_x, test_y = load(32, arguments.device)
    model = DigitNet().to(arguments.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=arguments.epochs)
    count = sum(p.numel() for p in model.parameters())
    print(f"{len(loader.dataset)} digits to learn from, {len(test_y)} held out, {count:,} parameters")

    losses, per_epoch = [], []
    for epoch in range(1, arguments.epochs + 1):
        start = time.perf_counter()
        batch_losses = train_epoch(model, loader, optimizer, epoch)
        schedule.step()
        losses += batch_losses
        per_epoch.append(sum(batch_losses) / len(batch_losses))
        accuracy = (predict(model, test_x) == test_y).float().mean().item()
        end = "\r" if sys.stdout.isatty() else ""
        seconds = time.perf_counter() - start
        line = f"epoch {epoch:2d}  loss {per_epoch[-1]:.4f}  accuracy {accuracy:.2%}  {seconds:.2f} s"
        print(f"{end}  {line}".ljust(76))

    confusion = np.zeros((10, 10), dtype=int)
    np.add.at(confusion, (test_y.cpu().numpy(), predict(model, test_x).cpu().numpy()), 1)
    path = arguments.output / "digits.png"
    picture(path, losses, per_epoch, confusion, accuracy)
    torch.save(model.state_dict(), arguments.output / "digits.pt")
    print(f"\nPicture: {path}    weights: {arguments.output / 'digits.pt'}")
    print("Next, with the environment that was just made:\n")
    print("  source .venv/bin/activate")
    print("  python -c 'import flambeau as torch; print(torch.randn(2, 3).softmax(dim=1))'")
    if accuracy < 0.97:
        sys.exit(f"accuracy {accuracy:.2%} is below the 97% that this network reaches")


if __name__ == "__main__":
    main()
