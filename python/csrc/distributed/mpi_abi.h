// The part of MPI that the engine calls, by the standard ABI of MPI 5: handles are pointers, and
// predefined handles have the small values below. The functions are found by name in the library
// when it is loaded, so no header of an MPI library is included, and nothing is linked. Source:
// MPI: A Message-Passing Interface Standard, version 5.0, chapter "Application Binary Interface".
#pragma once

#include <cstdint>
#include <string>

namespace flambeau::distributed::mpi {

using Comm = struct CommObject*;
using Group = struct GroupObject*;
using Op = struct OpObject*;
using Datatype = struct DatatypeObject*;
using Handle = struct RequestObject*;  // MPI_Request
using ErrorHandler = struct ErrorHandlerObject*;
using Count = int64_t;
using Aint = intptr_t;
using UserFunction = void (*)(void*, void*, Count*, Datatype*);

struct Status {
  int source, tag, error;
  int reserved[5];
};

template <typename Pointer>
Pointer predefined(uintptr_t value) {
  return reinterpret_cast<Pointer>(value);
}

inline Comm comm_world() { return predefined<Comm>(0x101); }
inline Comm comm_null() { return predefined<Comm>(0x100); }
inline ErrorHandler errors_return() { return predefined<ErrorHandler>(0x143); }
inline Handle request_null() { return predefined<Handle>(0x180); }
inline Datatype byte() { return predefined<Datatype>(0x247); }
inline void* in_place() { return predefined<void*>(1); }

constexpr int kAnySource = -1;
constexpr int kThreadMultiple = 4096;
constexpr int kMaxErrorString = 512;

struct Library {
  int (*init_thread)(int*, char***, int, int*);
  int (*finalize)();
  int (*initialized)(int*);
  int (*error_string)(int, char*, int*);
  int (*comm_rank)(Comm, int*);
  int (*comm_size)(Comm, int*);
  int (*comm_group)(Comm, Group*);
  int (*comm_create_group)(Comm, Group, int, Comm*);
  int (*comm_free)(Comm*);
  int (*comm_set_errhandler)(Comm, ErrorHandler);
  int (*group_incl)(Group, int, const int*, Group*);
  int (*group_free)(Group*);
  int (*op_create)(UserFunction, int, Op*);
  int (*test)(Handle*, int*, Status*);
  int (*isend)(const void*, Count, Datatype, int, int, Comm, Handle*);
  int (*irecv)(void*, Count, Datatype, int, int, Comm, Handle*);
  int (*ibarrier)(Comm, Handle*);
  int (*ibcast)(void*, Count, Datatype, int, Comm, Handle*);
  int (*iallreduce)(const void*, void*, Count, Datatype, Op, Comm, Handle*);
  int (*ireduce)(const void*, void*, Count, Datatype, Op, int, Comm, Handle*);
  int (*ireduce_scatter_block)(const void*, void*, Count, Datatype, Op, Comm, Handle*);
  int (*iallgatherv)(const void*, Count, Datatype, void*, const Count*, const Aint*, Datatype, Comm,
                     Handle*);
  int (*igatherv)(const void*, Count, Datatype, void*, const Count*, const Aint*, Datatype, int,
                  Comm, Handle*);
  int (*iscatterv)(const void*, const Count*, const Aint*, Datatype, void*, Count, Datatype, int,
                   Comm, Handle*);
  int (*ialltoallv)(const void*, const Count*, const Aint*, Datatype, void*, const Count*,
                    const Aint*, Datatype, Comm, Handle*);
};

// The library that `load` has found. Throws std::runtime_error before that.
const Library& library();

// Opens a shared library and finds the functions in it. Throws std::runtime_error that names what
// is missing.
void load(const std::string& path);

// The library's text for an error.
std::string describe(int error);

// Throws std::runtime_error with the library's text unless `error` is 0.
void check(int error, const char* function);

}  // namespace flambeau::distributed::mpi
