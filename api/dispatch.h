#pragma once
// AT_DISPATCH_*: run a lambda with `scalar_t` for the dtype of a tensor.
#include "api/check.h"

#define AT_DISPATCH_SWITCH(type, name, ...)                                             \
  [&] {                                                                                 \
    const ::flambeau::c10::ScalarType the_type = ::flambeau::api::ScalarType(type);     \
    [[maybe_unused]] constexpr const char* at_dispatch_name = name;                     \
    switch (the_type) {                                                                 \
      __VA_ARGS__                                                                       \
      default:                                                                          \
        ::flambeau::c10::throw_error(                                                   \
            ::flambeau::c10::ErrorKind::NotImplemented,                                 \
            ::flambeau::c10::text_of('"', at_dispatch_name, "\" not implemented for '", \
                                     ::flambeau::c10::pytorch_name_of(the_type), "'")); \
    }                                                                                   \
  }()
#define AT_PRIVATE_CASE_TYPE_USING_HINT(type, hint, ...)                         \
  case ::flambeau::c10::ScalarType(::flambeau::api::ScalarType(type)): {         \
    using hint [[maybe_unused]] =                                                \
        ::flambeau::api::kernel_type_t<::flambeau::api::ScalarType(type).value>; \
    return __VA_ARGS__();                                                        \
  }
#define AT_DISPATCH_CASE(type, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(type, scalar_t, __VA_ARGS__)

#define AT_DISPATCH_CASE_FLOATING_TYPES(...)              \
  AT_DISPATCH_CASE(::flambeau::api::kDouble, __VA_ARGS__) \
  AT_DISPATCH_CASE(::flambeau::api::kFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...)        \
  AT_DISPATCH_CASE(::flambeau::api::kBFloat16, __VA_ARGS__) \
  AT_DISPATCH_CASE(::flambeau::api::kHalf, __VA_ARGS__)
#define AT_DISPATCH_CASE_COMPLEX_TYPES(...)                      \
  AT_DISPATCH_CASE(::flambeau::api::kComplexDouble, __VA_ARGS__) \
  AT_DISPATCH_CASE(::flambeau::api::kComplexFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)            \
  AT_DISPATCH_CASE(::flambeau::api::kByte, __VA_ARGS__) \
  AT_DISPATCH_CASE(::flambeau::api::kChar, __VA_ARGS__) \
  AT_DISPATCH_CASE(::flambeau::api::kInt, __VA_ARGS__)  \
  AT_DISPATCH_CASE(::flambeau::api::kLong, __VA_ARGS__) \
  AT_DISPATCH_CASE(::flambeau::api::kShort, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)           \
  AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...)        \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)           \
  AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)

#define AT_DISPATCH_FLOATING_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_COMPLEX_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, name, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND(::flambeau::api::kHalf, type, name, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_HALF(type, name, ...) \
  AT_DISPATCH_ALL_TYPES_AND(::flambeau::api::kHalf, type, name, __VA_ARGS__)
