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

// An operator and its out= form.
template <typename F>
void implement_both(flambeau::api::Library& library, const std::string& name, const F& run) {
  implement(library, name.c_str(), run);
  implement(library, (name + ".out").c_str(), run);
}

void implement_indexing(flambeau::api::Library& m) {
  implement_both(m, "index_select", run_index_select);
  implement_both(m, "gather", run_gather);
  implement_both(m, "take", run_take);
  implement(m, "_index_positions", run_index_positions);
  implement(m, "_index", run_index);
  implement(m, "_index_put_", run_index_put);
  implement(m, "scatter_.src", [](Call& call) { return run_scatter(call, "src", ""); });
  implement(m, "scatter_.value", [](Call& call) { return run_scatter(call, "value", ""); });
  implement(m, "scatter_add_", [](Call& call) { return run_scatter(call, "src", "sum"); });
  implement(m, "scatter_reduce.two", run_scatter_reduce);
  implement(m, "index_add_", [](Call& call) { return run_slices(call, "source", "sum", false); });
  implement(m, "index_copy_", [](Call& call) { return run_slices(call, "source", "", false); });
  for (const char* entry : {"index_fill_.int_Scalar", "index_fill_.int_Tensor"})
    implement(m, entry, [](Call& call) { return run_slices(call, "value", "", true); });
}

void implement_fibers(flambeau::api::Library& m) {
  implement(m, "_softmax", [](Call& call) { return run_softmax(call, false); });
  implement(m, "_log_softmax", [](Call& call) { return run_softmax(call, true); });
  implement(m, "_softmax_backward", [](Call& call) { return run_softmax_gradient(call, false); });
  implement(m, "_log_softmax_backward",
            [](Call& call) { return run_softmax_gradient(call, true); });
  implement(m, "_cumsum", [](Call& call) { return run_scan(call, "a + b"); });
  implement(m, "_cumprod", [](Call& call) { return run_scan(call, "a * b"); });
  implement(m, "logcumsumexp", [](Call& call) { return run_scan(call, "logaddexp_of(a, b)"); });
  for (const bool largest : {true, false}) {
    implement(m, largest ? "argmax" : "argmin",
              [=](Call& call) { return run_arg_search(call, largest); });
    implement(m, largest ? "max.dim" : "min.dim",
              [=](Call& call) { return run_search(call, largest); });
  }
  implement(m, "_sort", [](Call& call) { return run_sort(call, "descending"); });
  implement(m, "topk", [](Call& call) { return run_sort(call, "largest"); });
}

void implement_movement(flambeau::api::Library& m) {
  implement(m, "_cat", [](Call& call) { return run_join(call, false); });
  implement(m, "_stack", [](Call& call) { return run_join(call, true); });
  implement(m, "_select_backward",
            [](Call& call) { return run_part_gradient(call, Part::Element); });
  implement(m, "_slice_backward", [](Call& call) { return run_part_gradient(call, Part::Slice); });
  implement(m, "flip", run_flip);
  implement(m, "roll", [](Call& call) { return run_roll(call, false); });
  implement(m, "_roll_back", [](Call& call) { return run_roll(call, true); });
  implement(m, "constant_pad_nd", run_constant_pad);
}

void implement_windows(flambeau::api::Library& m) {
  implement(m, "_max_pool", run_max_pool);
  implement(m, "_max_pool_backward", run_max_pool_backward);
  implement(m, "_adaptive_max_pool", run_adaptive_max_pool);
  implement(m, "_avg_pool", run_mean_pool);
  implement(m, "_avg_pool_backward", run_mean_pool_backward);
  implement(m, "_adaptive_avg_pool", run_adaptive_mean_pool);
  implement(m, "_adaptive_avg_pool_backward", run_adaptive_mean_pool_backward);
  implement(m, "convolution", run_convolution);
  implement(m, "convolution_backward", run_convolution_backward);
}

void implement_normalisation(flambeau::api::Library& m) {
  implement(m, "_normalize_over", run_normalize_over);
  implement(m, "_normalize_over_backward", run_normalize_over_backward);
  implement(m, "_normalize_affine", run_normalize_affine);
  implement(m, "_normalize_affine_gradients", run_normalize_affine_gradients);
  implement(m, "_track_statistic", run_track_statistic);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  std::map<std::string, std::vector<const Row*>> rows;
  for (const Row& row : opencl_kernels::pointwise) rows[row.entry].push_back(&row);
  for (const auto& [entry, cases] : rows)
    implement(m, entry.c_str(), [cases = cases](Call& call) { return run_pointwise(cases, call); });
  std::map<std::string, std::vector<const Reduction*>> reductions;
  for (const Reduction& row : opencl_kernels::reductions) reductions[row.entry].push_back(&row);
  for (const auto& [entry, each] : reductions)
    implement(m, entry.c_str(), [each = each](Call& call) { return run_reduction(each, call); });
  for (const char* entry : {"mm", "bmm", "_addmm"}) implement(m, entry, run_product);
  implement_indexing(m);
  implement_fibers(m);
  implement_movement(m);
  implement_windows(m);
  implement_normalisation(m);
}

}  // namespace
}  // namespace flambeau_opencl