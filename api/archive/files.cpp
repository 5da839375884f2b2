// Files of state dicts: a pickle and the bytes of its storages in one zip archive.
#include <algorithm>

#include "api/archive/pickle.h"
#include "api/archive/zip.h"

namespace flambeau::api::archive {

namespace {

constexpr const char* kRoot = "archive";

// The folder of the archive, whose name is the writer's choice.
std::string root_of(const ZipReader& zip) {
  static constexpr std::string_view kEnd = "/data.pkl";
  std::vector<std::string> roots;
  for (const std::string& name : zip.names()) {
    if (name.ends_with(kEnd)) roots.push_back(name.substr(0, name.size() - kEnd.size()));
  }
  check(roots.size() == 1, "load: expected one record data.pkl, found ", roots.size(),
        ": file not found");
  return roots[0];
}

bool is_little_endian(const ZipReader& zip, const std::string& root) {
  const std::string name = root + "/byteorder";
  if (!zip.has(name)) return true;
  check(zip.size(name) <= 10, "load: expected byteorder little or big, got ", zip.size(name),
        " bytes");
  const std::string order = zip.text(name);
  check(order == "little" || order == "big", "load: expected byteorder little or big, got '", order,
        "'");
  return order == "little";
}

void swap_bytes(c10::StorageImpl& storage, c10::ScalarType dtype) {
  check(dtype != c10::ScalarType::Undefined,
        "load: expected typed storages in a file of big-endian numbers, got bytes");
  const size_t parts = c10::is_complex_type(dtype) ? 2 : 1;
  const size_t width = c10::element_size(dtype) / parts;
  auto* const bytes = static_cast<char*>(storage.data());
  for (size_t i = 0; width > 1 && i + width <= storage.nbytes(); i += width) {
    std::reverse(bytes + i, bytes + i + width);
  }
}

// The storages of an archive, each read once, when the pickle first refers to it.
class Storages {
 public:
  Storages(const ZipReader& zip, std::string root)
      : zip_(zip), root_(std::move(root)), is_little_(is_little_endian(zip_, root_)) {}
  c10::Storage operator()(const std::string& key, c10::ScalarType dtype) {
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    const std::string name = text_of(root_, "/data/", key);
    auto storage = c10::make_intrusive<c10::StorageImpl>(zip_.size(name), c10::DeviceType::CPU);
    zip_.read(name, storage->data());
    if (!is_little_) swap_bytes(*storage, dtype);
    known_.emplace(key, storage);
    return storage;
  }

 private:
  const ZipReader& zip_;
  std::string root_;
  bool is_little_;
  std::map<std::string, c10::Storage> known_;
};

}  // namespace

Document read_document(const ByteSource& source) {
  const ZipReader zip(source);
  const std::string root = root_of(zip);
  Document document;
  PickleReader reader(zip.text(root + "/data.pkl"), Storages(zip, root), document);
  document.root = reader.run();
  return document;
}

void write_document(const Document& document, const Sink& sink) {
  PickleWriter pickle(document);
  const std::string text = pickle.run();
  ZipWriter zip(sink);
  const auto add = [&](const std::string& name, const void* data, size_t size) {
    zip.add(text_of(kRoot, "/", name), data, size);
  };
  add("data.pkl", text.data(), text.size());
  add("byteorder", "little", 6);
  for (size_t i = 0; i < pickle.storages().size(); ++i) {
    const c10::StorageImpl& storage = *pickle.storages()[i];
    add(text_of("data/", i), storage.data(), storage.nbytes());
  }
  add("version", "3\n", 2);
  zip.close();
}

}  // namespace flambeau::api::archive
