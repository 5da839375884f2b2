// Docstrings of the types that C++ defines: what `help(flambeau.Tensor)` opens with.
#pragma once

namespace flambeau::python {

inline constexpr char kTensorDoc[] =
    R"(Array of numbers of one dtype, on one device, which records the operations that gradients need.

A tensor is a storage (a block of bytes) together with sizes, strides and an offset. Views share the
storage of their base, so a write through one is seen by the other. Operators are methods as well as
functions; a name that ends in an underscore writes into the tensor. Make tensors with `tensor`, `zeros`,
`arange` and their like; calling the class itself gives float32 elements.

Args:
    data: elements of nested sequences, converted to the default dtype; or sizes, for elements that are
        not initialised.

Attributes:
    shape: sizes, one for each dimension, as a `Size`.
    dtype: type of the elements.
    device: where the elements are.
    requires_grad: whether operators record this tensor for the backward pass.
    grad: the gradient that `backward` accumulated; None before.
    grad_fn: the node that computed this tensor; None for a leaf.
    data: the same elements as a tensor that autograd does not know.

Raises: TypeError for data that is neither a sequence nor sizes.
See also: tensor, as_tensor, Size, dtype, device

Example:
    >>> x = flambeau.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([[2., 4.],
            [6., 8.]])
    >>> x.t().is_contiguous(), x.t().shape
    (False, flambeau.Size([2, 2]))
)";

inline constexpr char kDtypeDoc[] =
    R"(Type of the elements of a tensor. Its instances are constants such as ``flambeau.float32``.

Attributes:
    itemsize: bytes of one element.
    is_floating_point: whether elements are real floating-point numbers.
    is_complex: whether elements are complex numbers.
    is_signed: whether elements can be negative.

See also: finfo, iinfo, promote_types

Example:
    >>> flambeau.bfloat16.itemsize, flambeau.bfloat16.is_floating_point
    (2, True)
    >>> flambeau.complex64.to_real() is flambeau.float32
    True
)";

inline constexpr char kDeviceDoc[] =
    R"(Location of tensors and of their computations: a kind of device and an index.

As a context manager it is the default device of the functions that make tensors.

Args:
    type: the kind ("cpu", "cuda", "meta", ...), or kind and index as in "cuda:1"; another device is
        copied; a number is the index of a device of the accelerator.
    index: which device of the kind. Default: None, the current one.

Attributes:
    type: the kind of device, a string.
    index: which device of the kind; None: the current one.

Raises: RuntimeError for a kind that does not exist.

Example:
    >>> flambeau.device("cuda", 1)
    device(type='cuda', index=1)
    >>> with flambeau.device("meta"):
    ...     x = flambeau.zeros(2)
    >>> x.device
    device(type='meta')
)";

inline constexpr char kLayoutDoc[] =
    R"(How a tensor stores its elements. Its instances are constants.

``flambeau.strided`` is the layout of dense tensors; ``sparse_coo``, ``sparse_csr``, ``sparse_csc``,
``sparse_bsr`` and ``sparse_bsc`` store only elements that are given.

Example:
    >>> flambeau.eye(2).layout, flambeau.eye(2).to_sparse().layout
    (flambeau.strided, flambeau.sparse_coo)
)";

inline constexpr char kMemoryFormatDoc[] =
    R"(Order in which the dimensions of a new dense tensor follow each other in memory.

Its instances are constants: ``contiguous_format`` (the last dimension is dense), ``channels_last`` for
four dimensions, ``channels_last_3d`` for five (dimension 1 is dense), and ``preserve_format`` (the order
of the input).

Example:
    >>> x = flambeau.zeros(1, 3, 4, 5).to(memory_format=flambeau.channels_last)
    >>> x.stride()
    (60, 1, 15, 3)
)";

inline constexpr char kGeneratorDoc[] =
    R"(Stream of pseudo-random numbers, which the ``generator`` argument of random operators names.

Args:
    device: where the numbers are made. Default: the CPU.

Raises: RuntimeError for a device without a generator.
See also: manual_seed, default_generator

Example:
    >>> g = flambeau.Generator().manual_seed(7)
    >>> x = flambeau.rand(2, generator=g)
    >>> bool((flambeau.rand(2, generator=g.manual_seed(7)) == x).all())
    True
)";

}  // namespace flambeau::python
