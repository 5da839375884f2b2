#pragma once
// oneDNN through its C API (dnnl.hpp costs 0.7 s per file): handles that free themselves, and the
// engine.
#if FLAMBEAU_ONEDNN
#include <dnnl.h>

#include <string_view>
#include <utility>
#include <vector>

#include "aten/core/tensor.h"
#include "c10/core/signal_stack.h"

namespace flambeau::onednn {

inline void check_status(dnnl_status_t status, const char* what) {
  check(status == dnnl_success, what, ": oneDNN failed with status ", static_cast<int64_t>(status));
}

// The answer to a request for a primitive descriptor: false where oneDNN implements none for the
// dtype, shape or layout on this processor (or below ONEDNN_MAX_CPU_ISA). Other failures throw.
inline bool is_supported(dnnl_status_t status, const char* what) {
  if (status == dnnl_unimplemented) return false;
  check_status(status, what);
  return true;
}

// An owned oneDNN object.
template <typename T, dnnl_status_t (*Destroy)(T)>
class Handle {
 public:
  Handle() = default;
  Handle(Handle&& o) noexcept : handle_(std::exchange(o.handle_, nullptr)) {}
  Handle& operator=(Handle&& o) noexcept {
    std::swap(handle_, o.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_) Destroy(handle_);
  }
  T get() const { return handle_; }
  T* out() { return &handle_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  T handle_ = nullptr;
};
using MemoryDesc = Handle<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
using Memory = Handle<dnnl_memory_t, dnnl_memory_destroy>;
using PrimitiveDesc = Handle<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Handle<dnnl_primitive_t, dnnl_primitive_destroy>;
using Attributes = Handle<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;

inline dnnl_engine_t engine() {
  static const dnnl_engine_t instance = [] {
    dnnl_engine_t e = nullptr;
    check_status(dnnl_engine_create(&e, dnnl_cpu, 0), "engine");
    return e;
  }();
  return instance;
}
// One stream per thread: executing on a stream is not thread safe.
inline dnnl_stream_t stream() {
  static thread_local const dnnl_stream_t instance = [] {
    c10::use_signal_stack();
    dnnl_stream_t s = nullptr;
    check_status(dnnl_stream_create(&s, engine(), dnnl_stream_default_flags), "stream");
    return s;
  }();
  return instance;
}

inline bool data_type_of(ScalarType t, dnnl_data_type_t* out) {
  switch (t) {
    case ScalarType::Float32:
      *out = dnnl_f32;
      return true;
    case ScalarType::BFloat16:
      *out = dnnl_bf16;
      return true;
    case ScalarType::Float16:
      *out = dnnl_f16;
      return true;
    default:
      return false;
  }
}

// Whether oneDNN has no better than a loop nest for testing.
inline bool is_reference(const PrimitiveDesc& desc) {
  const char* name = nullptr;
  check_status(dnnl_primitive_desc_query(desc.get(), dnnl_query_impl_info_str, 0, &name), "query");
  return std::string_view(name).substr(0, 3) == "ref";
}
// Whether oneDNN computes in float32 with conversions of its own in the innermost loops, as it does
// for bfloat16 with the first AVX-512 instruction sets: five times as slow as float32 blocks.
inline bool is_emulated(dnnl_data_type_t type) {
  if (type != dnnl_bf16) return false;
  static const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  return isa == dnnl_cpu_isa_avx512_core || isa == dnnl_cpu_isa_avx512_core_vnni;
}

inline MemoryDesc strided_desc(IntArrayRef sizes, IntArrayRef strides, dnnl_data_type_t type) {
  MemoryDesc desc;
  check_status(dnnl_memory_desc_create_with_strides(desc.out(), static_cast<int>(sizes.size()),
                                                    sizes.data(), type, strides.data()),
               "memory descriptor");
  return desc;
}
inline MemoryDesc any_desc(IntArrayRef sizes, dnnl_data_type_t type) {
  MemoryDesc desc;
  check_status(dnnl_memory_desc_create_with_tag(desc.out(), static_cast<int>(sizes.size()),
                                                sizes.data(), type, dnnl_format_tag_any),
               "memory descriptor");
  return desc;
}
inline Memory memory_over(const_dnnl_memory_desc_t desc, void* data) {
  Memory memory;
  check_status(dnnl_memory_create(memory.out(), desc, engine(), data), "memory");
  return memory;
}

inline void execute(dnnl_primitive_t primitive, const std::vector<dnnl_exec_arg_t>& args) {
  check_status(
      dnnl_primitive_execute(primitive, stream(), static_cast<int>(args.size()), args.data()),
      "execute");
}
inline void reorder(dnnl_memory_t from, dnnl_memory_t to) {
  const_dnnl_memory_desc_t source = nullptr;
  const_dnnl_memory_desc_t target = nullptr;
  check_status(dnnl_memory_get_memory_desc(from, &source), "reorder");
  check_status(dnnl_memory_get_memory_desc(to, &target), "reorder");
  PrimitiveDesc desc;
  check_status(
      dnnl_reorder_primitive_desc_create(desc.out(), source, engine(), target, engine(), nullptr),
      "reorder");
  Primitive primitive;
  check_status(dnnl_primitive_create(primitive.out(), desc.get()), "reorder");
  execute(primitive.get(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

}  // namespace flambeau::onednn
#endif
