#pragma once
// What the Python binding asks of the C++ interface. It names no operator, so that the binding is
// not compiled again when a signature changes.
#include <string>

namespace flambeau::api {

// What `warn` calls; the binding makes Python's warnings of it. Without one: standard error.
void set_warning_handler(void (*handler)(const std::string& message));
// Messages of errors in blocks of TORCH_LIBRARY since the last call.
std::string take_library_errors();

}  // namespace flambeau::api
