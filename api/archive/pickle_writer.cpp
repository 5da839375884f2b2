#include <bit>
#include <cstring>

#include "api/archive/pickle.h"

namespace flambeau::api::archive {

namespace {

template <typename T>
std::string bytes_of_number(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}

// The length of the character that begins at `i`, 0 where none does. RFC 3629, section 4.
size_t utf8_length(const std::string& text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<uint8_t>(k < text.size() ? text[k] : 0); };
  const uint8_t first = byte(i);
  const size_t length = first < 0x80                    ? 1
                        : first >= 0xC2 && first < 0xE0 ? 2
                        : (first & 0xF0) == 0xE0        ? 3
                        : first >= 0xF0 && first < 0xF5 ? 4
                                                        : 0;
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = byte(i + 1);
  const bool is_valid = !(first == 0xE0 && second < 0xA0) && !(first == 0xED && second >= 0xA0) &&
                        !(first == 0xF0 && second < 0x90) && !(first == 0xF4 && second >= 0x90);
  return is_valid ? length : 0;
}

void check_utf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_length(text, i);
    c10::check_value(length > 0, "save: expected text in UTF-8, got byte ",
                     static_cast<uint8_t>(text[i]), " at place ", i);
    i += length;
  }
}

// The format has no class of storages for other dtypes: it says the dtype beside the bytes.
bool has_storage_class(c10::ScalarType type) {
  return type < c10::ScalarType::UInt64 && type != c10::ScalarType::Undefined;
}

}  // namespace

std::string PickleWriter::run() {
  out_ = "\x80\x02";
  write(document_.root);
  out_ += '.';
  return std::move(out_);
}

void PickleWriter::write_name(const std::string& module, const std::string& name) {
  out_ += 'c' + module + '\n' + name + '\n';
}

void PickleWriter::write(int64_t value) {
  if (value >= 0 && value < 256) {
    out_ += 'K' + bytes_of_number(static_cast<uint8_t>(value));
  } else if (value == static_cast<int32_t>(value)) {
    out_ += 'J' + bytes_of_number(static_cast<int32_t>(value));
  } else {
    out_ += "\x8a\x08" + bytes_of_number(value);
  }
}

void PickleWriter::write(double value) {
  out_ += 'G' + bytes_of_number(__builtin_bswap64(std::bit_cast<uint64_t>(value)));
}

void PickleWriter::write(const std::string& text) {
  check_utf8(text);
  check(text.size() <= UINT32_MAX, "save: expected text of less than 4 GiB, got ", text.size(),
        " bytes");
  out_ += 'X' + bytes_of_number(static_cast<uint32_t>(text.size())) + text;
}

void PickleWriter::write(ValueId id) {
  const Value& value = document_[id];
  if (const auto* list = std::get_if<ListValue>(&value)) {
    out_ += list->is_tuple ? "(" : "](";
    for (const ValueId item : list->items) write(item);
    out_ += list->is_tuple ? 't' : 'e';
  } else if (const auto* dict = std::get_if<DictValue>(&value)) {
    out_ += "}(";
    for (const auto& [key, item] : dict->entries) {
      write(key);
      write(item);
    }
    out_ += 'u';
  } else if (const auto* tensor = std::get_if<TensorValue>(&value)) {
    write(*tensor);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    write(*text);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    write(*integer);
  } else if (const auto* real = std::get_if<double>(&value)) {
    write(*real);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    write_bool(*flag);
  } else {
    check(value.index() == 0, "save: expected a value of a state dict, got ", document_.kind(id));
    out_ += 'N';
  }
}

void PickleWriter::write_sizes(c10::IntArrayRef sizes) {
  out_ += '(';
  for (const int64_t size : sizes) write(size);
  out_ += 't';
}

void PickleWriter::write_storage(const c10::Storage& storage, c10::ScalarType dtype) {
  const auto [place, is_new] = places_.try_emplace(storage.get(), storages_.size());
  if (is_new) storages_.push_back(storage);
  const bool is_typed = has_storage_class(dtype);
  out_ += '(';
  write(std::string("storage"));
  if (is_typed) {
    write_name("torch", text_of(c10::pytorch_name_of(dtype), "Storage"));
  } else {
    write_name("torch.storage", "UntypedStorage");
  }
  write(std::to_string(place->second));
  write(std::string("cpu"));
  write(static_cast<int64_t>(storage->nbytes() / (is_typed ? c10::element_size(dtype) : 1)));
  out_ += "tQ";
}

void PickleWriter::write(const TensorValue& value) {
  const flambeau::Tensor& tensor = value.tensor;
  const bool is_typed = has_storage_class(tensor.dtype());
  write_name("torch._utils", is_typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out_ += '(';
  write_storage(tensor.storage(), tensor.dtype());
  write(tensor.storage_offset());
  write_sizes(tensor.sizes());
  write_sizes(tensor.strides());
  write_bool(value.requires_grad);
  write_name("collections", "OrderedDict");
  out_ += ")R";
  if (!is_typed) write_name("torch", c10::name_of(tensor.dtype()));
  if (tensor.is_conj() || tensor.is_neg()) {
    out_ += "}(";
    for (const auto& [name, is_set] :
         {std::pair("conj", tensor.is_conj()), std::pair("neg", tensor.is_neg())}) {
      if (!is_set) continue;
      write(std::string(name));
      write_bool(true);
    }
    out_ += 'u';
  }
  out_ += "tR";
}

}  // namespace flambeau::api::archive
