// The format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3. Numbers are little-endian.
#include "api/archive/zip.h"

#include <algorithm>
#include <cstring>

#include "c10/core/checksum.h"

namespace flambeau::api::archive {

namespace {

constexpr uint32_t kHeader = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50,
                   kFollowing = 0x08074b50, kLargeEnd = 0x06064b50, kLocator = 0x07064b50;
constexpr size_t kHeaderSize = 30, kEntrySize = 46, kEndSize = 22, kLargeEndSize = 56,
                 kLocatorSize = 20;
constexpr uint32_t kLarge = 0xFFFFFFFF;  // the extra field has the value
constexpr uint16_t kNameIsUtf8 = 0x800, kSizesFollow = 0x8, kEncrypted = 0x1;
constexpr uint16_t kFirstDay = 33;  // 1980-01-01: equal contents give equal files
constexpr size_t kAlignment = 64;
constexpr size_t kChunk = 1 << 20;  // bytes: still in the cache when the checksum is computed

// Fields in the order in which they stand in the file.
class Fields {
 public:
  explicit Fields(std::string bytes) : bytes_(std::move(bytes)) {}
  size_t left() const { return bytes_.size() - at_; }
  template <typename T>
  T next() {
    T value = 0;
    check(sizeof(T) <= left(), "load: the file is not a sound zip archive: a field is cut off");
    for (size_t i = 0; i < sizeof(T); ++i) {
      value =
          static_cast<T>(value | static_cast<T>(static_cast<uint8_t>(bytes_[at_ + i])) << 8 * i);
    }
    at_ += sizeof(T);
    return value;
  }
  std::string text(size_t size) {
    check(size <= left(), "load: the file is not a sound zip archive: a field is cut off");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  void skip(size_t size) { text(size); }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

Fields fields_at(const ByteSource& source, uint64_t at, uint64_t size) {
  check(at <= source.size() && size <= source.size() - at,
        "load: the file is not a sound zip archive: a part of its directory lies outside");
  std::string bytes(size, '\0');
  source.read(at, bytes.data(), bytes.size());
  return Fields(std::move(bytes));
}

struct Directory {
  uint64_t start = 0, size = 0, count = 0;
};

// The position of the record that ends the archive; its comment reaches to the end of the file.
uint64_t end_record(const ByteSource& source) {
  const uint64_t size = source.size();
  const uint64_t searched = std::min<uint64_t>(size, kEndSize + 0xFFFF);
  const std::string tail = fields_at(source, size - searched, searched).text(searched);
  for (size_t at = tail.size() < kEndSize ? 0 : tail.size() - kEndSize + 1; at-- > 0;) {
    Fields end(tail.substr(at, kEndSize));
    if (end.left() < kEndSize || end.next<uint32_t>() != kEnd) continue;
    end.skip(kEndSize - 6);
    if (at + kEndSize + end.next<uint16_t>() == tail.size()) return size - searched + at;
  }
  fail(c10::ErrorKind::Runtime, "load: the file is not a sound zip archive: expected the record ",
       "that ends one, got ", size, " bytes without it (failed finding central directory)");
}

Directory directory_of(const ByteSource& source) {
  const uint64_t end = end_record(source);
  Fields fields = fields_at(source, end, kEndSize);
  fields.skip(4);
  const auto disk = fields.next<uint16_t>(), first_disk = fields.next<uint16_t>();
  const auto here = fields.next<uint16_t>();
  Directory found;
  found.count = fields.next<uint16_t>();
  found.size = fields.next<uint32_t>();
  found.start = fields.next<uint32_t>();
  uint64_t limit = end;
  Fields locator = fields_at(source, end - std::min<uint64_t>(end, kLocatorSize), kLocatorSize);
  if (end >= kLocatorSize && locator.next<uint32_t>() == kLocator) {
    locator.skip(4);
    limit = locator.next<uint64_t>();
    Fields large = fields_at(source, limit, kLargeEndSize);
    check(large.next<uint32_t>() == kLargeEnd, "load: the file is not a sound zip archive: its ",
          "record for large archives is damaged");
    large.skip(20);
    const auto here_too = large.next<uint64_t>();
    found.count = large.next<uint64_t>();
    check(here_too == found.count, "load: expected an archive in one file, got a part of one");
    found.size = large.next<uint64_t>();
    found.start = large.next<uint64_t>();
  } else {
    check(disk == 0 && first_disk == 0 && here == found.count,
          "load: expected an archive in one file, got a part of one");
  }
  check(found.start <= limit && found.size <= limit - found.start &&
            found.count <= found.size / kEntrySize,
        "load: the file is not a sound zip archive: its directory reaches beyond its end");
  return found;
}

// Replaces the sizes and the position that the extra field has.
void read_extra(Fields extra, uint64_t& size, uint64_t& stored, uint64_t& header) {
  while (extra.left() >= 4) {
    const auto kind = extra.next<uint16_t>();
    Fields field(extra.text(extra.next<uint16_t>()));
    if (kind != 1) continue;
    for (uint64_t* value : {&size, &stored, &header}) {
      if (*value == kLarge) *value = field.next<uint64_t>();
    }
  }
}

bool is_name_within(const std::string& name) {
  if (name.starts_with('/') || name.find_first_of(std::string("\\\0", 2)) != std::string::npos)
    return false;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (name.compare(begin, end - begin, "..") == 0) return false;
    begin = end + 1;
  }
  return true;
}

template <typename... Numbers>
std::string packed(Numbers... numbers) {
  std::string out;
  const auto append = [&out](auto number) {
    for (size_t i = 0; i < sizeof number; ++i)
      out.push_back(static_cast<char>(number >> 8 * i & 0xFF));
  };
  (append(numbers), ...);
  return out;
}

}  // namespace

// --- reading -------------------------------------------------------------------------------------

ZipReader::ZipReader(const ByteSource& source) : source_(source) {
  std::vector<Entry> entries = read_directory();
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.record.header > b.record.header;
  });
  uint64_t limit = directory_of(source).start;
  for (const Entry& entry : entries) {
    add(entry, limit);
    limit = entry.record.header;
  }
}

