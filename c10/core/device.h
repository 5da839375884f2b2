#pragma once
// Where a tensor lives, and how it is laid out.
#include <compare>
#include <string>
#include <string_view>

#include "c10/core/check.h"

namespace flambeau::c10 {

// Those up to PrivateUse1 have a dispatch key of their own. The others are names that programs
// compare and store; no tensor can be made there.
enum class DeviceType : int8_t {
  CPU,
  CUDA,
  Meta,
  PrivateUse1,
  IPU,
  XPU,
  MKLDNN,
  OpenGL,
  OpenCL,
  IDEEP,
  HIP,
  VE,
  FPGA,
  MAIA,
  XLA,
  Lazy,
  Vulkan,
  MPS,
  HPU,
  MTIA
};
inline constexpr int kNumDeviceTypes = static_cast<int>(DeviceType::MTIA) + 1;
const char* name_of(DeviceType t);
// Raises what PyTorch raises for tensors on a device that a build lacks: some have an exception of
// their own, the rest raises `otherwise`.
[[noreturn]] void fail_no_backend(DeviceType t, ErrorKind otherwise);

struct Device {
  DeviceType type = DeviceType::CPU;
  int8_t index = -1;  // -1: the current one of that type

  constexpr Device() = default;
  constexpr Device(DeviceType t, int8_t i = -1) : type(t), index(i) {}  // NOLINT
  // "cpu", "cuda:1", "meta"; RuntimeError naming the valid types otherwise.
  static Device parse(std::string_view text);
  bool is_cpu() const { return type == DeviceType::CPU; }
  bool is_cuda() const { return type == DeviceType::CUDA; }
  bool is_meta() const { return type == DeviceType::Meta; }
  bool operator==(const Device&) const = default;
};
void append_text(std::string& out, Device d);

enum class Layout : int8_t { Strided, SparseCoo };
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
const char* name_of(MemoryFormat f);
inline void append_text(std::string& out, MemoryFormat f) { out.append(name_of(f)); }

}  // namespace flambeau::c10
