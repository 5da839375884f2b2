// The kernels of the package, registered for the dispatcher entries of aten: pointwise operators
// and reductions from the texts that flambeau's generator wrote (torchgen_out/opencl/kernels.h),
// and matrix products. What a device cannot compute runs on the CPU.
#include <torchgen_out/aten/arithmetic_ops.h>

#include "call.h"

namespace flambeau_opencl {
namespace {

using flambeau::DispatchKeySet;
using Row = opencl_kernels::Pointwise;
using opencl_kernels::Reduction;

bool run_product(Call& call) {
  for (size_t i = 0; i < call.stack.size(); ++i) {
    if (!is_here(call.stack[i])) return false;
  }
  const size_t first = call.stack.size() == 3 ? 1 : 0;  // _addmm(self, mat1, mat2)
  const Tensor a = call.stack[first].tensor(), b = call.stack[first + 1].tensor();
  const Tensor spec = result_spec(call);
  for (size_t i = 0; i < call.stack.size(); ++i) {
    if (call.stack[i].tensor().device() != a.device()) return false;
  }
  Output output(call, spec, spec.dtype(), a.device());
  if (!multiply(a, b, output.written)) return false;
  if (first)
    output.written = flambeau::ops::add_Tensor::call(output.written, call.stack[0].tensor(), 1);
  output.finish(call);
  return true;
}

template <typename F>
void implement(flambeau::api::Library& library, const char* entry, const F& run) {
  const OperatorEntry* const op = flambeau::find_operator(entry);
  TORCH_CHECK(op != nullptr, "opencl: this flambeau has no operator ", entry);
  library.impl(entry, flambeau::api::CppFunction::boxed([op, run](DispatchKeySet, Stack& stack) {
                 Call call{*op, stack};
                 if (!run(call)) flambeau::api::run_on_cpu(*op, stack);
               }));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  std::map<std::string, std::vector<const Row*>> rows;
  for (const Row& row : opencl_kernels::pointwise) rows[row.entry].push_back(&row);
  for (const auto& [entry, cases] : rows)
    implement(m, entry.c_str(), [cases = cases](Call& call) { return run_pointwise(cases, call); });
  for (const Reduction& row : opencl_kernels::reductions)
    implement(m, row.entry, [&row](Call& call) { return run_reduction(row, call); });
  for (const char* entry : {"mm", "bmm", "_addmm"}) implement(m, entry, run_product);
  implement(m, "convolution", run_convolution);
  implement(m, "convolution_backward", run_convolution_backward);
}

}  // namespace
}  // namespace flambeau_opencl