#include "api/tensor.h"

#include <cstring>
#include <iostream>

#include "api/check.h"
#include "api/guards.h"
#include "api/operators.h"
#include "aten/autograd/engine.h"
#include "aten/core/factory.h"
#include "aten/core/tensor_text.h"

namespace flambeau::api {

size_t Tensor::place_of(int64_t d) const {
  const int64_t n = dim();
  check_index(d >= -n && d < n, "Dimension out of range (expected to be in range of [", -n, ", ",
              n - 1, "], but got ", d, ")");
  return static_cast<size_t>(d < 0 ? d + n : d);
}

void Tensor::fail_dtype(const char* what, c10::ScalarType wanted) const {
  fail(ErrorKind::Runtime, what, ": expected scalar type ", c10::pytorch_name_of(wanted),
       " but found ", c10::pytorch_name_of(flambeau::Tensor::dtype()));
}

void Tensor::fail_rank(size_t wanted) const {
  fail(ErrorKind::Runtime, "accessor: TensorAccessor expected ", wanted, " dims but tensor has ",
       dim());
}

std::string Tensor::toString() const {
  return defined() ? text_of(c10::pytorch_name_of(flambeau::Tensor::dtype()), "Type")
                   : "UndefinedType";
}

void Tensor::backward(const flambeau::Tensor& gradient, std::optional<bool> retain_graph,
                      bool create_graph) const {
  const autograd::BackwardOptions options{.retain_graph = retain_graph.value_or(create_graph),
                                          .create_graph = create_graph};
  autograd::backward(*this, gradient, {}, options);
}

// --- indices -------------------------------------------------------------------------------------

TensorIndex::TensorIndex(const char* dots) : kind(Kind::Ellipsis) {
  check_value(std::strcmp(dots, "...") == 0, "TensorIndex: expected \"...\", got \"", dots, "\"");
}

namespace {

int64_t dims_taken(ArrayRef<TensorIndex> indices) {
  int64_t taken = 0;
  for (const TensorIndex& i : indices) {
    const bool is_mask = i.kind == TensorIndex::Kind::Tensor && i.tensor.dtype() == kBool;
    if (is_mask) {
      taken += i.tensor.dim();
    } else if (i.kind != TensorIndex::Kind::None && i.kind != TensorIndex::Kind::Ellipsis) {
      ++taken;
    }
  }
  return taken;
}

// Views take slices, integers and None; what Tensors choose is left for index.
struct Indexed {
  Tensor view;
  std::vector<flambeau::Tensor> chosen;  // per dimension of the view, undefined where all are
};

Indexed indexed(const Tensor& self, ArrayRef<TensorIndex> indices) {
  Indexed out = {self, {}};
  const int64_t taken = dims_taken(indices);
  check_index(taken <= self.dim(), "index: expected at most ", self.dim(), " indices, got ", taken,
              " (too many indices for tensor of dimension ", self.dim(), ")");
  int64_t dim = 0;
  const auto keep = [&](int64_t count) {
    dim += count;
    if (!out.chosen.empty()) out.chosen.resize(static_cast<size_t>(dim));
  };
  for (const TensorIndex& i : indices) {
    switch (i.kind) {
      case TensorIndex::Kind::None:
        out.view = out.view.unsqueeze(dim);
        keep(1);
        break;
      case TensorIndex::Kind::Ellipsis:
        keep(self.dim() - taken);
        break;
      case TensorIndex::Kind::Integer:
        out.view = out.view.select(dim, i.integer);
        break;
      case TensorIndex::Kind::Slice:
        out.view = out.view.slice(dim, i.slice.start, i.slice.stop, i.slice.step);
        keep(1);
        break;
      case TensorIndex::Kind::Tensor:
        out.chosen.resize(static_cast<size_t>(dim));
        out.chosen.push_back(i.tensor);
        dim += i.tensor.dtype() == kBool ? i.tensor.dim() : 1;
        break;
    }
  }
  return out;
}

// A mask takes several dimensions and stands once.
std::vector<flambeau::Tensor> for_index(const Indexed& at) {
  std::vector<flambeau::Tensor> list;
  for (size_t d = 0; d < at.chosen.size();) {
    const flambeau::Tensor& t = at.chosen[d];
    list.push_back(t);
    const bool is_mask = t.defined() && t.dtype() == kBool;
    d += is_mask ? static_cast<size_t>(std::max<int64_t>(t.dim(), 1)) : 1;
  }
  return list;
}

}  // namespace

Tensor Tensor::operator[](int64_t i) const { return select(0, i); }
Tensor Tensor::operator[](const Tensor& i) const { return index({TensorIndex(i)}); }

Tensor Tensor::index(ArrayRef<TensorIndex> indices) const {
  const Indexed at = indexed(*this, indices);
  return at.chosen.empty() ? at.view : Tensor(ops::index_Tensor::call(at.view, for_index(at)));
}
Tensor Tensor::index(const std::initializer_list<TensorIndex>& indices) const {
  return index(ArrayRef<TensorIndex>(indices));
}
Tensor& Tensor::index_put_(ArrayRef<TensorIndex> indices, const flambeau::Tensor& value) {
  const Indexed at = indexed(*this, indices);
  if (at.chosen.empty()) {
    at.view.copy_(value);
  } else {
    at.view.Methods::index_put_(for_index(at), value);
  }
  return *this;
}
Tensor& Tensor::index_put_(const std::initializer_list<TensorIndex>& indices,
                           const flambeau::Tensor& value) {
  return index_put_(ArrayRef<TensorIndex>(indices), value);
}
Tensor& Tensor::index_put_(const std::initializer_list<TensorIndex>& indices, const Scalar& value) {
  return index_put_(ArrayRef<TensorIndex>(indices),
                    scalar_tensor(value, flambeau::Tensor::dtype()));
}

// --- memory of others ---------------------------------------------------------------------------

Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, void (*deleter)(void*),
                 const TensorOptions& options) {
  const c10::ScalarType type = options.dtype();
  check(sizes.size() == strides.size(), "from_blob: expected as many strides as sizes, got ",
        strides, " and ", sizes);
  int64_t last = 0;
  bool is_empty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    check_value(sizes[d] >= 0 && strides[d] >= 0,
                "from_blob: expected sizes and strides of 0 or more, got ", sizes, " and ",
                strides);
    is_empty |= sizes[d] == 0;
    last += (sizes[d] - 1) * strides[d];
  }
  const size_t bytes = is_empty ? 0 : static_cast<size_t>(last + 1) * c10::element_size(type);
  auto storage = make_intrusive<c10::StorageImpl>(
      data, bytes, options.device(), deleter ? deleter : [](void*) {}, data);
  auto impl = make_intrusive<TensorImpl>(std::move(storage), type, options.device());
  impl->set_geometry(sizes, strides, 0);
  return as_asked(Tensor(flambeau::Tensor(std::move(impl))), options);
}
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  return from_blob(data, sizes, strides, nullptr, options);
}
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options) {
  c10::SizesAndStrides geometry;
  geometry.set_contiguous(sizes);
  return from_blob(data, sizes, geometry.strides(), nullptr, options);
}

