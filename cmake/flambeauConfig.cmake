# find_package(flambeau): the library and headers of an installed wheel or of the source tree.
#
# Target: flambeau::flambeau, the C++ interface over flambeau::runtime. It compiles as C++20 and position-independent,
# executables too, because the runtime's tables must not be copied into programs (docs/adr/0008-libflambeau.md).
# Variables: FLAMBEAU_INCLUDE_DIRS, FLAMBEAU_LIBRARY, FLAMBEAU_RUNTIME_LIBRARY, FLAMBEAU_CXX_FLAGS.
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH _flambeau_package)
cmake_path(GET _flambeau_package PARENT_PATH _flambeau_package)
cmake_path(GET _flambeau_package PARENT_PATH _flambeau_package)
set(FLAMBEAU_INCLUDE_DIRS ${_flambeau_package}/include ${_flambeau_package}/include/flambeau)
set(FLAMBEAU_LIBRARY ${_flambeau_package}/lib/libflambeau_api.so)
set(FLAMBEAU_RUNTIME_LIBRARY ${_flambeau_package}/lib/libflambeau.so)
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
  add_library(flambeau::runtime SHARED IMPORTED)
  set_target_properties(
    flambeau::runtime
    PROPERTIES IMPORTED_LOCATION ${FLAMBEAU_RUNTIME_LIBRARY} IMPORTED_NO_SONAME OFF
  )
  add_library(flambeau::flambeau SHARED IMPORTED)
  set_target_properties(
    flambeau::flambeau
    PROPERTIES
      IMPORTED_LOCATION ${FLAMBEAU_LIBRARY}
      IMPORTED_NO_SONAME OFF
      INTERFACE_INCLUDE_DIRECTORIES "${FLAMBEAU_INCLUDE_DIRS}"
      INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:${FLAMBEAU_CXX_FLAGS}>"
      INTERFACE_COMPILE_FEATURES cxx_std_20
      INTERFACE_LINK_LIBRARIES flambeau::runtime
  )
endif()

# flambeau_add_operators(<target> <package> <file> [<derivatives>]): a library with the operators of an author's YAML
# file, as python -m flambeau.codegen generates it. Build the target to get `_native.so`, `_operators.py` and its stub in
# the folder <package> of the build directory. Needs Python, with jinja2 and PyYAML.
function(flambeau_add_operators target package file)
  find_package(Python REQUIRED COMPONENTS Interpreter)
  cmake_path(ABSOLUTE_PATH file OUTPUT_VARIABLE inputs)
  foreach(derivatives IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH derivatives)
    list(APPEND inputs ${derivatives})
  endforeach()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/operators_${target})
  cmake_path(GET FLAMBEAU_LIBRARY PARENT_PATH installed)
  cmake_path(SET installed NORMALIZE "${installed}/../..")
  execute_process(
    COMMAND
      ${CMAKE_COMMAND} -E env PYTHONPATH=${installed}:$ENV{PYTHONPATH} ${Python_EXECUTABLE} -m
      flambeau.codegen --extend ${inputs} --output ${folder}
    RESULT_VARIABLE failed
    OUTPUT_VARIABLE answer
    ERROR_VARIABLE mistakes
  )
  if(failed)
    message(FATAL_ERROR "flambeau_add_operators: ${file}\n${mistakes}${answer}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})
  file(READ ${folder}/sources.json table)
  flambeau_json_list(flags "${table}" flags)
  set(wanted generic)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(wanted x86_64 v3 v4)
  endif()
  add_library(${target} MODULE)
  string(JSON count LENGTH "${table}" sources)
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    string(JSON isa GET "${table}" sources ${i} isa)
    if(isa AND NOT isa IN_LIST wanted)
      continue()
    endif()
    string(JSON path GET "${table}" sources ${i} path)
    flambeau_json_list(own "${table}" sources ${i} flags)
    cmake_path(SET path NORMALIZE "${folder}/${path}")
    target_sources(${target} PRIVATE ${path})
    set_source_files_properties(${path} PROPERTIES COMPILE_OPTIONS "${own}")
  endforeach()
  target_compile_options(${target} PRIVATE ${flags})
  target_include_directories(${target} PRIVATE ${folder})
  target_link_libraries(${target} PRIVATE flambeau::flambeau)
  set(place ${CMAKE_CURRENT_BINARY_DIR}/${package})
  set_target_properties(
    ${target}
    PROPERTIES PREFIX "" OUTPUT_NAME _native SUFFIX .so LIBRARY_OUTPUT_DIRECTORY ${place}
  )
  file(COPY ${folder}/python/ DESTINATION ${place})
endfunction()

# The strings of a list in JSON, as a list of CMake.
function(flambeau_json_list out table)
  string(JSON count LENGTH "${table}" ${ARGN})
  set(found "")
  if(count GREATER 0)
    math(EXPR last "${count} - 1")
    foreach(i RANGE ${last})
      string(JSON item GET "${table}" ${ARGN} ${i})
      list(APPEND found ${item})
    endforeach()
  endif()
  set(${out} ${found} PARENT_SCOPE)
endfunction()
