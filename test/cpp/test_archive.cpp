// Files of tensors: what was written is read again, and damaged or hostile files raise an Error.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "api/archive/pickle.h"
#include "api/archive/zip.h"
#include "c10/core/checksum.h"
#include "harness.h"
#include "sample_tensors.h"

using namespace flambeau;
using namespace flambeau::api::archive;
using flambeau::testing::counting;
using flambeau::testing::throws;

namespace {

Document read(const std::string& file) { return read_document(*bytes_of(file)); }

std::string written(const Document& document) {
  std::string out;
  write_document(document, [&out](const void* data, size_t size) {
    out.append(static_cast<const char*>(data), size);
  });
  return out;
}

using Records = std::vector<std::pair<std::string, std::string>>;
std::string zipped(const Records& records) {
  std::string out;
  ZipWriter zip(
      [&out](const void* data, size_t size) { out.append(static_cast<const char*>(data), size); });
  for (const auto& [name, data] : records) zip.add(name, data.data(), data.size());
  zip.close();
  return out;
}
std::string file_of(const std::string& pickle, Records more = {}) {
  more.insert(more.begin(), {"a/data.pkl", pickle});
  return zipped(more);
}
std::string record_of(const std::string& file, const std::string& name) {
  const auto source = bytes_of(file);
  return ZipReader(*source).text(name);
}

// {"w": float32[2, 3], "n": int64[4], "lr": 0.5, "names": ["a", -7, None, (True,)]}
Document sample() {
  Document d;
  DictValue dict;
  const auto set = [&](const char* key, Value value) {
    const ValueId name = d.add(std::string(key));
    dict.entries.emplace_back(name, d.add(std::move(value)));
  };
  set("w", TensorValue{counting({2, 3}, ScalarType::Float32, 1), true});
  set("n", TensorValue{counting({4}, ScalarType::Int64, 3), false});
  set("lr", 0.5);
  const ValueId flag = d.add(true);
  const std::vector<ValueId> items = {d.add(std::string("a")), d.add(int64_t{-7}),
                                      d.add(std::monostate{}), d.add(ListValue{{flag}, true})};
  set("names", ListValue{items, false});
  d.root = d.add(std::move(dict));
  return d;
}

std::string text_of_value(const Document& d, ValueId id) {
  if (const auto* dict = d.find<DictValue>(id)) {
    std::string out = "{";
    for (const auto& [key, value] : dict->entries)
      out += text_of_value(d, key) + ":" + text_of_value(d, value) + ",";
    return out + "}";
  }
  if (const auto* list = d.find<ListValue>(id)) {
    std::string out = list->is_tuple ? "(" : "[";
    for (const ValueId item : list->items) out += text_of_value(d, item) + ",";
    return out + "]";
  }
  if (const auto* t = d.find<TensorValue>(id)) {
    std::string out = text_of(t->tensor.dtype(), t->tensor.sizes(), t->requires_grad, ";");
    for (int64_t i = 0; i < t->tensor.numel(); ++i)
      out += text_of(testing::value_at(t->tensor, i, t->tensor.sizes()), " ");
    return out;
  }
  if (const auto* text = d.find<std::string>(id)) return "'" + *text + "'";
  if (const auto* integer = d.find<int64_t>(id)) return std::to_string(*integer);
  if (const auto* real = d.find<double>(id)) return std::to_string(*real);
  if (const auto* flag = d.find<bool>(id)) return *flag ? "True" : "False";
  return d.kind(id);
}
std::string text_of_document(const Document& d) { return text_of_value(d, d.root); }

bool is_refused(const std::string& file, std::string_view phrase = "") {
  return throws(ErrorKind::Runtime, phrase, [&] { read(file); });
}
bool is_pickle_refused(const std::string& pickle, std::string_view phrase = "") {
  return is_refused(file_of("\x80\x02" + pickle), phrase);
}

// The arguments of a tensor over storage "0", which has 8 bytes.
std::string tensor_pickle(const std::string& geometry) {
  const std::string storage = "(X\x07" + std::string(3, '\0') +
                              "storagectorch\nFloatStorage\nX\x01" + std::string(3, '\0') +
                              "0X\x03" + std::string(3, '\0') + "cpuK\x02tQ";
  return "\x80\x02"
         "ctorch._utils\n_rebuild_tensor_v2\n(" +
         storage + geometry + "\x89Nt" + "R.";
}

}  // namespace

