#include "aten/core/loop_table.h"

#include <dlfcn.h>

#include <string>

#include "c10/core/check.h"

namespace flambeau {
namespace {

// The libraries of loops lie beside the library that contains this function.
void* open_loops() {
  Dl_info here;
  check(dladdr(reinterpret_cast<const void*>(&find_loops), &here) != 0,
        "flambeau: expected a shared library with loops beside it, got a program without one");
  std::string path = here.dli_fname;
  path.erase(path.rfind('/') + 1);
  path.append("libflambeau_loops_").append(name_of(static_cast<Isa>(cpu_isa()))).append(".so");
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* const reason = library ? nullptr : dlerror();
  check(library, "flambeau: expected the loops of this processor in ", path, ", got ",
        reason ? reason : "an error without a message");
  return library;
}

}  // namespace

const void* find_loops(const char* name) {
  static void* const library = open_loops();
  std::string table = std::string(name) + "_loops_" + name_of(static_cast<Isa>(cpu_isa()));
  // flambeau::loops::<table> in the Itanium C++ ABI's spelling.
  const std::string symbol = "_ZN8flambeau5loops" + std::to_string(table.size()) + table + "E";
  const void* const found = dlsym(library, symbol.c_str());
  check(found, "flambeau: expected the table ", table, " in the library of loops, got one without");
  return found;
}

}  // namespace flambeau
