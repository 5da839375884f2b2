#pragma once
// One boxed call of an operator: its arguments, the operator's own checks, and where results go.
#include <aten/core/factory.h>
#include <torch/library.h>
#include <torchgen_out/opencl/kernels.h>

#include <optional>

#include "kernels.h"

namespace flambeau_opencl {

using flambeau::IValue;
using flambeau::OperatorEntry;
using flambeau::Stack;
using flambeau::c10::DeviceType;
using flambeau::c10::Scalar;

// The arguments of a call by their names.
struct Call {
  const OperatorEntry& op;
  Stack& stack;

  const IValue& at(const std::string& name) const;
  // The tensor that is written, if the form writes one.
  std::optional<Tensor> target() const;
};

std::vector<std::string> words(const char* text);
// Whether it is a tensor on an OpenCL device.
bool is_here(const IValue& v);
// What the operator's Meta function makes of tensors with the geometry of the call's. It raises the
// operator's errors.
Stack results_on_meta(const Call& call);
// Sizes and dtype of the first result, which is there.
Tensor result_spec(const Call& call);
// Whether a text is for a dtype.
bool is_for(unsigned categories, ScalarType dtype);
// The same, and the device has the dtype.
bool computes(unsigned categories, ScalarType dtype, const Device& device);
// Whether an operator's results are bool.
bool is_condition(const char* rule);
Tensor in_dtype(const Tensor& t, ScalarType dtype);
// Contiguous elements that begin at the first byte of their storage.
Tensor from_start(const Tensor& t);
// The elements in the order of memory that a result on Meta has.
Tensor laid_out(const Tensor& t, const Tensor& spec);

// A number in the compute type, as the kernel's parameters take it.
struct Constant {
  alignas(8) char bytes[16] = {};
  size_t size;
  Constant(const Scalar& value, ScalarType compute);
};

// The tensor that a kernel writes: the target itself where nothing else reads its memory, else a
// fresh one that is copied to it.
struct Output {
  Tensor written;
  std::optional<Tensor> target;

  Output(const Call& call, const Tensor& spec, ScalarType dtype, flambeau::c10::Device device);
  // Leaves the result on the stack.
  void finish(Call& call);

 private:
  bool is_alone(const Call& call) const;
};

// False: the device cannot compute the call.
bool run_pointwise(const std::vector<const opencl_kernels::Pointwise*>& cases, Call& call);
bool run_reduction(const std::vector<const opencl_kernels::Reduction*>& rows, Call& call);
bool run_convolution(Call& call);
bool run_convolution_backward(Call& call);
bool run_index_select(Call& call);
bool run_gather(Call& call);
bool run_take(Call& call);
bool run_index_positions(Call& call);
bool run_index(Call& call);
bool run_index_put(Call& call);
// `values` names the argument with the values, `combine` is "", "sum", "prod", "amax" or "amin".
bool run_scatter(Call& call, const char* values, const char* combine);
bool run_slices(Call& call, const char* values, const char* combine, bool is_fill);
bool run_scatter_reduce(Call& call);
bool run_softmax(Call& call, bool is_log);
bool run_softmax_gradient(Call& call, bool is_log);
bool run_scan(Call& call, const char* combine);
bool run_arg_search(Call& call, bool largest);
bool run_search(Call& call, bool largest);
bool run_sort(Call& call, const char* descending);
bool run_join(Call& call, bool is_new);
enum class Part { Element, Slice };
bool run_part_gradient(Call& call, Part part);
bool run_flip(Call& call);
bool run_roll(Call& call, bool is_back);
bool run_constant_pad(Call& call);
bool run_max_pool(Call& call);
bool run_max_pool_backward(Call& call);
bool run_adaptive_max_pool(Call& call);
bool run_mean_pool(Call& call);
bool run_mean_pool_backward(Call& call);
bool run_adaptive_mean_pool(Call& call);
bool run_adaptive_mean_pool_backward(Call& call);
bool run_normalize_over(Call& call);
bool run_normalize_over_backward(Call& call);
bool run_normalize_affine(Call& call);
bool run_normalize_affine_gradients(Call& call);
bool run_track_statistic(Call& call);

}  // namespace flambeau_opencl
