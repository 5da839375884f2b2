"""Settings of ahead-of-time autograd, by PyTorch's names."""
