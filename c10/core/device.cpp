#include "c10/core/device.h"

#include <iterator>

namespace flambeau::c10 {
namespace {

constexpr const char* kDeviceNames[kNumDeviceTypes] = {
    "cpu", "cuda", "meta", "privateuseone", "ipu", "xpu",  "mkldnn", "opengl", "opencl", "ideep",
    "hip", "ve",   "fpga", "maia",          "xla", "lazy", "vulkan", "mps",    "hpu",    "mtia"};
constexpr const char* kFormatNames[] = {"contiguous_format", "preserve_format", "channels_last",
                                        "channels_last_3d"};

// -1 unless `text` is a decimal number below 128 without leading zeros.
int parse_index(std::string_view text) {
  if (text.empty() || text.size() > 3 || (text.size() > 1 && text[0] == '0')) return -1;
  int value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value < 128 ? value : -1;
}

}  // namespace

const char* name_of(DeviceType t) { return kDeviceNames[static_cast<int>(t)]; }

void fail_no_backend(DeviceType t, ErrorKind otherwise) {
  switch (t) {
    case DeviceType::CUDA:
      fail(ErrorKind::Assertion, "flambeau is not compiled with CUDA enabled");
    case DeviceType::XPU:
      fail(ErrorKind::Assertion, "flambeau is not compiled with XPU enabled");
    case DeviceType::MTIA:
      fail(ErrorKind::Assertion, "flambeau is not compiled with MTIA enabled");
    case DeviceType::HPU:
    case DeviceType::PrivateUse1:
      fail(ErrorKind::ModuleNotFound, "No module named 'flambeau.", name_of(t),
           "': this build has no backend for the device");
    case DeviceType::MKLDNN:
    case DeviceType::OpenGL:
    case DeviceType::OpenCL:
    case DeviceType::IDEEP:
      otherwise = ErrorKind::Runtime;
      [[fallthrough]];
    default:
      fail(otherwise, "device ", name_of(t),
           ": this build has no backend for it; tensors are on cpu or meta");
  }
}

const char* name_of(MemoryFormat f) { return kFormatNames[static_cast<int>(f)]; }

Device Device::parse(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  for (int t = 0; t < static_cast<int>(std::size(kDeviceNames)); ++t) {
    if (kind != kDeviceNames[t]) continue;
    if (colon == std::string_view::npos) return Device(static_cast<DeviceType>(t));
    const int index = parse_index(text.substr(colon + 1));
    check(index >= 0, "Invalid device string: '", text,
          "': expected a device index after the colon");
    return Device(static_cast<DeviceType>(t), static_cast<int8_t>(index));
  }
  std::string known;
  for (const char* name : kDeviceNames) {
    if (!known.empty()) known.append(", ");
    known.append(name);
  }
  fail(ErrorKind::Runtime, "device: expected one of ", known, " at the beginning, got ", text);
}

void append_text(std::string& out, Device d) {
  out.append(name_of(d.type));
  if (d.index < 0) return;
  out.push_back(':');
  append_integer(out, d.index);
}

}  // namespace flambeau::c10
