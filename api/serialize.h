#pragma once
// torch::save and torch::load: tensors, modules and optimizers in files of PyTorch's zip format.
// The file of a module is its state dict, and that of an optimizer is Python's: `load` of Python
// reads both. Values are None, bools, integers, floats, text, tensors and lists of those.
#include <istream>
#include <map>

#include "api/module.h"
#include "api/value.h"

namespace flambeau::api {
namespace optim {
class Optimizer;
}
namespace archive {
class ByteSource;
class Document;
}  // namespace archive

namespace serialize {

// Values under keys, to be written to one file. An archive under a key becomes a dict.
class OutputArchive {
 public:
  OutputArchive();

  // RuntimeError for a key that is taken and for a value that files cannot hold.
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, const api::IValue& value);
  void write(const std::string& key, const OutputArchive& archive);
  // The entries of an archive, under keys that begin with "prefix.".
  void write_below(const std::string& prefix, const OutputArchive& archive);
  template <typename... Parts>
  void operator()(Parts&&... parts) {
    write(std::forward<Parts>(parts)...);
  }
  // The file has one value instead of a dict.
  void set_value(const Tensor& tensor);
  void set_value(const std::vector<Tensor>& tensors);

  // A file is replaced as a whole. RuntimeError if it cannot be written.
  void save_to(const std::string& path) const;
  void save_to(std::ostream& stream) const;
  void save_to(const std::function<size_t(const void* data, size_t size)>& write) const;

  // For sources of the library.
  archive::Document& document() const { return *document_; }
  void add(const std::string& key, uint32_t value);

 private:
  std::shared_ptr<archive::Document> document_;
};

// The values of a file. A key names an entry of its dict, or the entries whose keys begin with
// "key.".
class InputArchive {
 public:
  InputArchive();

  // Reads a whole file. RuntimeError for a damaged one. Tensors go to the device.
  void load_from(const std::string& path, std::optional<c10::Device> device = std::nullopt);
  void load_from(std::istream& stream, std::optional<c10::Device> device = std::nullopt);
  void load_from(const char* data, size_t size, std::optional<c10::Device> device = std::nullopt);
  void load_from(const std::function<size_t(uint64_t at, void* out, size_t size)>& read,
                 const std::function<size_t()>& size,
                 std::optional<c10::Device> device = std::nullopt);

  // A defined tensor takes over the values, the dtype and the sizes; it remains a leaf that
  // requires a gradient if it was one. `read` raises RuntimeError for a missing key, and
  // both for a value of another kind.
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false) const;
  void read(const std::string& key, api::IValue& value) const;
  void read(const std::string& key, InputArchive& archive) const;
  bool try_read(const std::string& key, Tensor& tensor, bool is_buffer = false) const;
  bool try_read(const std::string& key, api::IValue& value) const;
  bool try_read(const std::string& key, InputArchive& archive) const;
  template <typename... Parts>
  void operator()(Parts&&... parts) const {
    read(std::forward<Parts>(parts)...);
  }
  std::vector<std::string> keys() const;
  // A key as it stands in the file.
  std::string path(const std::string& key) const { return shown_ + prefix_ + key; }
  // The file's one value.
  void read_value(Tensor& tensor) const;
  void read_value(std::vector<Tensor>& tensors) const;

  // The entries whose keys begin with "key.", possibly none; or the dict under the key.
  InputArchive below(const std::string& key) const;

  // For sources of the library.
  const archive::Document& document() const { return *document_; }
  const uint32_t* find(const std::string& key) const;
  // A tensor of its own over the file's values; RuntimeError for a value of another kind.
  Tensor tensor(uint32_t value, const std::string& key) const;

 private:
  using Entries = std::map<std::string, uint32_t>;
  void take(const archive::ByteSource& source, std::optional<c10::Device> device);
  void enter(uint32_t dict);

  std::shared_ptr<const archive::Document> document_;
  std::shared_ptr<const Entries> entries_;  // of the dict
  std::string prefix_, shown_;              // of keys, and what messages begin a key with
  std::optional<c10::Device> device_;
};

}  // namespace serialize

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Tensor& tensor);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Tensor& tensor);
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const std::vector<Tensor>& tensors);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, std::vector<Tensor>& tensors);
namespace nn {
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Module& module);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Module& module);
template <typename T>
  requires std::is_base_of_v<Module, T>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const std::shared_ptr<T>& module) {
  check(module != nullptr, "save: expected a module, got nullptr");
  return archive << static_cast<const Module&>(*module);
}
template <typename T>
  requires std::is_base_of_v<Module, T>
serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                    const std::shared_ptr<T>& module) {
  check(module != nullptr, "load: expected a module, got nullptr");
  return archive >> static_cast<Module&>(*module);
}
template <typename T>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const ModuleHolder<T>& module) {
  return archive << module.ptr();
}
template <typename T>
serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                    const ModuleHolder<T>& module) {
  return archive >> module.ptr();
}
}  // namespace nn
namespace optim {
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Optimizer& optimizer);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer);
}  // namespace optim

// Writes a tensor, a list of tensors, a module or an optimizer; `to` is a path, a stream or a
// function that takes bytes. A module's file is a dict of its parameters and buffers.
// RuntimeError if it cannot be written.
template <typename T, typename... To>
void save(const T& value, To&&... to) {
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(std::forward<To>(to)...);
}
// Reads what `save` wrote, here or in Python, into a value of the same kind. A module's entries
// must be there with its sizes; it takes over dtypes. `from` is a path, a stream or bytes, and
// optionally a device. RuntimeError for a damaged file.
template <typename T, typename... From>
void load(T& value, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  archive >> value;
}
template <typename... From>
void load(std::vector<Tensor>& value, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  archive >> value;
}

// A value as the bytes of a file, and back: what `save` of Python writes and `load` reads.
std::vector<char> pickle_save(const IValue& value);
IValue pickle_load(const std::vector<char>& data);

}  // namespace flambeau::api
