"""What an installed flambeau must do anywhere: run by the interpreter of a fresh environment, without pytest.

``python -I smoke.py`` checks each part of the package that a broken distribution could lack: the
extension, OpenBLAS, oneDNN, OpenMP, data files, stubs, worker processes, the runner of PyTorch programs.
"""

import importlib.metadata
import importlib.util
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import flambeau as torch


def close(a, b, tolerance=1e-4):
    assert abs(a - b) <= tolerance, (a, b)


def the_package_is_the_installed_one():
    package = Path(torch.__file__).resolve().parent
    assert package.is_relative_to(Path(sys.prefix).resolve()), (package, sys.prefix)
    assert importlib.metadata.version("flambeau") == torch.__version__.split("+")[0]
    for name in ("py.typed", "_C.pyi", "_functions.pyi", "quasirandom/joe_kuo.bin"):
        assert (package / name).is_file(), name


def products_use_the_bundled_libraries():
    n = 65
    i = torch.arange(n, dtype=torch.float64)
    a = (i[:, None] - i[None, :]).abs().neg().exp()  # symmetric and positive definite
    inverse = torch.linalg.inv(a)
    close((a @ inverse - torch.eye(n, dtype=torch.float64)).abs().max().item(), 0, 1e-10)
    values = torch.linalg.eigvalsh(a)
    close(values.sum().item(), n, 1e-9)  # the trace
    images = torch.ones(2, 3, 8, 8)
    close(torch.nn.functional.conv2d(images, torch.ones(4, 3, 3, 3)).sum().item(), 2 * 4 * 36 * 27)
    close(torch.fft.fft(torch.ones(30)).abs().sum().item(), 30)


def large_operators_use_threads():
    x = torch.ones(1 << 20)
    close((x * 2 + 1).sum().item(), 3 << 20)
    for threads in (1, 2, torch.get_num_threads()):
        torch.set_num_threads(threads)
        close(x.sum().item(), 1 << 20)


def a_network_learns():
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 64)[:, None]
    model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        loss = ((model(x) - (math.pi * x).sin()) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05, loss.item()
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), f"{folder}/model.pt")
        loaded = torch.load(f"{folder}/model.pt")
    assert all((loaded[name] == value).all().item() for name, value in model.state_dict().items())


def data_files_are_read():
    points = torch.quasirandom.SobolEngine(2).draw(4)
    assert points.tolist() == [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]


def workers_start():
    loader = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=2)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def numpy_is_optional():
    tensor = torch.arange(3)
    if importlib.util.find_spec("numpy"):
        import numpy

        array = tensor.numpy()
        array[0] = 7
        assert tensor[0].item() == 7 and torch.from_numpy(numpy.ones(2)).sum().item() == 2
    else:
        try:
            tensor.numpy()
        except Exception as error:
            assert "numpy" in str(error).lower(), error
        else:
            raise AssertionError("numpy() without NumPy")


def programs_of_pytorch_run():
    program = "import torch, importlib.metadata as m; print(torch.ones(2).sum().item(), m.version('torch'))"
    command = [sys.executable, "-I", "-m", "flambeau.compat", "-c", program]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.split() == ["2.0", torch.version.torch_version], (
        run.stdout + run.stderr
    )


CHECKS = (
    the_package_is_the_installed_one,
    products_use_the_bundled_libraries,
    large_operators_use_threads,
    a_network_learns,
    data_files_are_read,
    workers_start,
    numpy_is_optional,
    programs_of_pytorch_run,
)

if __name__ == "__main__":
    for check in CHECKS:
        check()
    print(f"smoke: {len(CHECKS)} checks passed with {torch.backends.cpu.get_cpu_capability()}")
