#include "api/serialize.h"

#include <algorithm>
#include <ostream>

#include "api/archive/document.h"
#include "api/optim.h"

namespace flambeau::api {
namespace serialize {

namespace {

using archive::DictValue;
using archive::Document;
using archive::ListValue;
using archive::TensorValue;
using archive::ValueId;

TensorValue stored(const std::string& key, const Tensor& tensor) {
  check(tensor.defined(), "save: expected a tensor with values as '", key,
        "', got an undefined one");
  check(tensor.layout() == Layout::Strided && !tensor.is_meta() && !tensor.impl()->wrapper(),
        "save: expected a strided tensor with values as '", key, "', got layout ",
        static_cast<int>(tensor.layout()), " on ", tensor.device());
  const NoGradGuard no_grad;
  return {tensor.detach().cpu(), tensor.requires_grad()};
}

template <typename Items, typename Add>
ValueId add_list(Document& document, const Items& items, const Add& add) {
  ListValue list;
  for (const auto& item : items) list.items.push_back(add(item));
  return document.add(std::move(list));
}

ValueId add_number(Document& document, const c10::Scalar& value, const std::string& key) {
  check(!value.is_complex(), "save: expected a real number as '", key, "', got a complex one");
  if (value.is_bool()) return document.add(value.to_bool());
  if (value.is_floating()) return document.add(value.to_double());
  return document.add(value.to<int64_t>());
}

ValueId add_value(Document& document, const std::string& key, const flambeau::IValue& value) {
  const auto add = [&]<typename T>(const T& held) -> ValueId {
    const auto again = [&](const auto& item) { return add_value(document, key, IValue(item)); };
    if constexpr (std::is_same_v<T, std::monostate> || std::is_same_v<T, std::string>) {
      return document.add(held);
    } else if constexpr (std::is_same_v<T, c10::Scalar>) {
      return add_number(document, held, key);
    } else if constexpr (std::is_same_v<T, flambeau::Tensor>) {
      return document.add(stored(key, held));
    } else if constexpr (requires { held.begin(); }) {
      return add_list(document, held, again);
    } else {
      fail(ErrorKind::Runtime, "save: expected a number, text, tensors or lists of them as '", key,
           "', got a value of another type");
    }
  };
  return std::visit(add, value.payload());
}

DictValue& entries_of(Document& document) {
  auto* const dict = document.find<DictValue>(document.root);
  check(dict != nullptr, "save: expected keys or one value, got both");
  return *dict;
}

}  // namespace

// --- writing -------------------------------------------------------------------------------------

OutputArchive::OutputArchive() : document_(std::make_shared<Document>()) {
  document_->root = document_->add(DictValue{});
}

void OutputArchive::add(const std::string& key, uint32_t value) {
  check(document_->entry<std::string>(document_->root, key) == nullptr,
        "save: expected a new key, got '", key, "' again");
  const ValueId name = document_->add(key);
  entries_of(*document_).entries.emplace_back(name, value);
}

void OutputArchive::write(const std::string& key, const Tensor& tensor, bool /*is_buffer*/) {
  add(key, document_->add(stored(key, tensor)));
}
void OutputArchive::write(const std::string& key, const api::IValue& value) {
  add(key, add_value(*document_, key, value));
}
void OutputArchive::write(const std::string& key, const OutputArchive& archive) {
  const Document copy = *archive.document_;  // it may be this archive
  add(key, document_->append(copy) + copy.root);
}

void OutputArchive::write_below(const std::string& prefix, const OutputArchive& archive) {
  const Document copy = *archive.document_;
  const ValueId shift = document_->append(copy);
  const auto* const dict = copy.find<DictValue>(copy.root);
  check(dict != nullptr, "save: expected an archive with keys below '", prefix,
        "', got one with a single value");
  for (const auto& [key, value] : dict->entries) {
    add(prefix + "." + *copy.find<std::string>(key), value + shift);
  }
}

void OutputArchive::set_value(const Tensor& tensor) {
  check(entries_of(*document_).entries.empty(), "save: expected keys or one value, got both");
  document_->root = document_->add(stored("value", tensor));
}
void OutputArchive::set_value(const std::vector<Tensor>& tensors) {
  check(entries_of(*document_).entries.empty(), "save: expected keys or one value, got both");
  document_->root = add_list(*document_, tensors, [&](const Tensor& tensor) {
    return document_->add(stored("value", tensor));
  });
}

void OutputArchive::save_to(const std::string& path) const {
  archive::replace_file(
      path, [this](const archive::Sink& sink) { archive::write_document(*document_, sink); });
}
void OutputArchive::save_to(std::ostream& stream) const {
  archive::write_document(*document_, [&stream](const void* data, size_t size) {
    stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    check(static_cast<bool>(stream), "save: the stream cannot be written");
  });
}
void OutputArchive::save_to(const std::function<size_t(const void*, size_t)>& write) const {
  archive::write_document(*document_, [&write](const void* data, size_t size) {
    const size_t written = write(data, size);
    check(written == size, "save: expected a function that takes ", size, " bytes, got ", written);
  });
}

// --- reading -------------------------------------------------------------------------------------

InputArchive::InputArchive()
    : document_(std::make_shared<Document>()), entries_(std::make_shared<Entries>()) {}

void InputArchive::enter(uint32_t dict) {
  auto entries = std::make_shared<Entries>();
  if (const auto* found = document_->find<DictValue>(dict)) {
    for (const auto& [key, value] : found->entries) {
      const auto* const name = document_->find<std::string>(key);
      if (name != nullptr) entries->insert_or_assign(*name, value);
    }
  }
  entries_ = std::move(entries);
  prefix_.clear();
}

void InputArchive::take(const archive::ByteSource& source, std::optional<c10::Device> device) {
  document_ = std::make_shared<Document>(archive::read_document(source));
  device_ = device;
  shown_.clear();
  enter(document_->root);
}

void InputArchive::load_from(const std::string& path, std::optional<c10::Device> device) {
  take(*archive::open_file(path), device);
}
void InputArchive::load_from(std::istream& stream, std::optional<c10::Device> device) {
  check(static_cast<bool>(stream), "load: the stream cannot be read");
  std::string text(std::istreambuf_iterator<char>(stream), {});
  take(*archive::bytes_of(std::move(text)), device);
}
void InputArchive::load_from(const char* data, size_t size, std::optional<c10::Device> device) {
  take(*archive::bytes_of(std::string(data, size)), device);
}
void InputArchive::load_from(const std::function<size_t(uint64_t, void*, size_t)>& read,
                             const std::function<size_t()>& size,
                             std::optional<c10::Device> device) {
  struct Source final : archive::ByteSource {
    const std::function<size_t(uint64_t, void*, size_t)>& get;
    uint64_t bytes;
    Source(const std::function<size_t(uint64_t, void*, size_t)>& get, uint64_t bytes)
        : get(get), bytes(bytes) {}
    uint64_t size() const override { return bytes; }
    void read(uint64_t at, void* out, size_t count) const override {
      if (count == 0) return;
      const size_t done = get(at, out, count);
      check(done == count, "load: expected ", count, " bytes of the function, got ", done);
    }
  };
  take(Source(read, size()), device);
}

const uint32_t* InputArchive::find(const std::string& key) const {
  const auto at = entries_->find(prefix_ + key);
  return at == entries_->end() ? nullptr : &at->second;
}

std::vector<std::string> InputArchive::keys() const {
  std::vector<std::string> out;
  for (auto at = entries_->lower_bound(prefix_);
       at != entries_->end() && at->first.starts_with(prefix_); ++at) {
    out.push_back(at->first.substr(prefix_.size()));
  }
  return out;
}

InputArchive InputArchive::below(const std::string& key) const {
  InputArchive out = *this;
  const uint32_t* const value = find(key);
  if (value != nullptr && document_->find<DictValue>(*value) != nullptr) {
    out.shown_ = path(key) + ".";
    out.enter(*value);
  } else {
    out.prefix_ = prefix_ + key + ".";
  }
  return out;
}

Tensor InputArchive::tensor(uint32_t value, const std::string& key) const {
  const auto* const found = document_->find<TensorValue>(value);
  check(found != nullptr, "load: expected a tensor as '", path(key), "', got ",
        document_->kind(value));
  Tensor out = autograd::variable_data(found->tensor);
  if (device_) out = out.to(*device_);
  out.set_requires_grad(found->requires_grad);
  return out;
}

bool InputArchive::try_read(const std::string& key, Tensor& tensor, bool /*is_buffer*/) const {
  const uint32_t* const value = find(key);
  if (value == nullptr) return false;
  const Tensor found = this->tensor(*value, key);
  if (tensor.defined()) {
    autograd::set_data(tensor, found.data());
  } else {
    tensor = found;
  }
  return true;
}

namespace {

// A list of one kind of values; numbers of both kinds are floats.
flambeau::IValue list_of(const InputArchive& archive, const ListValue& list,
                         const std::string& key) {
  const Document& document = archive.document();
  std::vector<flambeau::Tensor> tensors;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<bool> flags;
  for (const ValueId id : list.items) {
    if (document.find<TensorValue>(id)) tensors.push_back(archive.tensor(id, key));
    if (const auto* integer = document.find<int64_t>(id)) integers.push_back(*integer);
    if (const auto* real = document.find<double>(id)) reals.push_back(*real);
    if (const auto* flag = document.find<bool>(id)) flags.push_back(*flag);
  }
  const size_t size = list.items.size();
  if (integers.size() == size) return flambeau::IValue(std::move(integers));
  if (tensors.size() == size) return flambeau::IValue(std::move(tensors));
  if (reals.size() == size) return flambeau::IValue(std::move(reals));
  check(flags.size() == size, "load: expected a list of integers, floats, bools or tensors as '",
        key, "', got one of other or several kinds");
  return flambeau::IValue(std::move(flags));
}

api::IValue value_of(const InputArchive& archive, ValueId id, const std::string& key) {
  const auto convert = [&]<typename T>(const T& held) -> api::IValue {
    if constexpr (std::is_same_v<T, std::monostate>) {
      return {};
    } else if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, int64_t> ||
                         std::is_same_v<T, double> || std::is_same_v<T, std::string>) {
      return held;
    } else if constexpr (std::is_same_v<T, TensorValue>) {
      return static_cast<flambeau::Tensor>(archive.tensor(id, key));
    } else if constexpr (std::is_same_v<T, ListValue>) {
      return list_of(archive, held, key);
    } else {
      fail(ErrorKind::Runtime, "load: expected a number, text, a tensor or a list of them as '",
           key, "', got ", archive.document().kind(id));
    }
  };
  return std::visit(convert, archive.document()[id]);
}

}  // namespace

bool InputArchive::try_read(const std::string& key, api::IValue& value) const {
  const uint32_t* const found = find(key);
  if (found != nullptr) value = value_of(*this, *found, path(key));
  return found != nullptr;
}

bool InputArchive::try_read(const std::string& key, InputArchive& archive) const {
  const uint32_t* const value = find(key);
  InputArchive found = below(key);
  if (found.keys().empty() && (value == nullptr || !document_->find<DictValue>(*value)))
    return false;
  archive = std::move(found);
  return true;
}

void InputArchive::read(const std::string& key, Tensor& tensor, bool is_buffer) const {
  check(try_read(key, tensor, is_buffer), "load: expected a tensor as '", path(key),
        "', got a file without it");
}
void InputArchive::read(const std::string& key, api::IValue& value) const {
  check(try_read(key, value), "load: expected a value as '", path(key), "', got a file without it");
}
void InputArchive::read(const std::string& key, InputArchive& archive) const {
  check(try_read(key, archive), "load: expected entries below '", path(key),
        "', got a file without them");
}

void InputArchive::read_value(Tensor& tensor) const {
  const Tensor found = this->tensor(document_->root, "value");
  if (tensor.defined()) {
    autograd::set_data(tensor, found.data());
  } else {
    tensor = found;
  }
}
void InputArchive::read_value(std::vector<Tensor>& tensors) const {
  const auto* const list = document_->find<ListValue>(document_->root);
  check(list != nullptr, "load: expected a list of tensors, got ",
        document_->kind(document_->root));
  std::vector<Tensor> found;
  for (const ValueId id : list->items) found.push_back(tensor(id, "value"));
  tensors = std::move(found);
}

}  // namespace serialize

