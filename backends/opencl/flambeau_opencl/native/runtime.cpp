#include "runtime.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace flambeau_opencl {
namespace {

template <typename T>
T device_info(cl_device_id id, cl_device_info what) {
  T value{};
  check_status(clGetDeviceInfo(id, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

std::string device_text(cl_device_id id, cl_device_info what) {
  size_t size = 0;
  check_status(clGetDeviceInfo(id, what, 0, nullptr, &size), "clGetDeviceInfo");
  std::string text(size, '\0');
  check_status(clGetDeviceInfo(id, what, size, text.data(), nullptr), "clGetDeviceInfo");
  text.resize(std::strlen(text.c_str()));
  return text;
}

std::vector<std::unique_ptr<Device>> find_devices() {
  std::vector<std::unique_ptr<Device>> found;
  cl_uint platforms = 0;
  if (clGetPlatformIDs(0, nullptr, &platforms) != CL_SUCCESS || platforms == 0) return found;
  std::vector<cl_platform_id> platform_ids(platforms);
  check_status(clGetPlatformIDs(platforms, platform_ids.data(), nullptr), "clGetPlatformIDs");
  for (cl_platform_id platform : platform_ids) {
    cl_uint count = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(count);
    check_status(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr),
                 "clGetDeviceIDs");
    for (cl_device_id id : ids)
      found.push_back(std::make_unique<Device>(static_cast<int>(found.size()), platform, id));
  }
  return found;
}

// Sizes share blocks within an eighth of an octave.
size_t size_class(size_t bytes) {
  if (bytes <= 512) return 512;
  const size_t octave = size_t{1} << (63 - __builtin_clzll(bytes));
  const size_t step = std::max<size_t>(512, octave / 8);
  return (bytes + step - 1) / step * step;
}

thread_local int this_device = 0;
thread_local std::map<int, Stream*> this_stream;

}  // namespace

void check_status(cl_int status, const char* call) {
  if (status == CL_SUCCESS) return;
  const bool is_memory = status == CL_MEM_OBJECT_ALLOCATION_FAILURE ||
                         status == CL_OUT_OF_RESOURCES || status == CL_OUT_OF_HOST_MEMORY ||
                         status == CL_INVALID_BUFFER_SIZE;
  if (is_memory)
    throw c10::Error(flambeau::c10::ErrorKind::OutOfMemory,
                     std::string("opencl: out of memory: ") + call + " failed");
  TORCH_CHECK(false, "opencl: ", call, " failed with status ", status);
}

const std::vector<std::unique_ptr<Device>>& devices() {
  static auto* const all = new std::vector<std::unique_ptr<Device>>(find_devices());
  return *all;
}

Device& device_at(int index) {
  const auto count = static_cast<int>(devices().size());
  TORCH_CHECK(index >= 0 && index < count, "opencl: expected the index of a device below ", count,
              ", got ", index);
  return *devices()[static_cast<size_t>(index)];
}

int current_device() { return this_device; }
void set_current_device(int index) {
  device_at(index);
  this_device = index;
}

Stream* current_stream(int device) {
  const auto at = this_stream.find(device);
  return at == this_stream.end() ? device_at(device).default_stream() : at->second;
}
void set_current_stream(Stream* stream) { this_stream[stream->device] = stream; }

Device::Device(int index, cl_platform_id platform, cl_device_id id) : index_(index), id_(id) {
  name_ = device_text(id, CL_DEVICE_NAME);
  const std::string extensions = device_text(id, CL_DEVICE_EXTENSIONS);
  has_double_ = extensions.find("cl_khr_fp64") != std::string::npos;
  memory_bytes_ = static_cast<int64_t>(device_info<cl_ulong>(id, CL_DEVICE_GLOBAL_MEM_SIZE));
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(platform), 0};
  cl_int status = CL_SUCCESS;
  context_ = clCreateContext(properties, 1, &id, nullptr, nullptr, &status);
  check_status(status, "clCreateContext");
  default_stream_ = make_stream();
}

Stream* Device::make_stream() const {
  cl_int status = CL_SUCCESS;
  const cl_command_queue queue =
      clCreateCommandQueue(context_, id_, CL_QUEUE_PROFILING_ENABLE, &status);
  check_status(status, "clCreateCommandQueue");
  return new Stream{index_, queue};
}

cl_mem Device::allocate(size_t bytes, const Stream* stream) {
  const size_t rounded = size_class(bytes);
  {
    const std::lock_guard lock(memory_mutex_);
    const auto at = cache_.find({stream, rounded});
    ++stats_.allocations;
    stats_.allocated_bytes += static_cast<int64_t>(bytes);
    stats_.peak_allocated_bytes = std::max(stats_.peak_allocated_bytes, stats_.allocated_bytes);
    if (at != cache_.end() && !at->second.empty()) {
      const cl_mem memory = at->second.back();
      at->second.pop_back();
      ++stats_.cache_hits;
      stats_.cached_bytes -= static_cast<int64_t>(rounded);
      return memory;
    }
  }
  cl_int status = CL_SUCCESS;
  cl_mem memory = clCreateBuffer(context_, CL_MEM_READ_WRITE, rounded, nullptr, &status);
  if (status != CL_SUCCESS) {
    empty_cache();
    memory = clCreateBuffer(context_, CL_MEM_READ_WRITE, rounded, nullptr, &status);
  }
  const std::lock_guard lock(memory_mutex_);
  if (status != CL_SUCCESS) stats_.allocated_bytes -= static_cast<int64_t>(bytes);
  check_status(status, "clCreateBuffer");
  owner_[memory] = stream;
  return memory;
}

void Device::deallocate(cl_mem memory, size_t bytes) noexcept {
  const std::lock_guard lock(memory_mutex_);
  stats_.allocated_bytes -= static_cast<int64_t>(bytes);
  stats_.cached_bytes += static_cast<int64_t>(size_class(bytes));
  cache_[{owner_[memory], size_class(bytes)}].push_back(memory);
}

void Device::empty_cache() {
  const std::lock_guard lock(memory_mutex_);
  for (auto& [key, blocks] : cache_) {
    for (const cl_mem memory : blocks) {
      owner_.erase(memory);
      clReleaseMemObject(memory);  // the driver keeps it until work that uses it is done
    }
  }
  cache_.clear();
  stats_.cached_bytes = 0;
}

c10::AllocatorStats Device::stats() const {
  const std::lock_guard lock(memory_mutex_);
  return stats_;
}
void Device::reset_peak() {
  const std::lock_guard lock(memory_mutex_);
  stats_.peak_allocated_bytes = stats_.allocated_bytes;
}

cl_kernel Device::kernel(const std::string& key, const std::string& source,
                         const std::string& options) {
  const std::lock_guard lock(kernels_mutex_);
  const auto [at, is_new] = kernels_.try_emplace(key, nullptr);
  if (!is_new) return at->second;
  try {
    at->second = compile(source, options);
  } catch (...) {
    kernels_.erase(at);
    throw;
  }
  return at->second;
}

cl_kernel Device::compile(const std::string& source, const std::string& options) const {
  const char* text = source.c_str();
  cl_int status = CL_SUCCESS;
  const cl_program program = clCreateProgramWithSource(context_, 1, &text, nullptr, &status);
  check_status(status, "clCreateProgramWithSource");
  status = clBuildProgram(program, 1, &id_, options.c_str(), nullptr, nullptr);
  if (status != CL_SUCCESS) {
    size_t size = 0;
    clGetProgramBuildInfo(program, id_, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size);
    std::string log(size, '\0');
    clGetProgramBuildInfo(program, id_, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
    clReleaseProgram(program);
    TORCH_CHECK(false, "opencl: a kernel does not compile: ", log.c_str(), "\n", source);
  }
  const cl_kernel made = clCreateKernel(program, "run", &status);
  clReleaseProgram(program);
  check_status(status, "clCreateKernel");
  return made;
}

}  // namespace flambeau_opencl
