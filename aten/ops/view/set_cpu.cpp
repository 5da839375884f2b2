// A tensor that is made to see another tensor's memory.
// Formula: self has the storage, sizes, strides and offset of source.
// Accumulates in: none: no element is touched.
// NaN, infinity: both stay as they are.
// Error: none: exact.
// Source: by definition.
#include "torchgen_out/aten/view_kernels.h"

namespace flambeau::ops {

void set_from_cpu(Tensor& self, const Tensor& source) {
  check(self.dtype() == source.dtype(), "set_: expected a source of dtype ", name_of(self.dtype()),
        ", got ", name_of(source.dtype()));
  self.impl()->shallow_copy_from(*source.impl());
}

}  // namespace flambeau::ops
