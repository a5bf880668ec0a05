# Sets TRTSMITH_TENSORRT_INCLUDE to the folder that holds NvInfer.h, unless it is given. The set-up script and the wheel's build
# always give it; this is for `cmake -S plugins_cpp` by hand.
find_path(TRTSMITH_TENSORRT_INCLUDE NvInfer.h
  HINTS
    "$ENV{TRTSMITH_TENSORRT_INCLUDE}"
    "$ENV{TensorRT_ROOT}/include" "$ENV{TENSORRT_ROOT}/include" "$ENV{TRT_ROOT}/include"
  PATHS
    /usr/include/x86_64-linux-gnu /usr/include/aarch64-linux-gnu
    /usr/local/tensorrt/include /opt/tensorrt/include /usr/local/include /usr/include
    "${CMAKE_CURRENT_LIST_DIR}/../../.cache/tensorrt-headers"
  DOC "Folder with TensorRT's C++ headers (10.3 or newer)")
if(NOT TRTSMITH_TENSORRT_INCLUDE)
  message(FATAL_ERROR
    "TensorRT's C++ headers were not found.\n"
    "  where:    TensorRT_ROOT, /usr/include, /usr/local/tensorrt, /opt/tensorrt\n"
    "  expected: NvInfer.h of TensorRT 10.3 or newer\n"
    "  fix:      -DTRTSMITH_TENSORRT_INCLUDE=FOLDER, or let `make setup` fetch them")
endif()
message(STATUS "TensorRT headers: ${TRTSMITH_TENSORRT_INCLUDE}")
