# Sets CMAKE_CUDA_ARCHITECTURES from TRTSMITH_CUDA_ARCHITECTURES; include it before project().
# The setting is a list of compute capabilities (86;90, also with commas or blanks, also sm86) or `release`, in the CMake
# cache or the environment. Every one is compiled to machine code; the last also to PTX, for the GPUs that come after it.
set(TRTSMITH_RELEASE_CUDA_ARCHITECTURES 75 80 86 89 90 100 120)
# The target of a conversion without a GPU.
set(TRTSMITH_CUDA_ARCHITECTURE_WITHOUT_GPU 86)

# The compute capabilities of the GPUs that are here, as far as kernels can be compiled for them. Each one more is compiled
# as long as the first: two minutes on two cores.
function(trtsmith_architectures_here result)
  execute_process(
    COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE status)
  set(found "")
  if(status EQUAL 0)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${said}")
    foreach(capability IN LISTS capabilities)
      string(REPLACE "." "" architecture "${capability}")
      list(GET TRTSMITH_RELEASE_CUDA_ARCHITECTURES 0 least)
      if(NOT architecture LESS least)
        list(APPEND found "${architecture}")
      endif()
    endforeach()
    list(REMOVE_DUPLICATES found)
    list(SORT found COMPARE NATURAL)
  endif()
  if(NOT found)
    set(found ${TRTSMITH_CUDA_ARCHITECTURE_WITHOUT_GPU})
  endif()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

if(NOT TRTSMITH_CUDA_ARCHITECTURES)
  if(NOT "$ENV{TRTSMITH_CUDA_ARCHITECTURES}" STREQUAL "")
    set(TRTSMITH_CUDA_ARCHITECTURES "$ENV{TRTSMITH_CUDA_ARCHITECTURES}")
  else()
    trtsmith_architectures_here(TRTSMITH_CUDA_ARCHITECTURES)
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
