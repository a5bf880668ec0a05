# What every build of a plugin library has in common, ours and those of users' operators. Included after project().
find_package(CUDAToolkit REQUIRED)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

get_filename_component(TRTSMITH_SDK "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

add_library(trtsmith_headers INTERFACE)
target_include_directories(trtsmith_headers INTERFACE "${TRTSMITH_SDK}" "${PROJECT_BINARY_DIR}/generated")
target_include_directories(trtsmith_headers SYSTEM INTERFACE "${TRTSMITH_TENSORRT_INCLUDE}")
target_compile_options(trtsmith_headers INTERFACE -Wall -Wextra -Wno-deprecated-declarations)
target_link_libraries(trtsmith_headers INTERFACE CUDA::cudart_static)

list(JOIN CMAKE_CUDA_ARCHITECTURES " " TRTSMITH_ARCHITECTURES_TEXT)

# CUDA kernels on raw pointers, as a static library. No TensorRT include directory here: the compiler keeps the kernels
# free of it. For which GPUs is in CMAKE_CUDA_ARCHITECTURES.
function(trtsmith_kernel_library target)
  add_library(${target} STATIC ${ARGN})
  set_target_properties(${target} PROPERTIES
    CUDA_EXTENSIONS OFF
    CUDA_SEPARABLE_COMPILATION OFF)
  # Users write #include "kernels/<op>.cuh"; those headers need cuda_runtime_api.h and nothing else of CUDA.
  target_include_directories(${target} PUBLIC "${TRTSMITH_SDK}")
  target_include_directories(${target} SYSTEM PUBLIC ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  # Kernels are most of a library, and compress to a sixth: nvcc's default does not try hard.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>")
  endif()
  if(TRTSMITH_LINEINFO)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>")
  endif()
  # CMAKE_COMPILE_WARNING_AS_ERROR is nvcc's own warnings alone.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra$<$<BOOL:${CMAKE_COMPILE_WARNING_AS_ERROR}>:,-Werror>>")
endfunction()

# One plugin library: operators through the V3 or the V2 adapter.
function(trtsmith_plugin_library target)
  add_library(${target} SHARED ${ARGN})
  target_link_libraries(${target} PRIVATE trtsmith_headers)
  target_compile_definitions(${target} PRIVATE "TRTSMITH_CUDA_ARCHITECTURES=\"${TRTSMITH_ARCHITECTURES_TEXT}\"")
  # Nothing but the entry points gets out, and nothing of TensorRT is needed to load it.
  target_link_options(${target} PRIVATE
    "LINKER:--version-script=${TRTSMITH_SDK}/exports.map" LINKER:--no-undefined LINKER:--exclude-libs,ALL)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${TRTSMITH_SDK}/exports.map")
endfunction()
