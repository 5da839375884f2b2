#pragma once
// The public name of DeviceType::PrivateUse1, whose backend is a package of its own.
#include <string_view>

namespace flambeau::c10 {

// Makes `name` what name_of() returns for PrivateUse1 and what Device::parse() reads as it, also
// where the name is that of a device type without a backend. Once for the process: another name
// later, and names of in-tree devices, are Error(Runtime).
void rename_private_device(std::string_view name);
// Records that the backend has a Python module: a missing kernel is then NotImplemented instead of
// ModuleNotFound.
void note_private_module();

}  // namespace flambeau::c10
