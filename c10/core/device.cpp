#include "c10/core/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>

#include "c10/core/private_device.h"

namespace flambeau::c10 {
namespace {

constexpr const char* kDeviceNames[kNumDeviceTypes] = {
    "cpu", "cuda", "meta", "privateuseone", "ipu", "xpu",  "mkldnn", "opengl", "opencl", "ideep",
    "hip", "ve",   "fpga", "maia",          "xla", "lazy", "vulkan", "mps",    "hpu",    "mtia"};
constexpr const char* kFormatNames[] = {"contiguous_format", "preserve_format", "channels_last",
                                        "channels_last_3d"};

// The name that replaces "privateuseone"; set once, never freed, because name_of() hands it out.
std::atomic<const char*> private_name{nullptr};
std::atomic<bool> private_module{false};
// Devices whose names the private backend cannot take.
constexpr std::array<std::string_view, 7> kInTree = {"cpu", "cuda", "meta", "xpu",
                                                     "hip", "mps",  "mtia"};

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

// The device type of a name, or -1. The name given to PrivateUse1 comes before those of the table.
int type_named(std::string_view kind) {
  const char* given = private_name.load(std::memory_order_acquire);
  if (given && kind == given) return static_cast<int>(DeviceType::PrivateUse1);
  const auto* const found = std::find(std::begin(kDeviceNames), std::end(kDeviceNames), kind);
  return found == std::end(kDeviceNames) ? -1 : static_cast<int>(found - kDeviceNames);
}

}  // namespace

const char* name_of(DeviceType t) {
  if (t == DeviceType::PrivateUse1) {
    if (const char* name = private_name.load(std::memory_order_acquire)) return name;
  }
  return kDeviceNames[static_cast<int>(t)];
}

void rename_private_device(std::string_view name) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  check(!name.empty() && std::all_of(name.begin(), name.end(), is_plain),
        "rename_privateuse1_backend: expected a name of lower-case letters and '_', got '", name,
        "'");
  check(std::find(kInTree.begin(), kInTree.end(), name) == kInTree.end(),
        "rename_privateuse1_backend: expected a name that no in-tree device has, got '", name, "'");
  const char* old = nullptr;
  char* copy = new char[name.size() + 1]();
  std::copy(name.begin(), name.end(), copy);
  if (private_name.compare_exchange_strong(old, copy, std::memory_order_acq_rel)) return;
  delete[] copy;
  check(name == old, "rename_privateuse1_backend: expected '", old,
        "', as the name has already been set, got '", name, "'");
}

void note_private_module() { private_module.store(true, std::memory_order_release); }

void fail_no_backend(DeviceType t, ErrorKind otherwise) {
  switch (t) {
    case DeviceType::CUDA:
      fail(ErrorKind::Assertion, "flambeau is not compiled with CUDA enabled");
    case DeviceType::XPU:
      fail(ErrorKind::Assertion, "flambeau is not compiled with XPU enabled");
    case DeviceType::MTIA:
      fail(ErrorKind::Assertion, "flambeau is not compiled with MTIA enabled");
    case DeviceType::PrivateUse1:
      if (private_module.load(std::memory_order_acquire))
        fail(ErrorKind::NotImplemented, "device ", name_of(t),
             ": expected an allocator and a kernel for the call, got a registered module only");
      [[fallthrough]];
    case DeviceType::HPU:
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
  const int t = type_named(text.substr(0, colon));
  if (t >= 0) {
    if (colon == std::string_view::npos) return Device(static_cast<DeviceType>(t));
    const int index = parse_index(text.substr(colon + 1));
    check(index >= 0, "Invalid device string: '", text,
          "': expected a device index after the colon, got another text");
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
