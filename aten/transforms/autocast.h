#pragma once
// Autocast: within a region, operators cast their arguments to the dtype that suits them. The key
// Autocast is included in the thread's keys only while a device's autocast is enabled.
#include "aten/core/tensor.h"

namespace flambeau {
struct OperatorEntry;
}

namespace flambeau::autocast {

// Gives every operator with a policy its kernel; called once.
void install();

// Whether regions for the device cast the arguments of the operator.
bool casts(const OperatorEntry& op, DeviceType device);

// Of the calling thread, by device: CPU, CUDA and a registered out-of-tree device. Errors for other
// devices.
bool is_supported(DeviceType device);
bool is_enabled(DeviceType device);
void set_enabled(DeviceType device, bool enabled);
ScalarType dtype_of(DeviceType device);
void set_dtype(DeviceType device, ScalarType dtype);

// Whether operators on the device "meta" cast as those of the CPU do, for programs that are
// recorded without memory. Of the calling thread; returns what it was.
bool set_meta_as_cpu(bool on);

// Casts of parameters are kept until the outermost region of the thread is left.
bool is_cache_enabled();
void set_cache_enabled(bool enabled);
void clear_cache();
int increment_nesting();
int decrement_nesting();

}  // namespace flambeau::autocast