#define AT_DISPATCH_INDEX_TYPES(type, name, ...)                                   \
  AT_DISPATCH_SWITCH(                                                              \
      type, name,                                                                  \
      AT_PRIVATE_CASE_TYPE_USING_HINT(::flambeau::api::kInt, index_t, __VA_ARGS__) \
          AT_PRIVATE_CASE_TYPE_USING_HINT(::flambeau::api::kLong, index_t, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND(t1, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)       \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(t1, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND(t1, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND2(t1, t2, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)            \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                       \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(t1, t2, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND2(t1, t2, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND3(t1, t2, t3, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)                \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                           \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                           \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND3(t1, t2, t3, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND3(t1, t2, t3, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND4(t1, t2, t3, t4, ...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)                    \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                               \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                               \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                               \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND4(t1, t2, t3, t4, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_TYPES_AND4(t1, t2, t3, t4, __VA_ARGS__))
#define AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(t1, ...) \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__)       \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND(t1, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(t1, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND1(t1, ...) \
  AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)        \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND1(t1, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND1(t1, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND2(t1, t2, ...) \
  AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)            \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                   \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(t1, t2, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                                             \
                     AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND2(t1, t2, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND3(t1, t2, t3, ...) \
  AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)                \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                       \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                       \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND3(t1, t2, t3, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                                                 \
                     AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND3(t1, t2, t3, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND4(t1, t2, t3, t4, ...) \
  AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)                    \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                           \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                           \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                                           \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND4(t1, t2, t3, t4, type, name, ...) \
  AT_DISPATCH_SWITCH(                                                                \
      type, name, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND4(t1, t2, t3, t4, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND5(t1, t2, t3, t4, t5, ...) \
  AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)                        \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                               \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                               \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                                               \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)                                               \
  AT_DISPATCH_CASE(t5, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND5(t1, t2, t3, t4, t5, type, name, ...) \
  AT_DISPATCH_SWITCH(                                                                    \
      type, name,                                                                        \
      AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND5(t1, t2, t3, t4, t5, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND6(t1, t2, t3, t4, t5, t6, ...) \
  AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)                            \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                                   \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                                   \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                                                   \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)                                                   \
  AT_DISPATCH_CASE(t5, __VA_ARGS__)                                                   \
  AT_DISPATCH_CASE(t6, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND6(t1, t2, t3, t4, t5, t6, type, name, ...) \
  AT_DISPATCH_SWITCH(                                                                        \
      type, name,                                                                            \
      AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND6(t1, t2, t3, t4, t5, t6, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND(t1, ...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)       \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND(t1, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND(t1, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND2(t1, t2, ...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)            \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                  \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(t1, t2, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND2(t1, t2, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND3(t1, t2, t3, ...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)                \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                      \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                      \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND3(t1, t2, t3, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND3(t1, t2, t3, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND4(t1, t2, t3, t4, ...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)                    \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                          \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                          \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                          \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND4(t1, t2, t3, t4, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND4(t1, t2, t3, t4, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND(t1, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)       \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(t1, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND(t1, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND2(t1, t2, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)            \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                              \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(t1, t2, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND2(t1, t2, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND3(t1, t2, t3, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)                \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                  \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                  \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(t1, t2, t3, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                                            \
                     AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND3(t1, t2, t3, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND4(t1, t2, t3, t4, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)                    \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                      \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                      \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                                      \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(t1, t2, t3, t4, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                                                \
                     AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND4(t1, t2, t3, t4, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND5(t1, t2, t3, t4, t5, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)                        \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                          \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                          \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                                          \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)                                          \
  AT_DISPATCH_CASE(t5, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND5(t1, t2, t3, t4, t5, type, name, ...) \
  AT_DISPATCH_SWITCH(type, name,                                                    \
                     AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND5(t1, t2, t3, t4, t5, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND6(t1, t2, t3, t4, t5, t6, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)                            \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                              \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                              \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                                              \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)                                              \
  AT_DISPATCH_CASE(t5, __VA_ARGS__)                                              \
  AT_DISPATCH_CASE(t6, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND6(t1, t2, t3, t4, t5, t6, type, name, ...) \
  AT_DISPATCH_SWITCH(                                                                   \
      type, name,                                                                       \
      AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND6(t1, t2, t3, t4, t5, t6, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND7(t1, t2, t3, t4, t5, t6, t7, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)                                \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                                  \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                                  \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                                                  \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)                                                  \
  AT_DISPATCH_CASE(t5, __VA_ARGS__)                                                  \
  AT_DISPATCH_CASE(t6, __VA_ARGS__)                                                  \
  AT_DISPATCH_CASE(t7, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND7(t1, t2, t3, t4, t5, t6, t7, type, name, ...) \
  AT_DISPATCH_SWITCH(                                                                       \
      type, name,                                                                           \
      AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND7(t1, t2, t3, t4, t5, t6, t7, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND8(t1, t2, t3, t4, t5, t6, t7, t8, ...) \
  AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)                                    \
  AT_DISPATCH_CASE(t1, __VA_ARGS__)                                                      \
  AT_DISPATCH_CASE(t2, __VA_ARGS__)                                                      \
  AT_DISPATCH_CASE(t3, __VA_ARGS__)                                                      \
  AT_DISPATCH_CASE(t4, __VA_ARGS__)                                                      \
  AT_DISPATCH_CASE(t5, __VA_ARGS__)                                                      \
  AT_DISPATCH_CASE(t6, __VA_ARGS__)                                                      \
  AT_DISPATCH_CASE(t7, __VA_ARGS__)                                                      \
  AT_DISPATCH_CASE(t8, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND8(t1, t2, t3, t4, t5, t6, t7, t8, type, name, ...) \
  AT_DISPATCH_SWITCH(                                                                           \
      type, name,                                                                               \
      AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND8(t1, t2, t3, t4, t5, t6, t7, t8, __VA_ARGS__))
