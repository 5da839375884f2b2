// Geometry, types and launches; copies and fills.
#include <cstring>

#include "kernels.h"

namespace flambeau_opencl {
namespace {

// T, which kernels compute with, and what memory holds: a byte for bool, 16 bits for half types.
struct Type {
  ScalarType dtype;
  const char *name, *memory, *access, *smallest, *largest;
};
constexpr Type kTypes[] = {
    {ScalarType::Bool, "bool", "uchar", "plain", "0", "1"},
    {ScalarType::UInt8, "uchar", "uchar", "plain", "0", "UCHAR_MAX"},
    {ScalarType::Int8, "char", "char", "plain", "CHAR_MIN", "CHAR_MAX"},
    {ScalarType::Int16, "short", "short", "plain", "SHRT_MIN", "SHRT_MAX"},
    {ScalarType::Int32, "int", "int", "plain", "INT_MIN", "INT_MAX"},
    {ScalarType::Int64, "long", "long", "plain", "LONG_MIN", "LONG_MAX"},
    {ScalarType::Float16, "float", "half", "half", "0", "0"},
    {ScalarType::BFloat16, "float", "ushort", "bfloat", "0", "0"},
    {ScalarType::Float32, "float", "float", "plain", "0", "0"},
    {ScalarType::Float64, "double", "double", "plain", "0", "0"},
    {ScalarType::Complex64, "float2", "float2", "plain", "0", "0"},
    {ScalarType::Complex128, "double2", "double2", "plain", "0", "0"},
};

const Type* type_of(ScalarType dtype, const Device& device) {
  const bool is_double = dtype == ScalarType::Float64 || dtype == ScalarType::Complex128;
  if (is_double && !device.has_double()) return nullptr;
  for (const Type& type : kTypes) {
    if (type.dtype == dtype) return &type;
  }
  return nullptr;
}

std::vector<int64_t> vec_of(IntArrayRef list) { return {list.begin(), list.end()}; }

std::string word_options(const std::string& array, ScalarType dtype) {
  return " -D" + array + "=" + word_name(dtype) + " -DREAD_" + array + "=read_plain -DWRITE_" +
         array + "=write_plain";
}

// Elements of one dtype may be moved as words of their size, whatever they are.
std::string copy_options(const c10::DeviceElements& to, const c10::DeviceElements& from,
                         const Device& device) {
  if (to.dtype == from.dtype) return word_options("IN", to.dtype) + word_options("OUT", to.dtype);
  if (!type_of(to.dtype, device) || !type_of(from.dtype, device)) return "";
  std::string options =
      array_options("IN", from.dtype, device) + array_options("OUT", to.dtype, device);
  // Truth is neither the low byte of a number nor a byte other than 1.
  if (to.dtype == ScalarType::Bool || from.dtype == ScalarType::Bool) options += " -DTRUTH";
  if (is_complex_type(from.dtype)) options += " -DFROM_COMPLEX";
  if (is_complex_type(to.dtype)) {
    const bool is_double = to.dtype == ScalarType::Complex128;
    options += std::string(" -DTO_COMPLEX=") + (is_double ? "double" : "float");
  }
  return options;
}

constexpr const char* kCopy = R"cl(
#ifdef FROM_COMPLEX
#define REAL_PART(number) (number).x
#define IMAGINARY_PART(number) (number).y
#else
#define REAL_PART(x) (x)
#define IMAGINARY_PART(x) 0
#endif
#ifdef TO_COMPLEX
#define CONVERT(x) (OUT)((TO_COMPLEX)REAL_PART(x), (TO_COMPLEX)IMAGINARY_PART(x))
#elif defined(TRUTH)
#define CONVERT(x) (REAL_PART(x) != 0 || IMAGINARY_PART(x) != 0)
#else
#define CONVERT(x) REAL_PART(x)
#endif
__kernel void run(const Geometry g, __global OUT* out, __global const IN* in) {
  const long i = get_global_id(0);
  if (i >= g.elements) return;
  long to = g.offsets[0], from = g.offsets[1], rest = i;
  for (long d = g.dims - 1; d >= 0; --d) {
    const long at = rest % g.sizes[d];
    rest /= g.sizes[d];
    to += at * g.strides[0][d];
    from += at * g.strides[1][d];
  }
  WRITE_OUT(out, to, CONVERT(READ_IN(in, from)));
}
)cl";

constexpr const char* kFill = R"cl(
__kernel void run(const Geometry g, __global OUT* out, const OUT item) {
  const long i = get_global_id(0);
  if (i >= g.elements) return;
  long to = g.offsets[0], rest = i;
  for (long d = g.dims - 1; d >= 0; --d) {
    to += rest % g.sizes[d] * g.strides[0][d];
    rest /= g.sizes[d];
  }
  out[to] = item;
}
)cl";

}  // namespace

