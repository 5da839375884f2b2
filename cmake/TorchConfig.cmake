# find_package(Torch): flambeau under the names that projects for PyTorch use.
#
# Targets: torch, torch_cpu, c10; all of them stand for flambeau::flambeau.
# Variables: TORCH_FOUND, TORCH_LIBRARIES, TORCH_INCLUDE_DIRS, TORCH_CXX_FLAGS, TORCH_INSTALL_PREFIX.
include(${CMAKE_CURRENT_LIST_DIR}/../flambeau/flambeauConfig.cmake)
if(DEFINED flambeau_FOUND AND NOT flambeau_FOUND)
  set(TORCH_FOUND FALSE)
  return()
endif()

foreach(name torch torch_cpu c10)
  if(NOT TARGET ${name})
    add_library(${name} INTERFACE IMPORTED)
    target_link_libraries(${name} INTERFACE flambeau::flambeau)
  endif()
endforeach()
set(TORCH_FOUND TRUE)
set(TORCH_LIBRARIES torch)
set(TORCH_INCLUDE_DIRS ${FLAMBEAU_INCLUDE_DIRS})
string(JOIN " " TORCH_CXX_FLAGS ${FLAMBEAU_CXX_FLAGS})
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH TORCH_INSTALL_PREFIX)
cmake_path(GET TORCH_INSTALL_PREFIX PARENT_PATH TORCH_INSTALL_PREFIX)
cmake_path(GET TORCH_INSTALL_PREFIX PARENT_PATH TORCH_INSTALL_PREFIX)
