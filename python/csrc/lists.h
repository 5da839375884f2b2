#pragma once
// Long lists of Python objects made from records of C++.
#include <string_view>

#include "python/csrc/object.h"

namespace flambeau::python {

inline Ref string_of(std::string_view text) {
  const auto size = static_cast<Py_ssize_t>(text.size());
  return Ref::checked(PyUnicode_DecodeUTF8(text.data(), size, "backslashreplace"));
}

template <typename Items, typename Convert>
Ref list_of(const Items& items, Convert&& convert) {
  Ref out = Ref::checked(PyList_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyList_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), Ref(convert(items[i])).release());
  return out;
}

// Building many containers makes Python collect garbage again and again, though none of them can
// be garbage.
class WithoutCollection {
 public:
  WithoutCollection() : was_enabled_(PyGC_Disable()) {}
  ~WithoutCollection() {
    if (was_enabled_) PyGC_Enable();
  }
  WithoutCollection(const WithoutCollection&) = delete;
  WithoutCollection& operator=(const WithoutCollection&) = delete;

 private:
  int was_enabled_;
};

}  // namespace flambeau::python