TEST(crc32_has_the_values_of_zip_files) {
  EXPECT_EQ(crc32("123456789", 9), 0xcbf43926u);
  std::string bytes(1000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + i / 7);
  const uint32_t whole = crc32(bytes.data(), bytes.size());
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{500}}) {
    const uint32_t first = crc32(bytes.data(), cut);
    EXPECT_EQ(crc32(bytes.data() + cut, bytes.size() - cut, first), whole);
  }
  uint32_t one_by_one = 0;
  for (const char& byte : bytes) one_by_one = crc32(&byte, 1, one_by_one);
  EXPECT_EQ(one_by_one, whole);
}

TEST(archive_reads_what_it_wrote) {
  const std::string file = written(sample());
  EXPECT_EQ(text_of_document(read(file)), text_of_document(sample()));
  EXPECT_EQ(written(read(file)), file);  // equal contents give equal files
}

TEST(archive_keeps_views_and_shared_storages) {
  Document d;
  const Tensor base = counting({3, 4}, ScalarType::Float64, 0);
  const ValueId whole = d.add(TensorValue{base, false});
  const ValueId view = d.add(TensorValue{testing::permuted(base, {1, 0}), false});
  d.root = d.add(ListValue{{whole, view}, false});
  const Document found = read(written(d));
  EXPECT_EQ(text_of_document(found), text_of_document(d));
  const auto& list = *found.find<ListValue>(found.root);
  EXPECT(found.find<TensorValue>(list.items[0])->tensor.storage() ==
         found.find<TensorValue>(list.items[1])->tensor.storage());
}

TEST(archive_keeps_every_dtype) {
  for (int i = 0; i < kNumScalarTypes; ++i) {
    const auto dtype = static_cast<ScalarType>(i);
    Document d;
    Tensor t = empty_tensor({5}, dtype);
    std::memset(t.data(), 1, t.storage()->nbytes());
    d.root = d.add(TensorValue{t, false});
    const Document found = read(written(d));
    const auto* const again = found.find<TensorValue>(found.root);
    EXPECT(again != nullptr && again->tensor.dtype() == dtype &&
           std::memcmp(again->tensor.data(), t.data(), 5 * element_size(dtype)) == 0);
  }
}

// A damaged file is refused, or the byte says nothing about the values.
TEST(archive_refuses_a_file_damaged_at_any_byte) {
  const std::string file = written(sample()), wanted = text_of_document(sample());
  size_t refused = 0;
  for (size_t i = 0; i < file.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xFF}) {
      std::string damaged = file;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      try {
        EXPECT_EQ(text_of_document(read(damaged)), wanted);
      } catch (const Error& e) {
        EXPECT(e.kind() == ErrorKind::Runtime);
        ++refused;
      }
    }
  }
  EXPECT(refused > file.size());
}

TEST(archive_refuses_a_file_cut_off_at_any_byte) {
  const std::string file = written(sample());
  for (size_t size = 0; size < file.size(); ++size) EXPECT(is_refused(file.substr(0, size)));
}

