// The backend that flambeau calls: memory, copies and the current device.
#include "kernels.h"
#include "runtime.h"

namespace flambeau_opencl {
namespace {

cl_mem buffer(const void* memory) { return static_cast<cl_mem>(const_cast<void*>(memory)); }

class Backend final : public c10::DeviceBackend {
 public:
  int device_count() const override { return static_cast<int>(devices().size()); }
  int current_device() const override { return flambeau_opencl::current_device(); }
  void set_device(int device) override { set_current_device(device); }
  void synchronize(int device) override {
    check_status(clFinish(current_stream(device)->queue), "clFinish");
  }

  void* allocate(size_t bytes, int device) override {
    return device_at(device).allocate(bytes, current_stream(device));
  }
  void deallocate(void* memory, size_t bytes, int device) noexcept override {
    devices()[static_cast<size_t>(device)]->deallocate(buffer(memory), bytes);
  }
  c10::AllocatorStats stats(int device) const override { return device_at(device).stats(); }
  void reset_peak(int device) override { device_at(device).reset_peak(); }
  void empty_cache() override {
    for (const auto& device : devices()) device->empty_cache();
  }

  void copy_from_host(void* memory, size_t offset, int device, const void* host,
                      size_t bytes) override {
    check_status(clEnqueueWriteBuffer(current_stream(device)->queue, buffer(memory), CL_TRUE,
                                      offset, bytes, host, 0, nullptr, nullptr),
                 "clEnqueueWriteBuffer");
  }
  void copy_to_host(const void* memory, size_t offset, int device, void* host,
                    size_t bytes) override {
    check_status(clEnqueueReadBuffer(current_stream(device)->queue, buffer(memory), CL_TRUE, offset,
                                     bytes, host, 0, nullptr, nullptr),
                 "clEnqueueReadBuffer");
  }
  void copy_bytes(void* to, size_t to_offset, int to_device, const void* from, size_t from_offset,
                  int from_device, size_t bytes) override {
    if (to_device != from_device) {  // contexts share no memory
      std::vector<char> host(bytes);
      copy_to_host(from, from_offset, from_device, host.data(), bytes);
      return copy_from_host(to, to_offset, to_device, host.data(), bytes);
    }
    check_status(clEnqueueCopyBuffer(current_stream(to_device)->queue, buffer(from), buffer(to),
                                     from_offset, to_offset, bytes, 0, nullptr, nullptr),
                 "clEnqueueCopyBuffer");
  }
  bool copy_elements(const c10::DeviceElements& to, const c10::DeviceElements& from) override {
    return copy_on_device(to, from);
  }
  bool fill_elements(const c10::DeviceElements& to, const void* item) override {
    return fill_on_device(to, item);
  }
};

}  // namespace

void register_backend() { c10::register_private_backend(new Backend); }

}  // namespace flambeau_opencl
