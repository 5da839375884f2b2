#pragma once
// Pickles of state dicts. The reader knows the opcodes that data needs and runs nothing: names are
// those of tensors, their storages and plain containers, and no opcode takes more memory than a
// constant times the bytes that the pickle has for it. Counterpart of
// python/flambeau/serialization/_opcodes.py.
#include <map>
#include <optional>
#include <unordered_map>

#include "api/archive/document.h"

namespace flambeau::api::archive {

// The storage of a name, which is outside the pickle, as elements of a dtype (Undefined: bytes).
using StorageOf = std::function<c10::Storage(const std::string& key, c10::ScalarType dtype)>;

class PickleReader {
 public:
  PickleReader(std::string text, StorageOf storage_of, Document& out)
      : text_(std::move(text)), storage_of_(std::move(storage_of)), out_(out) {}
  // The number of the object. RuntimeError for a damaged pickle.
  ValueId run();

 private:
  // Each runs the opcodes of one kind and returns whether `opcode` is one of them.
  bool run_constant(uint8_t opcode);
  bool run_number(uint8_t opcode);
  bool run_text(uint8_t opcode);
  bool run_tuple(uint8_t opcode);
  bool run_container(uint8_t opcode);
  bool run_memo(uint8_t opcode);
  bool run_name(uint8_t opcode);

  std::string take(uint64_t count);
  template <typename T>
  T number();
  std::string line();
  void push(Value value) { stack_.push_back(out_.add(std::move(value))); }
  ValueId pop();
  ValueId top();
  std::vector<ValueId> pop_mark();
  void push_tuple(std::vector<ValueId> items);
  void append(const std::vector<ValueId>& items);
  void set(const std::vector<ValueId>& items);
  void resolve(ValueId id);
  void put(uint32_t key) { memo_[key] = top(); }
  const std::vector<ValueId>& tuple(ValueId id) const;

  std::string text_;
  StorageOf storage_of_;
  Document& out_;
  size_t at_ = 0;
  std::vector<ValueId> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::unordered_map<uint32_t, ValueId> memo_;
};

// The result of calling a name with arguments: tensors over storages, parameters, containers.
// RuntimeError for other names.
Value called(const Document& document, const std::string& name, const std::vector<ValueId>& args);

// The dtype of torch.FloatStorage and the like; nullopt for other names.
std::optional<c10::ScalarType> storage_dtype(const std::string& name);

class PickleWriter {
 public:
  explicit PickleWriter(const Document& document) : document_(document) {}
  // The pickle of the root; `storages()` are to be written under their places in the list.
  std::string run();
  const std::vector<c10::Storage>& storages() const { return storages_; }

 private:
  void write(ValueId id);
  void write(int64_t value);
  void write(double value);
  void write(const std::string& text);
  void write(const TensorValue& value);
  void write_sizes(c10::IntArrayRef sizes);
  void write_storage(const c10::Storage& storage, c10::ScalarType dtype);
  void write_name(const std::string& module, const std::string& name);
  void write_bool(bool value) { out_ += value ? '\x88' : '\x89'; }

  const Document& document_;
  std::string out_;
  std::vector<c10::Storage> storages_;
  std::map<const c10::StorageImpl*, size_t> places_;
};

}  // namespace flambeau::api::archive