// The checksum holds for these files: the pickle itself must be refused, or mean something.
TEST(archive_refuses_or_understands_a_pickle_damaged_at_any_byte) {
  const std::string file = written(sample());
  const std::string pickle = record_of(file, "archive/data.pkl");
  const Records storages = {{"a/data/0", record_of(file, "archive/data/0")},
                            {"a/data/1", record_of(file, "archive/data/1")}};
  size_t refused = 0;
  for (size_t i = 0; i < pickle.size(); ++i) {
    for (int byte = 0; byte < 256; byte += 5) {
      std::string damaged = pickle;
      damaged[i] = static_cast<char>(byte);
      try {
        written(read(file_of(damaged, storages)));
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  for (size_t size = 0; size < pickle.size(); ++size)
    EXPECT(is_refused(file_of(pickle.substr(0, size), storages)));
  EXPECT(refused > pickle.size());
}

TEST(archive_refuses_records_that_are_not_stored_apart) {
  const std::string file = written(sample());
  const auto changed = [&](size_t place, uint8_t byte) {  // of the first entry of the directory
    std::string copy = file;
    copy[copy.find("PK\1\2") + place] = static_cast<char>(byte);
    return copy;
  };
  EXPECT(is_refused(changed(10, 8), "compressed record"));
  EXPECT(is_refused(changed(8, 9), "encrypted record"));
  EXPECT(is_refused(changed(24, 0xFF), "compressed record"));  // unlike sizes
  std::string oversized = changed(27, 0x7F);
  oversized[oversized.find("PK\1\2") + 23] = 0x7F;
  EXPECT(is_refused(oversized, "reaches beyond its part"));
  // The second record where the first is: they overlap.
  std::string overlapping = file;
  const size_t second = overlapping.find("PK\1\2", overlapping.find("PK\1\2") + 1);
  std::memset(overlapping.data() + second + 42, 0, 4);
  EXPECT(is_refused(overlapping, "reaches beyond its part"));
}

TEST(archive_refuses_names_outside_and_twice) {
  const std::string pickle = "\x80\x02N.";
  for (const char* name : {"/etc/passwd", "../x", "a/../../x", "a\\x", "a/.."})
    EXPECT(is_refused(file_of(pickle, {{name, "x"}}), "expected a name of a record"));
  EXPECT(is_refused(file_of(pickle, {{std::string("a\0b", 3), "x"}}), "expected a name"));
  EXPECT(is_refused(file_of(pickle, {{"a/x", "1"}, {"a/x", "2"}}), "two records named"));
  EXPECT(is_refused(file_of(pickle, {{"b/data.pkl", pickle}}), "one record data.pkl, found 2"));
  EXPECT(is_refused(zipped({{"x", "y"}}), "one record data.pkl, found 0"));
  EXPECT(is_refused(zipped({}), "one record data.pkl, found 0"));
  EXPECT(is_refused("", "not a sound zip archive"));
  EXPECT(is_refused("PK\3\4 and no more", "not a sound zip archive"));
}

TEST(archive_reads_numbers_of_both_byte_orders) {
  const std::string pickle = tensor_pickle(std::string("K\0(K\x02t(K\x01t", 10));
  const float values[2] = {1.5f, -2};
  std::string little(8, '\0');
  std::memcpy(little.data(), values, 8);
  std::string big = little;
  std::reverse(big.begin(), big.begin() + 4);
  std::reverse(big.begin() + 4, big.end());
  const std::string wanted = text_of_document(read(file_of(pickle, {{"a/data/0", little}})));
  EXPECT(wanted.find("1.5") != std::string::npos);
  EXPECT_EQ(text_of_document(read(file_of(pickle, {{"a/data/0", big}, {"a/byteorder", "big"}}))),
            wanted);
  for (const char* order : {"", "middle", "littl", "little-endian-machine"})
    EXPECT(is_refused(file_of(pickle, {{"a/data/0", little}, {"a/byteorder", order}}),
                      "expected byteorder"));
}

TEST(archive_refuses_geometry_beyond_the_storage) {
  const auto is_geometry_refused = [](const std::string& geometry) {
    return is_refused(file_of(tensor_pickle(geometry), {{"a/data/0", std::string(8, '\1')}}));
  };
  const std::string zero("K\0", 2), most = "\x8a\x08" + std::string(7, '\xFF') + "\x7F",
                                    minus = "J\xFF\xFF\xFF\xFF";
  EXPECT(!is_geometry_refused(zero + "(K\x02t(K\x01t"));
  EXPECT(is_geometry_refused(zero + "(K\x03t(K\x01t"));
  EXPECT(is_geometry_refused("K\x01(K\x02t(K\x01t"));
  EXPECT(is_geometry_refused(minus + "(K\x02t(K\x01t"));
  EXPECT(is_geometry_refused(zero + "(" + minus + "t(K\x01t"));
  EXPECT(is_geometry_refused(zero + "(K\x02t(" + minus + "t"));
  EXPECT(is_geometry_refused(zero + "(" + most + "t(K\x01t"));
  EXPECT(is_geometry_refused(zero + "(" + most + most + "t(" + zero + zero + "t"));
  EXPECT(is_geometry_refused(most + "(K\x02t(K\x01t"));
  EXPECT(is_geometry_refused(zero + "(K\x02t(t"));
  EXPECT(is_geometry_refused(zero + "(X" + std::string(4, '\0') + "t(K\x01t"));
  std::string many;
  for (int i = 0; i < 65; ++i) many += "K\x01";
  EXPECT(is_geometry_refused(zero + "(" + many + "t(" + many + "t"));
}

TEST(archive_refuses_storages_of_other_sizes) {
  const std::string pickle = tensor_pickle(std::string("K\0(K\x01t(K\x01t", 10));
  EXPECT(is_refused(file_of(pickle), "has no record 'a/data/0'"));
  EXPECT(is_refused(file_of(pickle, {{"a/data/0", "1234"}}), "expected 2 elements"));
  EXPECT(is_refused(file_of(pickle, {{"a/data/0", std::string(1000, 'x')}}), "expected 2"));
}

TEST(archive_refuses_pickles_that_are_no_data) {
  EXPECT(is_pickle_refused("cos\nsystem\n(X\x02" + std::string(3, '\0') + "lstR.",
                           "got a call of os system"));
  EXPECT(is_pickle_refused("cbuiltins\neval\n)\x81.", "opcode 129"));
  EXPECT(is_pickle_refused("c__builtin__\nexec\n(ios\nsystem\n.", "opcode 105"));
  EXPECT(is_pickle_refused("X\xFF\xFF\xFF\xFF.", "truncated"));
  EXPECT(is_pickle_refused("\x8d" + std::string(8, '\xFF') + ".", "truncated"));
  EXPECT(is_pickle_refused("\x95" + std::string(8, '\xFF') + ".", "truncated"));
  EXPECT(is_pickle_refused("\x8a\x09" + std::string(9, '\1') + ".", "64 bits"));
  EXPECT(is_pickle_refused(".", "stack is too short"));
  EXPECT(is_pickle_refused("t.", "expected a mark"));
  EXPECT(is_pickle_refused("N(.", "within a mark"));
  EXPECT(is_pickle_refused("N(\x85.", "stack is too short"));  // not from below the mark
  EXPECT(is_pickle_refused("h\x05.", "known memo key"));
  EXPECT(is_pickle_refused(")Na.", "cannot append"));
  EXPECT(is_pickle_refused("}(Nu.", "cannot set entries"));
  EXPECT(is_pickle_refused("]Nb.", "attributes of dicts"));
  EXPECT(is_pickle_refused("NQ.", "expected a tuple"));
  EXPECT(is_pickle_refused("(NNNNNtQ.", "unknown persistent id"));
  EXPECT(is_pickle_refused("NNR.", "expected a tuple"));
  EXPECT(is_pickle_refused("N)R.", "name of a callable"));
  EXPECT(is_refused(file_of("\x80\x63N."), "unsupported pickle protocol"));
  for (const char* name : {"_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"})
    EXPECT(is_pickle_refused(text_of("ctorch._utils\n", name, "\n)R."), "got no argument"));
}

// Neither recursion nor memory grows with what a pickle says, and cycles are freed.
TEST(archive_survives_deep_and_cyclic_pickles) {
  constexpr size_t kDeep = 1'000'000;
  const Document deep =
      read(file_of("\x80\x02" + std::string(kDeep, ']') + std::string(kDeep - 1, 'a') + "."));
  EXPECT(deep.find<ListValue>(deep.root)->items.size() == 1);
  EXPECT(is_pickle_refused(std::string(kDeep, '(') + ".", "within a mark"));
  const Document cycle = read(file_of(std::string("\x80\x02]q\0h\0a.", 9)));
  EXPECT(cycle.find<ListValue>(cycle.root)->items[0] == cycle.root);
}

TEST(archive_writes_text_in_utf8_alone) {
  for (const char* text :
       {"\xFF", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "a\x80"}) {
    Document d;
    d.root = d.add(std::string(text));
    EXPECT(throws(ErrorKind::Value, "UTF-8", [&] { written(d); }));
  }
  Document d;
  d.root = d.add(std::string("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x94\xA5"));
  EXPECT_EQ(text_of_document(read(written(d))), text_of_document(d));
}

// --- files
// -----------------------------------------------------------------------------------------

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path = fs::temp_directory_path() / text_of("flambeau-archive-", ::getpid());
  Folder() { fs::create_directory(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path), {}));
  }
};
void put(const std::string& path, const std::string& text) {
  replace_file(path, [&](const Sink& sink) { sink(text.data(), text.size()); });
}
std::string content(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

}  // namespace

