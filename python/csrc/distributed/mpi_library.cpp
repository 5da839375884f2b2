#include <dlfcn.h>

#include <stdexcept>

#include "python/csrc/distributed/mpi_abi.h"

namespace flambeau::distributed::mpi {
namespace {

Library functions{};
bool loaded = false;

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function) {
    throw std::runtime_error(
        std::string("expected an MPI library with the standard ABI, got one without ") + name);
  }
}

void find_setup(void* handle, Library& found) {
  find(handle, "MPI_Init_thread", found.init_thread);
  find(handle, "MPI_Finalize", found.finalize);
  find(handle, "MPI_Initialized", found.initialized);
  find(handle, "MPI_Error_string", found.error_string);
  find(handle, "MPI_Comm_rank", found.comm_rank);
  find(handle, "MPI_Comm_size", found.comm_size);
  find(handle, "MPI_Comm_group", found.comm_group);
  find(handle, "MPI_Comm_create_group", found.comm_create_group);
  find(handle, "MPI_Comm_free", found.comm_free);
  find(handle, "MPI_Comm_set_errhandler", found.comm_set_errhandler);
  find(handle, "MPI_Group_incl", found.group_incl);
  find(handle, "MPI_Group_free", found.group_free);
  find(handle, "MPI_Op_create_c", found.op_create);
}

void find_operations(void* handle, Library& found) {
  find(handle, "MPI_Test", found.test);
  find(handle, "MPI_Isend_c", found.isend);
  find(handle, "MPI_Irecv_c", found.irecv);
  find(handle, "MPI_Ibarrier", found.ibarrier);
  find(handle, "MPI_Ibcast_c", found.ibcast);
  find(handle, "MPI_Iallreduce_c", found.iallreduce);
  find(handle, "MPI_Ireduce_c", found.ireduce);
  find(handle, "MPI_Ireduce_scatter_block_c", found.ireduce_scatter_block);
  find(handle, "MPI_Iallgatherv_c", found.iallgatherv);
  find(handle, "MPI_Igatherv_c", found.igatherv);
  find(handle, "MPI_Iscatterv_c", found.iscatterv);
  find(handle, "MPI_Ialltoallv_c", found.ialltoallv);
}

}  // namespace

const Library& library() {
  if (!loaded) throw std::runtime_error("expected a loaded MPI library, got none");
  return functions;
}

void load(const std::string& path) {
  if (loaded) return;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) throw std::runtime_error(std::string("expected an MPI library, got ") + dlerror());
  Library found{};
  find_setup(handle, found);
  find_operations(handle, found);
  functions = found;
  loaded = true;
}

std::string describe(int error) {
  char text[kMaxErrorString * 16] = "";  // some libraries write more than the standard's maximum
  int length = 0;
  library().error_string(error, text, &length);
  return text;
}

void check(int error, const char* function) {
  if (error != 0) throw std::runtime_error(std::string(function) + ": " + describe(error));
}

}  // namespace flambeau::distributed::mpi
