"""The parts of `flambeau.utils.benchmark`, under the names of PyTorch's files."""