TEST(files_are_replaced_as_a_whole) {
  const Folder folder;
  const std::string path = folder.file("x.pt");
  put(path, "first");
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
  const auto fail_halfway = [&] {
    replace_file(path, [](const Sink& sink) {
      sink("sec", 3);
      fail(ErrorKind::Runtime, "halfway");
    });
  };
  EXPECT(throws(ErrorKind::Runtime, "halfway", fail_halfway));
  EXPECT_EQ(content(path), std::string("first"));
  fs::create_symlink("x.pt", folder.file("link"));
  put(folder.file("link"), "second");
  EXPECT_EQ(content(path), std::string("second"));
  EXPECT(fs::is_symlink(folder.file("link")));
  EXPECT(fs::status(path).permissions() == (fs::perms::owner_read | fs::perms::owner_write));
  EXPECT_EQ(folder.count(), size_t{2});  // nothing beside them
}

TEST(files_that_cannot_be_written_or_read_are_named) {
  const Folder folder;
  EXPECT(throws(ErrorKind::Runtime, "does not exist", [&] { put(folder.file("no/x"), ""); }));
  EXPECT(throws(ErrorKind::Runtime, "cannot be opened or written", [&] { put(folder.path, ""); }));
  EXPECT(throws(ErrorKind::Runtime, "cannot open", [&] { open_file(folder.file("none")); }));
  EXPECT(throws(ErrorKind::Runtime, "a regular file", [&] { open_file(folder.path); }));
  EXPECT(throws(ErrorKind::Runtime, "a regular file", [&] { open_file("/dev/null"); }));
  put("/dev/null", "nothing");  // a device is written directly
  EXPECT(throws(ErrorKind::Runtime, "cannot be opened or written",
                [&] { put("/dev/full", "no room"); }));
  EXPECT(fs::exists("/dev/full") && folder.count() == 0);
}

TEST(files_that_shrink_while_they_are_read_are_refused) {
  const Folder folder;
  const std::string path = folder.file("x.pt");
  put(path, written(sample()));
  const auto source = open_file(path);
  fs::resize_file(path, 100);
  EXPECT(throws(ErrorKind::Runtime, "the file ends", [&] { read_document(*source); }));
}
