#pragma once
// TensorIterator belongs to the inside of PyTorch's kernels, and flambeau has nothing of its kind.
#error \
    "flambeau has no TensorIterator: write the loop with at::parallel_for over accessors or data pointers, or describe the operator in YAML (docs/extending.md)"
