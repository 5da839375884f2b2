// Tensors over files that are mapped into memory.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "python/csrc/data.h"

namespace flambeau::python {
namespace {

struct Mapping {
  void* data;
  size_t bytes;
};

void unmap(void* context) {
  const std::unique_ptr<Mapping> mapping(static_cast<Mapping*>(context));
  munmap(mapping->data, mapping->bytes);
}

}  // namespace

Tensor map_file(int descriptor, int64_t offset, int64_t count) {
  check(offset >= 0 && count > 0, "_map_file: expected an offset and a positive size, got ", offset,
        " and ", count);
#ifdef MAP_POPULATE
  constexpr int kFlags = MAP_SHARED | MAP_POPULATE;  // all of it will be read
#else
  constexpr int kFlags = MAP_SHARED;
#endif
  const auto bytes = static_cast<size_t>(count);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, descriptor, offset);
  check(data != MAP_FAILED, "_map_file: cannot map ", count, " bytes: ", std::strerror(errno));
  auto mapping = std::make_unique<Mapping>(Mapping{data, bytes});
  Storage storage =
      make_intrusive<StorageImpl>(data, bytes, Device(DeviceType::CPU), &unmap, mapping.release());
  Tensor t(
      make_intrusive<TensorImpl>(std::move(storage), ScalarType::UInt8, Device(DeviceType::CPU)));
  t.impl()->set_contiguous_sizes({count});
  return t;
}

}  // namespace flambeau::python