std::string type_name(ScalarType dtype, const Device& device) {
  const Type* const type = type_of(dtype, device);
  return type ? type->name : "";
}

bool has_real(ScalarType dtype, const Device& device) {
  return !is_complex_type(dtype) && type_of(dtype, device);
}

std::string word_name(ScalarType dtype) {
  const size_t bytes = element_size(dtype);
  return bytes == 1   ? "uchar"
         : bytes == 2 ? "ushort"
         : bytes == 4 ? "uint"
         : bytes == 8 ? "ulong"
                      : "ulong2";
}

std::string array_options(const std::string& array, ScalarType dtype, const Device& device) {
  const Type& type = *type_of(dtype, device);
  return " -D" + array + "=" + type.memory + " -DREAD_" + array + "=read_" + type.access +
         " -DWRITE_" + array + "=write_" + type.access;
}

std::string constant_name(ScalarType dtype, const Device& device) {
  const Type& type = *type_of(dtype, device);
  return is_floating_type(dtype) ? type.name : type.memory;
}

std::string type_options(ScalarType compute, const Device& device) {
  const Type& type = *type_of(compute, device);
  std::string options = std::string("-DT=") + type.name + " -DSMALLEST=" + type.smallest +
                        " -DLARGEST=" + type.largest;
  if (std::string(type.name).starts_with("float")) options += " -cl-single-precision-constant";
  if (is_floating_type(compute)) options += " -DFLOATING";
  if (compute == ScalarType::Bool) options += " -DBOOLEAN";
  if (compute == ScalarType::Complex64) options += " -DCOMPLEX=float";
  if (compute == ScalarType::Complex128) options += " -DCOMPLEX=double";
  return options;
}

bool coalesce(Geometry& g, IntArrayRef sizes, const std::vector<std::vector<int64_t>>& strides) {
  g.elements = 1;
  g.dims = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    g.elements *= sizes[d];
    if (sizes[d] == 1) continue;
    bool merges = g.dims > 0;
    for (size_t k = 0; k < strides.size() && merges; ++k)
      merges = g.strides[k][g.dims - 1] == strides[k][d] * sizes[d];
    if (!merges && g.dims == kMaxDims) return false;
    const int64_t at = merges ? g.dims - 1 : g.dims++;
    g.sizes[at] = merges ? g.sizes[at] * sizes[d] : sizes[d];
    for (size_t k = 0; k < strides.size(); ++k) g.strides[k][at] = strides[k][d];
  }
  return true;
}

Launch::Launch(Device& device, cl_kernel kernel)
    : device_(device), kernel_(kernel), lock_(device.submission()) {}

Launch& Launch::bytes(const void* data, size_t size) {
  check_status(clSetKernelArg(kernel_, next_++, size, data), "clSetKernelArg");
  return *this;
}

void Launch::run(std::initializer_list<size_t> global, std::initializer_list<size_t> local) {
  const int index = device_.default_stream()->device;
  check_status(clEnqueueNDRangeKernel(current_stream(index)->queue, kernel_,
                                      static_cast<cl_uint>(global.size()), nullptr, global.begin(),
                                      local.begin(), 0, nullptr, nullptr),
               "clEnqueueNDRangeKernel");
}

bool copy_on_device(const c10::DeviceElements& to, const c10::DeviceElements& from) {
  if (to.device != from.device) return false;
  Device& device = device_at(to.device);
  const std::string options = copy_options(to, from, device);
  Geometry g;
  if (options.empty() || !coalesce(g, to.sizes, {vec_of(to.strides), vec_of(from.strides)}))
    return false;
  if (g.elements == 0) return true;
  g.offsets[0] = to.offset;
  g.offsets[1] = from.offset;
  const cl_kernel kernel = device.kernel("copy " + options, prelude() + kCopy,
                                         options + " " + type_options(ScalarType::Int32, device));
  const size_t global = (static_cast<size_t>(g.elements) + 63) / 64 * 64;
  Launch(device, kernel).value(g).memory(to.memory).memory(from.memory).run({global}, {64});
  return true;
}

bool fill_on_device(const c10::DeviceElements& to, const void* item) {
  Device& device = device_at(to.device);
  const std::string word = word_name(to.dtype);
  Geometry g;
  if (!coalesce(g, to.sizes, {vec_of(to.strides)})) return false;
  if (g.elements == 0) return true;
  g.offsets[0] = to.offset;
  const std::string options = "-DOUT=" + word + " " + type_options(ScalarType::Int32, device);
  const cl_kernel kernel = device.kernel("fill " + word, prelude() + kFill, options);
  const size_t global = (static_cast<size_t>(g.elements) + 63) / 64 * 64;
  Launch(device, kernel)
      .value(g)
      .memory(to.memory)
      .bytes(item, element_size(to.dtype))
      .run({global}, {64});
  return true;
}

}  // namespace flambeau_opencl
