#pragma once
// The smallest test harness that reports file, line and values: TEST(name) { EXPECT(x == y); }.
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "c10/core/check.h"

namespace flambeau::testing {

struct Case {
  const char* name;
  void (*run)();
  Case* next;
  int level = 1;  // of x86-64: 3 for code with AVX2, 4 for AVX-512
};
inline Case* cases = nullptr;
inline int failures = 0;

struct Registration {
  explicit Registration(Case* c) {
    c->next = cases;
    cases = c;
  }
};

inline void report(bool ok, const char* file, int line, const std::string& what) {
  if (ok) return;
  ++failures;
  std::fprintf(stderr, "%s:%d: failed: %s\n", file, line, what.c_str());
}

template <typename A, typename B>
void report_equal(const A& a, const B& b, const char* file, int line, const char* what) {
  report(a == b, file, line, text_of(what, ", got ", a, " and ", b));
}

// Whether `body` throws an Error of this kind whose message contains `phrase`.
template <typename Body>
bool throws(ErrorKind kind, std::string_view phrase, const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    const bool match =
        e.kind() == kind && std::string_view(e.what()).find(phrase) != std::string_view::npos;
    if (!match)
      std::fprintf(stderr, "  got error kind %d: %s\n", static_cast<int>(e.kind()), e.what());
    return match;
  }
  return false;
}

// Asked before a test is called: a function compiled for AVX-512 may use it before its first line.
inline bool runs_here([[maybe_unused]] int level) {
#if defined(__x86_64__)
  if (level == 4) return __builtin_cpu_supports("x86-64-v4");
  if (level == 3) return __builtin_cpu_supports("x86-64-v3");
#endif
  return true;
}

inline int run_all(std::string_view only) {
  int count = 0;
  for (Case* c = cases; c; c = c->next) {
    if (std::string_view(c->name).find(only) == std::string_view::npos) continue;
    if (!runs_here(c->level)) continue;
    ++count;
    try {
      c->run();
    } catch (const std::exception& e) {
      report(false, c->name, 0, std::string("unexpected exception: ") + e.what());
    }
  }
  std::printf("%d tests, %d failures\n", count, failures);
  return failures || count == 0 ? 1 : 0;
}

}  // namespace flambeau::testing

#if defined(__AVX512F__)
#define FLAMBEAU_TEST_LEVEL 4
#elif defined(__AVX2__)
#define FLAMBEAU_TEST_LEVEL 3
#else
#define FLAMBEAU_TEST_LEVEL 1
#endif

#define TEST(name)                                                                                \
  static void test_##name();                                                                      \
  static ::flambeau::testing::Case case_##name{#name, test_##name, nullptr, FLAMBEAU_TEST_LEVEL}; \
  static const ::flambeau::testing::Registration registration_##name{&case_##name};               \
  static void test_##name()
#define EXPECT(...) \
  ::flambeau::testing::report(static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, #__VA_ARGS__)
#define EXPECT_EQ(a, b) \
  ::flambeau::testing::report_equal((a), (b), __FILE__, __LINE__, #a " == " #b)
