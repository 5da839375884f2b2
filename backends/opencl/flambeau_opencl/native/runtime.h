#pragma once
// The OpenCL devices of the machine: contexts, streams (command queues), memory and programs.
#define CL_TARGET_OPENCL_VERSION 120
#include <ATen/ATen.h>
#include <CL/cl.h>
#include <api/device.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace flambeau_opencl {

// RuntimeError with the call and the status of OpenCL.
void check_status(cl_int status, const char* call);

// An in-order queue. Work of one stream runs in the order in which it was submitted.
struct Stream {
  int device;
  cl_command_queue queue;
};

class Device {
 public:
  Device(int index, cl_platform_id platform, cl_device_id id);

  cl_context context() const { return context_; }
  const std::string& name() const { return name_; }
  bool has_double() const { return has_double_; }
  int64_t memory_bytes() const { return memory_bytes_; }
  Stream* default_stream() const { return default_stream_; }
  Stream* make_stream() const;

  // Memory for one stream: a cached block of the size class, else a new one.
  cl_mem allocate(size_t bytes, const Stream* stream);
  void deallocate(cl_mem memory, size_t bytes) noexcept;
  void empty_cache();
  c10::AllocatorStats stats() const;
  void reset_peak();

  // The kernel "run" of a program, compiled once; `key` stands for the text and the options.
  cl_kernel kernel(const std::string& key, const std::string& source, const std::string& options);
  // Held while a kernel's arguments are set and it is submitted.
  std::mutex& submission() { return submission_; }
  int64_t programs() const { return static_cast<int64_t>(kernels_.size()); }

 private:
  cl_kernel compile(const std::string& source, const std::string& options) const;

  int index_;
  cl_device_id id_;
  cl_context context_;
  std::string name_;
  bool has_double_;
  int64_t memory_bytes_;
  Stream* default_stream_;
  mutable std::mutex memory_mutex_;
  // A freed block may still be read by work of its stream: only this stream takes it again.
  std::map<std::pair<const Stream*, size_t>, std::vector<cl_mem>> cache_;
  std::unordered_map<cl_mem, const Stream*> owner_;
  c10::AllocatorStats stats_;
  std::mutex submission_;
  std::mutex kernels_mutex_;
  std::unordered_map<std::string, cl_kernel> kernels_;
};

// All devices of all platforms, CPUs included; empty where OpenCL finds none. Never destroyed.
const std::vector<std::unique_ptr<Device>>& devices();
Device& device_at(int index);
int current_device();
void set_current_device(int index);
// The stream that new work of the calling thread joins.
Stream* current_stream(int device);
void set_current_stream(Stream* stream);

// Makes this package the backend of PrivateUse1.
void register_backend();

}  // namespace flambeau_opencl
