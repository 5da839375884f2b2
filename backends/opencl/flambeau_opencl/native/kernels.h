#pragma once
// Kernels of OpenCL devices: what they take, and how they are launched.
#include "runtime.h"

namespace flambeau_opencl {

using flambeau::IntArrayRef;
using flambeau::ScalarType;
using flambeau::Tensor;

constexpr int kMaxDims = 8;
constexpr int kMaxArrays = 6;

// A nest of loops over arrays of one shape, row-major; array 0 is written. As in prelude.cpp.
struct Geometry {
  int64_t elements = 1;
  int64_t dims = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxArrays][kMaxDims] = {};
  int64_t offsets[kMaxArrays] = {};
};
// Merges dimensions that all arrays step through as one. False where more than kMaxDims are left.
bool coalesce(Geometry& g, IntArrayRef sizes, const std::vector<std::vector<int64_t>>& strides);

// "float"; "" for dtypes that the device has no kernels for.
std::string type_name(ScalarType dtype, const Device& device);
// Whether the device computes with a type that is not complex.
bool has_real(ScalarType dtype, const Device& device);
// "uint": an integer as wide as an element, for kernels that only move elements.
std::string word_name(ScalarType dtype);
// Definitions of an array's type in memory and of how it is read and written: IN, READ_IN,
// WRITE_IN.
std::string array_options(const std::string& array, ScalarType dtype, const Device& device);
// The type of a number that a kernel takes; `bool` cannot be a parameter's.
std::string constant_name(ScalarType dtype, const Device& device);
// OpenCL C before every kernel, for a compute type.
std::string prelude();
std::string type_options(ScalarType compute, const Device& device);

// Sets a kernel's arguments in order, then submits it.
class Launch {
 public:
  Launch(Device& device, cl_kernel kernel);
  template <typename T>
  Launch& value(const T& v) {
    return bytes(&v, sizeof v);
  }
  Launch& memory(void* memory) { return value(static_cast<cl_mem>(memory)); }
  Launch& bytes(const void* data, size_t size);
  void run(std::initializer_list<size_t> global, std::initializer_list<size_t> local);

 private:
  Device& device_;
  cl_kernel kernel_;
  std::unique_lock<std::mutex> lock_;
  cl_uint next_ = 0;
};

bool copy_on_device(const c10::DeviceElements& to, const c10::DeviceElements& from);
bool fill_on_device(const c10::DeviceElements& to, const void* item);
// a (m x k) times b (k x n), batched where there are three dimensions; false: not on this device.
bool multiply(const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace flambeau_opencl