// --- save and load -------------------------------------------------------------------------------

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Tensor& tensor) {
  archive.set_value(tensor);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Tensor& tensor) {
  archive.read_value(tensor);
  return archive;
}
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const std::vector<Tensor>& tensors) {
  archive.set_value(tensors);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive,
                                    std::vector<Tensor>& tensors) {
  archive.read_value(tensors);
  return archive;
}
namespace nn {
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Module& module) {
  module.save(archive);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Module& module) {
  module.load(archive);
  return archive;
}
}  // namespace nn
namespace optim {
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive,
                                     const Optimizer& optimizer) {
  optimizer.save(archive);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer) {
  optimizer.load(archive);
  return archive;
}
}  // namespace optim

std::vector<char> pickle_save(const IValue& value) {
  serialize::OutputArchive archive;
  archive.document().root = serialize::add_value(archive.document(), "value", value);
  std::vector<char> out;
  archive.save_to([&](const void* data, size_t size) {
    const auto* const bytes = static_cast<const char*>(data);
    out.insert(out.end(), bytes, bytes + size);
    return size;
  });
  return out;
}
IValue pickle_load(const std::vector<char>& data) {
  serialize::InputArchive archive;
  archive.load_from(data.data(), data.size());
  return serialize::value_of(archive, archive.document().root, "value");
}

}  // namespace flambeau::api
