#pragma once
// Warnings and errors of extensions on their way to the binding. They are part of libflambeau, so
// that the binding needs nothing of the C++ interface, which is a library of its own
// (docs/adr/0008).
#include <string>

namespace flambeau {

// What TORCH_WARN calls; the binding makes Python's warnings of it. Without one: standard error.
void set_warning_handler(void (*handler)(const std::string& message));
void warn_of(const std::string& message);

// An exception would end the process while a shared object is loaded, so the message is kept until
// the loader asks for it.
void keep_library_error(const char* message);
// Messages of errors in blocks of TORCH_LIBRARY since the last call.
std::string take_library_errors();

}  // namespace flambeau
