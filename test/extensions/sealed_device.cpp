// An out-of-tree device whose memory the host cannot touch: addresses that tensors see are pages
// without access, so that whatever reads or writes them ends the process. The bytes are kept
// elsewhere, each with some bits flipped, so that a copy that goes around the backend is found.
#include <api/device.h>
#include <sys/mman.h>
#include <torch/extension.h>

#include <atomic>
#include <map>
#include <mutex>
#include <new>

namespace {

constexpr char kFlip = 0x5a;
constexpr int kDevices = 2;
thread_local int current = 0;

struct Block {
  std::vector<char> bytes;
  int device;
};

class SealedBackend final : public c10::DeviceBackend {
 public:
  int device_count() const override { return kDevices; }
  int current_device() const override { return current; }
  void set_device(int device) override {
    TORCH_CHECK(device >= 0 && device < kDevices, "set_device: expected 0 or 1, got ", device);
    current = device;
  }
  void synchronize(int) override { ++synchronized; }

  void* allocate(size_t bytes, int device) override {
    if (bytes > (size_t{1} << 30)) throw std::bad_alloc();
    void* const address = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) throw std::bad_alloc();
    const std::lock_guard lock(mutex_);
    blocks_[address] = {std::vector<char>(bytes, 0x33), device};
    stats_[device].allocated_bytes += static_cast<int64_t>(bytes);
    ++stats_[device].allocations;
    stats_[device].peak_allocated_bytes =
        std::max(stats_[device].peak_allocated_bytes, stats_[device].allocated_bytes);
    return address;
  }
  void deallocate(void* memory, size_t bytes, int device) noexcept override {
    const std::lock_guard lock(mutex_);
    const auto at = blocks_.find(memory);
    if (at == blocks_.end() || at->second.bytes.size() != bytes || at->second.device != device)
      std::abort();
    munmap(memory, bytes);
    blocks_.erase(at);
    stats_[device].allocated_bytes -= static_cast<int64_t>(bytes);
  }
  c10::AllocatorStats stats(int device) const override {
    const std::lock_guard lock(mutex_);
    return stats_[device];
  }
  void reset_peak(int device) override {
    const std::lock_guard lock(mutex_);
    stats_[device].peak_allocated_bytes = stats_[device].allocated_bytes;
  }
  void empty_cache() override {}

  void copy_from_host(void* memory, size_t offset, int device, const void* host,
                      size_t bytes) override {
    const std::lock_guard lock(mutex_);
    char* const to = at(memory, offset, device, bytes);
    for (size_t i = 0; i < bytes; ++i) to[i] = static_cast<const char*>(host)[i] ^ kFlip;
  }
  void copy_to_host(const void* memory, size_t offset, int device, void* host,
                    size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const char* const from = at(memory, offset, device, bytes);
    for (size_t i = 0; i < bytes; ++i) static_cast<char*>(host)[i] = from[i] ^ kFlip;
    ++downloads;
  }
  void copy_bytes(void* to, size_t to_offset, int to_device, const void* from, size_t from_offset,
                  int from_device, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const char* const source = at(from, from_offset, from_device, bytes);
    std::copy_n(source, bytes, at(to, to_offset, to_device, bytes));
  }

  std::atomic<int> synchronized{0}, downloads{0};

 private:
  char* at(const void* memory, size_t offset, int device, size_t bytes) {
    Block& block = blocks_.at(const_cast<void*>(memory));
    TORCH_CHECK(block.device == device && offset + bytes <= block.bytes.size(),
                "sealed device: access outside of a block");
    return block.bytes.data() + offset;
  }

  mutable std::mutex mutex_;
  std::map<void*, Block> blocks_;
  c10::AllocatorStats stats_[kDevices];
};

SealedBackend& backend() {
  static auto* const made = new SealedBackend;
  return *made;
}

int negated = 0;

// A kernel of the device for one operator.
at::Tensor neg_sealed(const at::Tensor& self) {
  ++negated;
  const at::Tensor host = self.to(at::kCPU);
  return at::neg(host).to(self.device());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("neg", &neg_sealed); }

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("register", [] { c10::register_private_backend(&backend()); });
  m.def("register_another", [] { c10::register_private_backend(new SealedBackend); });
  m.def("downloads", [] { return backend().downloads.load(); });
  m.def("negated", [] { return negated; });
  m.def("current_device", [] { return current; });
  m.def("set_device", [](int device) { backend().set_device(device); });
  m.def("device_count", [] { return kDevices; });
  m.def("allocated", [](int device) { return backend().stats(device).allocated_bytes; });
  m.def("guarded", [](int device) {
    const c10::DeviceGuard guard(at::Device(at::kPrivateUse1, static_cast<int8_t>(device)));
    return current;
  });
  m.def("read_directly", [](const at::Tensor& t) { return *t.data_ptr<float>(); });
}
