#include "c10/core/check.h"

#include <charconv>
#include <cmath>

namespace flambeau::c10 {

void throw_error(ErrorKind kind, std::string message) { throw Error(kind, std::move(message)); }

void append_integer(std::string& out, int64_t value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

void append_unsigned(std::string& out, uint64_t value) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// The shortest text that reads back as the same double, with Python's ".0" for whole numbers.
void append_real(std::string& out, double value) {
  if (std::isnan(value)) {
    out.append("nan");
    return;
  }
  if (std::isinf(value)) {
    out.append(value < 0 ? "-inf" : "inf");
    return;
  }
  char digits[32];
  const std::string_view text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  out.append(text);
  if (text.find_first_of(".e") == std::string_view::npos) out.append(".0");
}

}  // namespace flambeau::c10
