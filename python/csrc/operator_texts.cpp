#include "python/csrc/operator_texts.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "python/csrc/object.h"

namespace flambeau::python {
namespace {

constexpr size_t kOffsetLine = 10;  // nine digits and a newline

// The file as it lies in memory until the process ends; empty if there is none.
std::string_view map_file(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  struct stat found = {};
  void* start = MAP_FAILED;
  if (fstat(file, &found) == 0 && found.st_size > 0) {
    const auto size = static_cast<size_t>(found.st_size);
    start = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  }
  close(file);
  if (start == MAP_FAILED) return {};
  return {static_cast<const char*>(start), static_cast<size_t>(found.st_size)};
}

// Whether `text` is a decimal number followed by a newline.
bool read_number(std::string_view text, size_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end + 1 == text.data() + text.size() && *end == '\n';
}

// The texts of a file that fits this build; none otherwise.
std::vector<const char*> split_texts(std::string_view file) {
  const std::string start = std::string(generated_texts_key) + " ";
  const size_t line = file.find('\n');
  size_t count = 0;
  if (file.substr(0, start.size()) != start || !file.ends_with(std::string_view("\0\n", 2)) ||
      !read_number(file.substr(start.size(), line + 1 - start.size()), count) ||
      count > file.size() / kOffsetLine) {
    return {};
  }
  std::vector<const char*> texts;
  texts.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    size_t offset = 0;
    const size_t at = line + 1 + kOffsetLine * i;
    if (at > file.size() || !read_number(file.substr(at, kOffsetLine), offset) ||
        offset >= file.size()) {
      return {};
    }
    texts.push_back(file.data() + offset);
  }
  return texts;
}

// The file lies beside this extension module.
std::string path_of_texts() {
  Dl_info here;
  if (dladdr(reinterpret_cast<const void*>(&set_texts), &here) == 0) return {};
  std::string path = here.dli_fname;
  path.erase(path.rfind('/') + 1);
  return path + "_operator_texts.txt";
}

std::vector<const char*> open_texts() {
  const std::string path = path_of_texts();
  std::vector<const char*> texts = split_texts(map_file(path.c_str()));
  if (texts.empty()) {
    const std::string message = "flambeau: expected the texts of help() for this build in " + path +
                                ", got none; help() shows no texts";
    checked(PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1));
  }
  return texts;
}

}  // namespace

void set_texts(PyMethodDef* table, const uint16_t* texts) {
  static const std::vector<const char*> all = open_texts();
  for (; table->ml_name; ++table, ++texts) {
    if (*texts < all.size()) table->ml_doc = all[*texts];
  }
}

}  // namespace flambeau::python
