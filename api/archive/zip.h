#pragma once
// Zip archives of stored records, as PyTorch's files are. Reading is strict: the size that a record
// claims is compared with the file before memory is allocated for it. Counterpart of
// python/flambeau/serialization/_archive.py.
#include <map>
#include <vector>

#include "api/archive/bytes.h"

namespace flambeau::api::archive {

// RuntimeError for anything but a sound archive of stored records with different names.
class ZipReader {
 public:
  explicit ZipReader(const ByteSource& source);

  bool has(const std::string& name) const { return records_.contains(name); }
  std::vector<std::string> names() const;
  uint64_t size(const std::string& name) const { return record(name).size; }
  // Reads a whole record into memory of its size; compares the checksum.
  void read(const std::string& name, void* out) const;
  std::string text(const std::string& name) const;

 private:
  struct Record {
    uint64_t header = 0;  // its position
    uint64_t size = 0;
    uint32_t checksum = 0;
    uint64_t limit = 0;  // no byte from here on belongs to the record
  };
  struct Entry {
    std::string name;
    Record record;
    bool is_stored = false;
    bool is_encrypted = false;
  };

  std::vector<Entry> read_directory() const;
  void add(const Entry& entry, uint64_t limit);
  const Record& record(const std::string& name) const;
  uint64_t start_of(const std::string& name) const;

  const ByteSource& source_;
  std::map<std::string, Record> records_;
};

// Writes an archive from its first byte to its last.
class ZipWriter {
 public:
  explicit ZipWriter(Sink sink) : sink_(std::move(sink)) {}
  // Appends a record, whose data begins at a multiple of 64 bytes.
  void add(const std::string& name, const void* data, size_t size);
  void close();  // appends the directory

 private:
  struct Entry {
    std::string name;
    uint64_t header, size;
    uint32_t checksum;
  };
  void put(const void* data, size_t size);
  void put(const std::string& text) { put(text.data(), text.size()); }
  void put_end(uint64_t start);

  Sink sink_;
  uint64_t position_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace flambeau::api::archive
