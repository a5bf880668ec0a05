# Included before project(): which GPUs to compile for, and where TensorRT's headers are. The compiler itself is CUDACXX.
include("${CMAKE_CURRENT_LIST_DIR}/CudaArchitectures.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/TensorRTHeaders.cmake")
