#pragma once
// Tables of loops. Each instruction set has a library of loops beside libflambeau, and a process
// opens the one for its set (docs/adr/0024). In extensions, in the C++ tests and in builds with
// -DFLAMBEAU_ONE_ISA the tables are linked into the code that uses them.
#include <cstddef>

#include "aten/core/loop_types.h"
#include "c10/core/isa.h"

namespace flambeau {

// The table `<name>_loops_<set>` of the library for this process's instruction set. RuntimeError if
// the library or the table is missing.
const void* find_loops(const char* name);

// The loops of one operator, an array of T.
template <typename T>
class LoopTable {
 public:
  constexpr LoopTable() = default;
  // `linked`: a table for each instruction set; null: the table is in the library of loops.
  constexpr LoopTable(const char* name, const T* const* linked) : name_(name), linked_(linked) {}
  constexpr explicit LoopTable(const T* table) : table_(table) {}

  const char* name() const { return name_; }
  const T* get() const {
    const T* const table = __atomic_load_n(&table_, __ATOMIC_ACQUIRE);
    return table ? table : find();
  }
  const T& operator[](size_t i) const { return get()[i]; }

 private:
  [[gnu::cold, gnu::noinline]] const T* find() const {
    const T* const table = linked_ ? linked_[cpu_isa()] : static_cast<const T*>(find_loops(name_));
    __atomic_store_n(&table_, table, __ATOMIC_RELEASE);  // threads that race store the same
    return table;
  }

  const char* name_ = nullptr;
  const T* const* linked_ = nullptr;
  mutable const T* table_ = nullptr;
};

}  // namespace flambeau

// FLAMBEAU_DECLARE_LOOPS(type, name) in the namespace flambeau, then FLAMBEAU_LOOP_TABLE(name)
// initialises a LoopTable<type>. Linked tables are weak: in a build for one set (-DFLAMBEAU_ISA)
// the others are null.
#if defined(FLAMBEAU_LIBRARIES_OF_LOOPS)
#define FLAMBEAU_DECLARE_LOOPS(type, name)
#define FLAMBEAU_LOOP_TABLE(name) {#name, nullptr}
#elif defined(__x86_64__) && !defined(FLAMBEAU_ONE_ISA)
#define FLAMBEAU_DECLARE_LOOPS(type, name)                                          \
  namespace loops {                                                                 \
  extern const type name##_loops_x86_64[] __attribute__((weak));                    \
  extern const type name##_loops_v3[] __attribute__((weak));                        \
  extern const type name##_loops_v4[] __attribute__((weak));                        \
  static const type* const name##_linked[] = {name##_loops_x86_64, name##_loops_v3, \
                                              name##_loops_v4};                     \
  }
#define FLAMBEAU_LOOP_TABLE(name) {#name, loops::name##_linked}
#else
#define FLAMBEAU_DECLARE_LOOPS(type, name)                           \
  namespace loops {                                                  \
  extern const type name##_loops_generic[];                          \
  static const type* const name##_linked[] = {name##_loops_generic}; \
  }
#define FLAMBEAU_LOOP_TABLE(name) {#name, loops::name##_linked}
#endif
