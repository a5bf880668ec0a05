# What users' operators are compiled with goes into the wheel, as trtsmith/plugins_cpp: `trtsmith op build` takes it
# from there, and in a checkout from plugins_cpp itself. scripts/check_wheel.py has the same list.
set(TRTSMITH_SDK_KERNEL_HEADERS
  bilinear.cuh compensated.cuh convert.cuh dispatch.cuh dtype.hpp fast_division.cuh is_set.cuh order_key.cuh tensor_core.cuh
  widen.cuh)

if(SKBUILD)
  install(DIRECTORY core trt triton DESTINATION trtsmith/plugins_cpp COMPONENT sdk FILES_MATCHING PATTERN "*.hpp")
  install(DIRECTORY cmake package DESTINATION trtsmith/plugins_cpp COMPONENT sdk)
  install(FILES exports.hpp exports.map library.cpp library_v2.cpp DESTINATION trtsmith/plugins_cpp COMPONENT sdk)
  install(FILES ops/binding.hpp DESTINATION trtsmith/plugins_cpp/ops COMPONENT sdk)
  list(TRANSFORM TRTSMITH_SDK_KERNEL_HEADERS PREPEND kernels/ OUTPUT_VARIABLE trtsmith_sdk_kernels)
  install(FILES ${trtsmith_sdk_kernels} DESTINATION trtsmith/plugins_cpp/kernels COMPONENT sdk)
endif()
