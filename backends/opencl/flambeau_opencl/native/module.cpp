// The functions of flambeau_opencl._native.
#include <torch/extension.h>

#include "runtime.h"

namespace {

using flambeau_opencl::check_status;
using flambeau_opencl::current_stream;
using flambeau_opencl::device_at;
using flambeau_opencl::Stream;

// A command queue as Python holds it; the default one of a device belongs to the device.
struct StreamHandle {
  Stream* stream;
};

// A point in a stream, from which others continue and whose time is measured.
class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  ~Event() {
    if (event_) clReleaseEvent(event_);
  }
  void record(const StreamHandle& stream) {
    if (event_) clReleaseEvent(std::exchange(event_, nullptr));
    check_status(clEnqueueMarkerWithWaitList(stream.stream->queue, 0, nullptr, &event_),
                 "clEnqueueMarkerWithWaitList");
    check_status(clFlush(stream.stream->queue), "clFlush");
  }
  bool is_recorded() const { return event_ != nullptr; }
  bool query() const {
    if (!event_) return true;
    cl_int status = CL_QUEUED;
    check_status(
        clGetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
        "clGetEventInfo");
    return status == CL_COMPLETE;
  }
  void synchronize() const {
    if (event_) check_status(clWaitForEvents(1, &event_), "clWaitForEvents");
  }
  // Work that the stream receives later starts after the event.
  void wait(const StreamHandle& stream) const {
    if (!event_) return;
    check_status(clEnqueueBarrierWithWaitList(stream.stream->queue, 1, &event_, nullptr),
                 "clEnqueueBarrierWithWaitList");
  }
  double end_in_ns() const {
    TORCH_CHECK(event_, "elapsed_time: expected events that were recorded");
    synchronize();
    cl_ulong end = 0;
    check_status(
        clGetEventProfilingInfo(event_, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr),
        "clGetEventProfilingInfo");
    return static_cast<double>(end);
  }

 private:
  cl_event event_ = nullptr;
};

py::dict stats_of(int index) {
  const c10::AllocatorStats stats = device_at(index).stats();
  py::dict out;
  out["allocated_bytes"] = stats.allocated_bytes;
  out["peak_allocated_bytes"] = stats.peak_allocated_bytes;
  out["cached_bytes"] = stats.cached_bytes;
  out["allocations"] = stats.allocations;
  out["cache_hits"] = stats.cache_hits;
  return out;
}

py::dict properties_of(int index) {
  const flambeau_opencl::Device& device = device_at(index);
  py::dict out;
  out["name"] = device.name();
  out["has_double"] = device.has_double();
  out["total_memory"] = device.memory_bytes();
  out["programs"] = device.programs();
  return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::class_<StreamHandle>(m, "Stream")
      .def("device_index", [](const StreamHandle& s) { return s.stream->device; })
      .def("address", [](const StreamHandle& s) { return reinterpret_cast<uintptr_t>(s.stream); })
      .def("synchronize", [](const StreamHandle& s) {
        py::gil_scoped_release others;
        check_status(clFinish(s.stream->queue), "clFinish");
      });
  py::class_<Event>(m, "Event")
      .def(py::init<>())
      .def("record", &Event::record)
      .def("is_recorded", &Event::is_recorded)
      .def("query", &Event::query)
      .def("synchronize", &Event::synchronize, py::call_guard<py::gil_scoped_release>())
      .def("wait", &Event::wait)
      .def("end_in_ns", &Event::end_in_ns);
  m.def("register_backend", &flambeau_opencl::register_backend);
  m.def("device_count", [] { return flambeau_opencl::devices().size(); });
  m.def("current_device", &flambeau_opencl::current_device);
  m.def("set_device", &flambeau_opencl::set_current_device);
  m.def("new_stream", [](int device) { return StreamHandle{device_at(device).make_stream()}; });
  m.def("current_stream", [](int device) { return StreamHandle{current_stream(device)}; });
  m.def("default_stream",
        [](int device) { return StreamHandle{device_at(device).default_stream()}; });
  m.def("set_stream", [](const StreamHandle& s) { flambeau_opencl::set_current_stream(s.stream); });
  m.def("stats", &stats_of);
  m.def("properties", &properties_of);
  m.def("reset_peak", [](int device) { device_at(device).reset_peak(); });
  m.def("empty_cache", [] {
    for (const auto& device : flambeau_opencl::devices()) device->empty_cache();
  });
}
