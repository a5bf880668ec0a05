# Included before project(): which GPUs to compile for, and where TensorRT's headers are. The compiler itself is CUDACXX.
include("${CMAKE_CURRENT_LIST_DIR}/CudaArchitectures.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/TensorRTHeaders.cmake")

# GCC 12 sees an overlap in std::string's operator+ that cannot be (its bug 105651).
string(APPEND CMAKE_CXX_FLAGS_INIT " -Wno-restrict")
