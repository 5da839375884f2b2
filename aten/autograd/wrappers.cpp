#include "aten/autograd/wrappers.h"

namespace flambeau::autograd {

void refuse_out(const char* op) {
  fail(ErrorKind::Runtime, op,
       "(): out= tensors don't support automatic differentiation, and a tensor here requires grad; "
       "detach it, or compute under torch.no_grad()");
}

void refuse_gradient(const char* op, const char* argument) {
  fail(ErrorKind::Runtime, op, ": the derivative for '", argument, "' is not implemented.");
}

void refuse_forward_mode(const char* op) {
  fail(ErrorKind::NotImplemented, op, " has no rule for forward AD yet");
}

std::vector<SavedTensor> save_list(TensorList list, bool are_outputs) {
  std::vector<SavedTensor> saved;
  saved.reserve(list.size());
  for (const Tensor& t : list) saved.emplace_back(t, are_outputs);
  return saved;
}

std::vector<Tensor> unpack_list(const std::vector<SavedTensor>& saved, Node& owner) {
  std::vector<Tensor> list;
  list.reserve(saved.size());
  for (const SavedTensor& s : saved) list.push_back(s.unpack(owner));
  return list;
}

void reset_list(std::vector<SavedTensor>& saved) {
  for (SavedTensor& s : saved) s.reset();
}

Tensor grad_or_zeros(const Node& node, const Gradients& grads, size_t i) {
  if (grads[i].defined()) return grads[i];
  const OutputMetadata& output = node.output(i);
  if (output.dtype == ScalarType::Undefined) return Tensor();
  return zeros_tensor(output.sizes, output.dtype, output.device);
}

std::vector<Tensor> grads_or_zeros(const Node& node, const Gradients& grads) {
  std::vector<Tensor> list;
  list.reserve(grads.size());
  for (size_t i = 0; i < grads.size(); ++i) list.push_back(grad_or_zeros(node, grads, i));
  return list;
}

Tensor add_tangents(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? operators::add(a, b) : a;
}

Tensor fitted_tangent(const Tensor& tangent, const Tensor& result) {
  if (!tangent.defined() || !result.defined())
    return {};  // an output that was not asked for has none
  Tensor fitted = tangent;
  if (fitted.dtype() != result.dtype()) fitted = operators::to_dtype(fitted, result.dtype());
  if (!(fitted.sizes() == result.sizes())) {
    fitted = operators::add(zeros_tensor(result.sizes(), result.dtype(), result.device()), fitted);
  }
  return fitted;
}

std::vector<Tensor> primal_list(TensorList list) {
  std::vector<Tensor> primals;
  primals.reserve(list.size());
  for (const Tensor& t : list) primals.push_back(t.defined() ? primal_of(t) : t);
  return primals;
}

}  // namespace flambeau::autograd