std::vector<ZipReader::Entry> ZipReader::read_directory() const {
  const Directory directory = directory_of(source_);
  Fields fields = fields_at(source_, directory.start, directory.size);
  std::vector<Entry> entries;
  for (uint64_t i = 0; i < directory.count; ++i) {
    check(fields.next<uint32_t>() == kEntry, "load: the file is not a sound zip archive: entry ", i,
          " of its directory is damaged");
    fields.skip(4);
    Entry entry;
    entry.is_encrypted = (fields.next<uint16_t>() & kEncrypted) != 0;
    const auto method = fields.next<uint16_t>();
    fields.skip(4);
    entry.record.checksum = fields.next<uint32_t>();
    uint64_t stored = fields.next<uint32_t>(), size = fields.next<uint32_t>();
    const auto name_size = fields.next<uint16_t>(), extra_size = fields.next<uint16_t>(),
               comment_size = fields.next<uint16_t>();
    fields.skip(8);
    uint64_t header = fields.next<uint32_t>();
    entry.name = fields.text(name_size);
    read_extra(Fields(fields.text(extra_size)), size, stored, header);
    fields.skip(comment_size);
    entry.is_stored = method == 0 && stored == size;
    entry.record.size = size;
    entry.record.header = header;
    entries.push_back(std::move(entry));
  }
  return entries;
}

void ZipReader::add(const Entry& entry, uint64_t limit) {
  const std::string& name = entry.name;
  const auto [header, size, checksum, unused] = entry.record;
  check(entry.is_stored, "load: expected stored records only, got compressed record '", name, "'");
  check(!entry.is_encrypted, "load: expected plain records only, got encrypted record '", name,
        "'");
  check(is_name_within(name), "load: expected a name of a record in the archive, got '", name, "'");
  check(header <= limit && limit - header >= kHeaderSize && size <= limit - header - kHeaderSize,
        "load: record '", name, "' reaches beyond its part of the file");
  check(records_.emplace(name, Record{header, size, checksum, limit}).second,
        "load: the archive has two records named '", name, "'");
}

std::vector<std::string> ZipReader::names() const {
  std::vector<std::string> out;
  for (const auto& [name, record] : records_) out.push_back(name);
  return out;
}

const ZipReader::Record& ZipReader::record(const std::string& name) const {
  const auto at = records_.find(name);
  check(at != records_.end(), "load: the archive has no record '", name, "': file not found");
  return at->second;
}

uint64_t ZipReader::start_of(const std::string& name) const {
  const Record& found = record(name);
  Fields header = fields_at(source_, found.header, kHeaderSize);
  check(header.next<uint32_t>() == kHeader, "load: record '", name, "' has no header");
  header.skip(22);
  const auto name_size = header.next<uint16_t>(), extra_size = header.next<uint16_t>();
  const uint64_t start = found.header + kHeaderSize + name_size + extra_size;
  const bool fits = start <= found.limit && found.size <= found.limit - start;
  check(fits && fields_at(source_, found.header + kHeaderSize, name_size).text(name_size) == name,
        "load: the header of record '", name,
        "' differs from the archive's directory; the file is damaged");
  return start;
}

