# find_package(flambeau): the library and headers of an installed wheel or of the source tree.
#
# Target: flambeau::flambeau. It compiles as C++20 and position-independent, executables too, because the library's
# tables must not be copied into programs (docs/adr/0008-libflambeau.md).
# Variables: FLAMBEAU_INCLUDE_DIRS, FLAMBEAU_LIBRARY, FLAMBEAU_CXX_FLAGS.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH _flambeau_package)
cmake_path(GET _flambeau_package PARENT_PATH _flambeau_package)
cmake_path(GET _flambeau_package PARENT_PATH _flambeau_package)
set(FLAMBEAU_INCLUDE_DIRS ${_flambeau_package}/include ${_flambeau_package}/include/flambeau)
set(FLAMBEAU_LIBRARY ${_flambeau_package}/lib/libflambeau.so)
set(FLAMBEAU_CXX_FLAGS -fPIC -fno-plt)
set(FLAMBEAU_MINIMUM_GCC 11.0.0)
unset(_flambeau_package)

set(_flambeau_refusal "")
if(NOT EXISTS ${FLAMBEAU_LIBRARY})
  set(_flambeau_refusal "expected the library ${FLAMBEAU_LIBRARY}, which does not exist")
elseif(NOT CMAKE_CXX_COMPILER_LOADED)
  set(
    _flambeau_refusal
    "expected a project with the language CXX: add it to project() before find_package"
  )
elseif(
  CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
  AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS FLAMBEAU_MINIMUM_GCC
)
  string(
    CONCAT _flambeau_refusal
    "expected g++ ${FLAMBEAU_MINIMUM_GCC} or newer for C++20, got ${CMAKE_CXX_COMPILER_VERSION} "
    "(${CMAKE_CXX_COMPILER}); CMAKE_CXX_COMPILER or the environment's CXX names another compiler"
  )
elseif(NOT "cxx_std_20" IN_LIST CMAKE_CXX_COMPILE_FEATURES)
  string(
    CONCAT _flambeau_refusal
    "expected a compiler for C++20, got ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} "
    "(${CMAKE_CXX_COMPILER}); CMAKE_CXX_COMPILER or the environment's CXX names another compiler"
  )
endif()
if(_flambeau_refusal)
  set(${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE "flambeau: ${_flambeau_refusal}")
  set(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)
  set(flambeau_FOUND FALSE)
  unset(_flambeau_refusal)
  return()
endif()
unset(_flambeau_refusal)

if(NOT TARGET flambeau::flambeau)
  add_library(flambeau::flambeau SHARED IMPORTED)
  set_target_properties(
    flambeau::flambeau
    PROPERTIES
      IMPORTED_LOCATION ${FLAMBEAU_LIBRARY}
      IMPORTED_NO_SONAME OFF
      INTERFACE_INCLUDE_DIRECTORIES "${FLAMBEAU_INCLUDE_DIRS}"
      INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:${FLAMBEAU_CXX_FLAGS}>"
      INTERFACE_COMPILE_FEATURES cxx_std_20
  )
endif()
