"""PyTorch's own operator database run against flambeau: `make parity`."""