void ZipReader::read(const std::string& name, void* out) const {
  const Record& found = record(name);
  uint64_t at = start_of(name);
  auto* to = static_cast<char*>(out);
  uint32_t checksum = 0;
  for (uint64_t done = 0; done < found.size;) {
    const size_t part = std::min<uint64_t>(kChunk, found.size - done);
    source_.read(at + done, to + done, part);
    checksum = c10::crc32(to + done, part, checksum);
    done += part;
  }
  // 0: the writer computed none.
  check(found.checksum == 0 || checksum == found.checksum, "load: the checksum (CRC) of record '",
        name, "' differs: the file is damaged");
}

std::string ZipReader::text(const std::string& name) const {
  std::string out(size(name), '\0');
  read(name, out.data());
  return out;
}

// --- writing -------------------------------------------------------------------------------------

void ZipWriter::put(const void* data, size_t size) {
  sink_(data, size);
  position_ += size;
}

void ZipWriter::add(const std::string& name, const void* data, size_t size) {
  const uint64_t header = position_;
  const auto name_size = static_cast<uint16_t>(name.size());
  const bool is_large = size >= kLarge;
  // The sizes follow the data, with 8 bytes each if the header has the field of large records.
  std::string extra =
      is_large ? packed(uint16_t{1}, uint16_t{16}, uint64_t{0}, uint64_t{0}) : std::string();
  const uint64_t before = header + kHeaderSize + name.size() + extra.size() + 4;
  const size_t padding = (kAlignment - before % kAlignment) % kAlignment;
  extra += "FB" + packed(static_cast<uint16_t>(padding)) + std::string(padding, 'Z');
  const uint32_t known = is_large ? kLarge : 0;
  const uint16_t version = is_large ? 45 : 20, flags = kNameIsUtf8 | kSizesFollow;
  put(packed(kHeader, version, flags, uint16_t{0}, uint16_t{0}, kFirstDay, uint32_t{0}, known,
             known, name_size, static_cast<uint16_t>(extra.size())) +
      name + extra);
  uint32_t checksum = 0;
  for (size_t done = 0; done < size; done += kChunk) {
    const size_t part = std::min(kChunk, size - done);
    const char* from = static_cast<const char*>(data) + done;
    checksum = c10::crc32(from, part, checksum);
    put(from, part);
  }
  const uint64_t wide = size;
  const auto narrow = static_cast<uint32_t>(size);
  put(packed(kFollowing, checksum));
  put(is_large ? packed(wide, wide) : packed(narrow, narrow));
  entries_.push_back({name, header, size, checksum});
}

void ZipWriter::close() {
  const uint64_t start = position_;
  for (const Entry& entry : entries_) {
    std::string extra;
    for (const uint64_t value : {entry.size, entry.size, entry.header}) {
      if (value >= kLarge) extra += packed(value);
    }
    if (!extra.empty()) extra = packed(uint16_t{1}, static_cast<uint16_t>(extra.size())) + extra;
    const uint16_t version = extra.empty() ? 20 : 45, flags = kNameIsUtf8 | kSizesFollow;
    const auto shown = static_cast<uint32_t>(std::min<uint64_t>(entry.size, kLarge));
    const auto place = static_cast<uint32_t>(std::min<uint64_t>(entry.header, kLarge));
    put(packed(kEntry, version, version, flags, uint16_t{0}, uint16_t{0}, kFirstDay, entry.checksum,
               shown, shown, static_cast<uint16_t>(entry.name.size()),
               static_cast<uint16_t>(extra.size()), uint16_t{0}, uint16_t{0}, uint16_t{0},
               uint32_t{0}, place) +
        entry.name + extra);
  }
  put_end(start);
}

void ZipWriter::put_end(uint64_t start) {
  const uint64_t size = position_ - start, count = entries_.size();
  if (count >= 0xFFFF || start >= kLarge || size >= kLarge) {
    const uint64_t place = position_;
    put(packed(kLargeEnd, uint64_t{kLargeEndSize - 12}, uint16_t{45}, uint16_t{45}, uint32_t{0},
               uint32_t{0}, count, count, size, start));
    put(packed(kLocator, uint32_t{0}, place, uint32_t{1}));
  }
  const auto shown = static_cast<uint16_t>(std::min<uint64_t>(count, 0xFFFF));
  put(packed(kEnd, uint16_t{0}, uint16_t{0}, shown, shown,
             static_cast<uint32_t>(std::min<uint64_t>(size, kLarge)),
             static_cast<uint32_t>(std::min<uint64_t>(start, kLarge)), uint16_t{0}));
}

}  // namespace flambeau::api::archive
