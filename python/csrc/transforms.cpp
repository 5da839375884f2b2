// Function transforms, as the rest of the binding uses them.
#include "python/csrc/transforms.h"

#include "aten/transforms/layers.h"

namespace flambeau::python {
using namespace transforms;

const Tensor& readable(PyObject* object) { return readable(tensor_of(object)); }

const Tensor& readable(const Tensor& t) {
  return t.impl()->wrapper() && !transforms::is_batched(t) ? bottom_of(t) : t;
}

void refuse_backward_in_transforms() {
  check(!innermost_layer(),
        "backward() inside of a transform: use func.grad or func.vjp, or call it outside of all "
        "transforms");
}

}  // namespace flambeau::python