// --- text ----------------------------------------------------------------------------------------

namespace {

void print_elements(std::ostream& out, const Tensor& t) {
  if (t.dim() == 0) {
    out << text_of(static_cast<const c10::Scalar&>(t.item()));
    return;
  }
  out << '[';
  for (int64_t i = 0; i < t.size(0); ++i) {
    if (i) out << ", ";
    print_elements(out, t[i]);
  }
  out << ']';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  if (!t.defined()) return out << "[ Tensor (undefined) ]";
  if (t.is_meta() || t.is_sparse()) return out << text_of(static_cast<const flambeau::Tensor&>(t));
  print_elements(out, t.detach());
  return out << ' ' << text_of(static_cast<const flambeau::Tensor&>(t));
}
std::ostream& operator<<(std::ostream& out, ScalarType t) { return out << toString(t); }
std::ostream& operator<<(std::ostream& out, const Device& d) { return out << d.str(); }
std::ostream& operator<<(std::ostream& out, IntArrayRef list) { return out << text_of(list); }
void print(const Tensor& t) { std::cout << t << '\n'; }

void clear_grad(const Tensor& tensor, bool set_to_none) {
  const Tensor grad = tensor.grad();
  if (!grad.defined()) return;
  if (set_to_none) return tensor.set_grad({});
  const NoGradGuard no_grad;
  grad.detach().zero_();
}

}  // namespace flambeau::api
