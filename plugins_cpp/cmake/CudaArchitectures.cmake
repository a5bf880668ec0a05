# Sets CMAKE_CUDA_ARCHITECTURES from TRTSMITH_CUDA_ARCHITECTURES; include it before project().
# The setting is a list of compute capabilities (86;90, also with commas or blanks, also sm86) or `release`, in the CMake
# cache or the environment. Every one is compiled to machine code; the last also to PTX, for the GPUs that come after it.
set(TRTSMITH_RELEASE_CUDA_ARCHITECTURES 75 80 86 89 90 100 120)
# Short, so that a developer's build is: 86 is the target of a conversion without a GPU, 90 is what kernels are measured on.
set(TRTSMITH_DEVELOPER_CUDA_ARCHITECTURES 86 90)

if(NOT TRTSMITH_CUDA_ARCHITECTURES)
  if(NOT "$ENV{TRTSMITH_CUDA_ARCHITECTURES}" STREQUAL "")
    set(TRTSMITH_CUDA_ARCHITECTURES "$ENV{TRTSMITH_CUDA_ARCHITECTURES}")
  else()
    set(TRTSMITH_CUDA_ARCHITECTURES ${TRTSMITH_DEVELOPER_CUDA_ARCHITECTURES})
  endif()
endif()
if(TRTSMITH_CUDA_ARCHITECTURES STREQUAL "release")
  set(TRTSMITH_CUDA_ARCHITECTURES ${TRTSMITH_RELEASE_CUDA_ARCHITECTURES})
endif()

string(REGEX REPLACE "[, ]+" ";" _trtsmith_asked "${TRTSMITH_CUDA_ARCHITECTURES}")
set(CMAKE_CUDA_ARCHITECTURES "")
foreach(_trtsmith_architecture IN LISTS _trtsmith_asked)
  if(NOT _trtsmith_architecture MATCHES "^(sm_?)?([0-9]+a?)$")
    message(FATAL_ERROR
      "TRTSMITH_CUDA_ARCHITECTURES has an entry '${_trtsmith_architecture}'.\n"
      "  where:    TRTSMITH_CUDA_ARCHITECTURES=${TRTSMITH_CUDA_ARCHITECTURES}\n"
      "  expected: compute capabilities without a point, or release\n"
      "  fix:      TRTSMITH_CUDA_ARCHITECTURES='86;90'")
  endif()
  list(APPEND CMAKE_CUDA_ARCHITECTURES "${CMAKE_MATCH_2}-real")
endforeach()
list(POP_BACK CMAKE_CUDA_ARCHITECTURES _trtsmith_last)
string(REPLACE "-real" "" _trtsmith_last "${_trtsmith_last}")
list(APPEND CMAKE_CUDA_ARCHITECTURES "${_trtsmith_last}-real" "${_trtsmith_last}-virtual")
# Machine code for Hopper is made for sm_90a, which has wgmma; every Hopper GPU is of that capability. PTX for it would
# be good for no other GPU.
list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90-real$" "90a-real")
list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "^90a-virtual$" "90-virtual")
message(STATUS "CUDA architectures: ${CMAKE_CUDA_ARCHITECTURES}")
