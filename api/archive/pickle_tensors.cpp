// The functions that pickles of tensors call, under the names in PyTorch's files.
#include "api/archive/pickle.h"
#include "aten/core/shape.h"
#include "aten/core/view.h"

namespace flambeau::api::archive {

namespace {

using Args = std::vector<ValueId>;
constexpr size_t kMostDims = 64;

[[noreturn]] void fail_argument(const std::string& name, size_t place, const char* wanted,
                                const char* got) {
  fail(c10::ErrorKind::Runtime, "load: ", name, ": expected ", wanted, " as argument ", place,
       ", got ", got);
}

template <typename T>
const T& argument(const Document& document, const std::string& name, const Args& args, size_t i,
                  const char* wanted) {
  if (i >= args.size()) fail_argument(name, i, wanted, "no argument");
  const T* const found = document.find<T>(args[i]);
  if (found == nullptr) fail_argument(name, i, wanted, document.kind(args[i]));
  return *found;
}

DimVector sizes_of(const Document& document, const std::string& name, const Args& args, size_t i) {
  DimVector out;
  const std::vector<ValueId>& items = argument<ListValue>(document, name, args, i, "a tuple").items;
  // Limited, because a pickle can refer to one long tuple many times, in two bytes each.
  check(items.size() <= kMostDims, "load: ", name, ": expected at most ", kMostDims,
        " dimensions, got ", items.size());
  for (const ValueId id : items) {
    const auto* const size = document.find<int64_t>(id);
    if (size == nullptr) fail_argument(name, i, "a tuple of integers", "other items");
    out.push_back(*size);
  }
  return out;
}

c10::ScalarType dtype_of(const std::string& text) {
  for (int i = 0; i < c10::kNumScalarTypes; ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (text == text_of("torch ", c10::name_of(type))) return type;
  }
  fail(c10::ErrorKind::Runtime, "load: expected the name of a dtype, got ", text);
}

void check_gradients(const std::string& name, bool requires_grad, c10::ScalarType dtype) {
  check(!requires_grad || c10::is_differentiable_type(dtype), "load: ", name,
        ": expected a floating or complex dtype for a tensor that requires gradients, got ", dtype);
}

// {"conj": True, "neg": True}: the views that are still to be resolved.
DispatchKeySet pending_keys(const Document& document, const std::string& name, const Args& args,
                            size_t i) {
  DispatchKeySet keys;
  if (i >= args.size() || document.find<std::monostate>(args[i])) return keys;
  argument<DictValue>(document, name, args, i, "a dict");
  for (const auto& [text, key] :
       {std::pair("conj", DispatchKey::Conjugate), std::pair("neg", DispatchKey::Negative)}) {
    const ValueId* const entry = document.entry<std::string>(args[i], text);
    const bool* const is_set = entry != nullptr ? document.find<bool>(*entry) : nullptr;
    if (is_set != nullptr && *is_set) keys = keys | key;
  }
  return keys;
}

// (storage, offset, sizes, strides, requires_grad, hooks[, dtype][, views to resolve])
TensorValue tensor_of(const Document& document, const std::string& name, const Args& args,
                      bool has_dtype) {
  const auto& source = argument<StorageValue>(document, name, args, 0, "a storage");
  const int64_t offset = argument<int64_t>(document, name, args, 1, "an integer");
  const DimVector sizes = sizes_of(document, name, args, 2);
  const DimVector strides = sizes_of(document, name, args, 3);
  const bool requires_grad = argument<bool>(document, name, args, 4, "a bool");
  const c10::ScalarType dtype =
      has_dtype ? dtype_of(argument<NameValue>(document, name, args, 6, "a dtype").text)
                : source.dtype;
  const DispatchKeySet flips = pending_keys(document, name, args, has_dtype ? 7 : 6);
  check(dtype != c10::ScalarType::Undefined, "load: ", name,
        ": expected a storage with a dtype, got bytes");
  check_gradients(name, requires_grad, dtype);
  check(flips.empty() || c10::is_complex_type(dtype) || !flips.has(DispatchKey::Conjugate),
        "load: ", name, ": expected a complex tensor to conjugate, got ", dtype);
  check(sizes.size() == strides.size() && offset >= 0, "load: ", name,
        ": expected as many strides as sizes and an offset of at least 0, got sizes ", sizes,
        ", strides ", strides, " and offset ", offset);
  const int64_t extent = extent_of(sizes, strides);
  const int64_t bytes = product_of("load", sum_of("load", offset, extent),
                                   static_cast<int64_t>(c10::element_size(dtype)));
  const auto have = static_cast<int64_t>(source.storage->nbytes());
  check(extent == 0 || bytes <= have, "load: ", name, ": expected a tensor within the storage of ",
        have, " bytes, got one of ", bytes);
  flambeau::Tensor out(make_intrusive<TensorImpl>(source.storage, dtype, DeviceType::CPU));
  out.impl()->set_geometry(sizes, strides, offset);
  if (!flips.empty()) out = detached_view(out, {sizes, strides, offset, dtype, flips});
  return {std::move(out), requires_grad};
}

std::optional<TensorValue> made_tensor(const Document& document, const std::string& name,
                                       const Args& args) {
  if (name == "torch._utils _rebuild_tensor_v2") return tensor_of(document, name, args, false);
  if (name == "torch._utils _rebuild_tensor_v3") return tensor_of(document, name, args, true);
  if (name == "torch._utils _rebuild_parameter" ||
      name == "torch._utils _rebuild_parameter_with_state") {
    TensorValue made = argument<TensorValue>(document, name, args, 0, "a tensor");
    made.requires_grad = argument<bool>(document, name, args, 1, "a bool");
    check_gradients(name, made.requires_grad, made.tensor.dtype());
    return made;
  }
  return std::nullopt;
}

}  // namespace

Value called(const Document& document, const std::string& name, const Args& args) {
  if (auto tensor = made_tensor(document, name, args)) return *std::move(tensor);
  if (name == "torch._tensor _rebuild_from_type_v2") {  // (function, class, arguments, attributes)
    const std::string& inner = argument<NameValue>(document, name, args, 0, "a name").text;
    const auto& list = argument<ListValue>(document, name, args, 2, "a tuple");
    if (auto tensor = made_tensor(document, inner, list.items)) return *std::move(tensor);
    fail(c10::ErrorKind::Runtime, "load: ", name, ": expected a function of tensors, got ", inner);
  }
  if (name == "collections OrderedDict" && args.empty()) return DictValue{};
  fail(c10::ErrorKind::Runtime,
       "load: Weights only load failed: expected tensors and plain containers, got a call of ",
       name);
}

std::optional<c10::ScalarType> storage_dtype(const std::string& name) {
  if (name == "torch.storage UntypedStorage") return c10::ScalarType::Undefined;
  for (int i = 0; i < c10::kNumScalarTypes; ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (name == text_of("torch ", c10::pytorch_name_of(type), "Storage")) return type;
  }
  return std::nullopt;
}

}  // namespace flambeau::api::archive
