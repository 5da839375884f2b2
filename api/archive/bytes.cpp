#include "api/archive/bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace flambeau::api::archive {

namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

class FileSource final : public ByteSource {
 public:
  FileSource(int number, uint64_t size, std::string path)
      : file_(number), size_(size), path_(std::move(path)) {}
  uint64_t size() const override { return size_; }
  void read(uint64_t at, void* out, size_t count) const override {
    auto* to = static_cast<char*>(out);
    while (count > 0) {
      const ssize_t done = ::pread(file_.number(), to, count, static_cast<off_t>(at));
      if (done < 0 && errno == EINTR) continue;
      check(done > 0, "load: cannot read byte ", at, " of ", path_, ": ",
            done < 0 ? std::strerror(errno) : "the file ends");
      to += done;
      at += static_cast<uint64_t>(done);
      count -= static_cast<size_t>(done);
    }
  }

 private:
  Descriptor file_;
  uint64_t size_;
  std::string path_;
};

class TextSource final : public ByteSource {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  uint64_t size() const override { return text_.size(); }
  void read(uint64_t at, void* out, size_t count) const override {
    check(at <= text_.size() && count <= text_.size() - at, "load: the data ends before byte ", at);
    if (count > 0) std::memcpy(out, text_.data() + at, count);
  }

 private:
  std::string text_;
};

[[noreturn]] void fail_write(const std::string& path) {
  fail(c10::ErrorKind::Runtime, "save: File ", path,
       " cannot be opened or written: ", std::strerror(errno));
}

void write_all(int file, const void* data, size_t size, const std::string& path) {
  const auto* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::write(file, from, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_write(path);
    from += done;
    size -= static_cast<size_t>(done);
  }
}

// A file beside its target, without a name (O_TMPFILE) where the file system has such files, so
// that a killed process leaves nothing behind.
class Replacement {
 public:
  Replacement(const std::string& path, std::filesystem::path target)
      : path_(path), target_(std::move(target)) {
    const std::filesystem::path folder = target_.parent_path();
    file_ = ::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    while (file_ < 0) {
      take_name();
      file_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (file_ < 0 && errno != EEXIST) {
        name_.clear();
        fail_write(path_);
      }
    }
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() {
    ::close(file_);
    if (!name_.empty()) ::unlink(name_.c_str());
  }

  void append(const void* data, size_t size) { write_all(file_, data, size, path_); }
  void finish(const struct stat* replaced) {
    if (replaced != nullptr && ::fchmod(file_, replaced->st_mode & 07777) != 0) fail_write(path_);
    if (::fsync(file_) != 0) fail_write(path_);
    if (name_.empty()) link();
    if (std::rename(name_.c_str(), target_.c_str()) != 0) fail_write(path_);
    name_.clear();
  }

 private:
  void take_name() {
    static std::atomic<uint64_t> counter{0};
    name_ = (target_.parent_path() / text_of(".flambeau-", static_cast<int64_t>(::getpid()), "-",
                                             counter.fetch_add(1), ".saving"))
                .string();
  }
  void link() {
    const std::string self = text_of("/proc/self/fd/", file_);
    while (true) {
      take_name();
      if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name_.c_str(), AT_SYMLINK_FOLLOW) == 0) return;
      const int error = errno;
      name_.clear();
      errno = error;
      if (errno != EEXIST) fail_write(path_);  // a killed process of the same number may have it
    }
  }

  const std::string& path_;
  std::filesystem::path target_;
  std::string name_;  // of the file before it has the target's; empty if it has none
  int file_ = -1;
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  check(file >= 0, "load: cannot open ", path, ": ", std::strerror(errno));
  struct stat info{};
  const bool is_regular = ::fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  auto source = std::make_unique<FileSource>(
      file, is_regular ? static_cast<uint64_t>(info.st_size) : 0, path);
  check(is_regular, "load: expected a regular file, got ", path);
  return source;
}

std::unique_ptr<ByteSource> bytes_of(std::string text) {
  return std::make_unique<TextSource>(std::move(text));
}

void replace_file(const std::string& path, const std::function<void(const Sink&)>& write) {
  std::error_code error;
  // A relative path without a folder would have no parent, unless the file exists.
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  std::filesystem::path target = std::filesystem::weakly_canonical(absolute, error);
  if (error) target = absolute;
  check(std::filesystem::is_directory(target.parent_path(), error), "save: Parent directory ",
        target.parent_path().string(), " does not exist.");
  struct stat info{};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode)) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.number() < 0) fail_write(path);
    write([&](const void* data, size_t size) { write_all(file.number(), data, size, path); });
    return;
  }
  if (exists && ::access(target.c_str(), W_OK) != 0) fail_write(path);
  Replacement file(path, std::move(target));
  write([&](const void* data, size_t size) { file.append(data, size); });
  file.finish(exists ? &info : nullptr);
}

}  // namespace flambeau::api::archive
