# Reads the list of operators. Sets TRTSMITH_KERNELS, every operator's CUDA sources, and TRTSMITH_BINDINGS_V2 and _V3, the
# bindings in either plugin library; writes generated/operators.hpp, through which C++ knows the list. The sources are in
# TRTSMITH_OPERATORS_ROOT's folders kernels/ and ops/, which are ours unless it is set; so is TRTSMITH_OPERATORS_LIST.
if(NOT TRTSMITH_OPERATORS_ROOT)
  set(TRTSMITH_OPERATORS_ROOT "${PROJECT_SOURCE_DIR}")
endif()
if(NOT TRTSMITH_OPERATORS_LIST)
  set(TRTSMITH_OPERATORS_LIST "${TRTSMITH_OPERATORS_ROOT}/ops/list.cmake")
endif()
set(TRTSMITH_LEAVE_OUT "" CACHE STRING "Operators, and families (folders of kernels/), to build without")
set(trtsmith_left_out "")
set(TRTSMITH_KERNELS "")
foreach(interface V2 V3)
  set(TRTSMITH_BINDINGS_${interface} "")
  set(TRTSMITH_OPERATORS_${interface} "")
endforeach()

macro(trtsmith_operator name)
  cmake_parse_arguments(operator "DATA_DEPENDENT_SHAPES" "BINDING" "KERNELS" ${ARGN})
  if(operator_UNPARSED_ARGUMENTS OR NOT operator_BINDING OR NOT operator_KERNELS)
    message(FATAL_ERROR
      "${TRTSMITH_OPERATORS_LIST} does not say what ${name} is made of.\n"
      "  where:    trtsmith_operator(${name} ${ARGN})\n"
      "  expected: trtsmith_operator(Name [DATA_DEPENDENT_SHAPES] BINDING name.cpp KERNELS name.cu ...)\n"
      "  fix:      write the line so")
  endif()
  list(GET operator_KERNELS 0 operator_family)
  get_filename_component(operator_family "${operator_family}" DIRECTORY)
  # An operator of kernels/ itself has no family, and "" counts as a member of an empty list.
  if("${name}" IN_LIST TRTSMITH_LEAVE_OUT OR (operator_family AND "${operator_family}" IN_LIST TRTSMITH_LEAVE_OUT))
    list(APPEND trtsmith_left_out ${name} ${operator_family})
  else()
    list(TRANSFORM operator_KERNELS PREPEND "${TRTSMITH_OPERATORS_ROOT}/kernels/")
    list(APPEND TRTSMITH_KERNELS ${operator_KERNELS})
    foreach(interface V2 V3)
      if(interface STREQUAL "V3" OR NOT operator_DATA_DEPENDENT_SHAPES)
        list(APPEND TRTSMITH_BINDINGS_${interface} "${TRTSMITH_OPERATORS_ROOT}/ops/${operator_BINDING}")
        string(APPEND TRTSMITH_OPERATORS_${interface} " X(${name})")
      endif()
    endforeach()
  endif()
endmacro()

include("${TRTSMITH_OPERATORS_LIST}")
foreach(asked IN LISTS TRTSMITH_LEAVE_OUT)
  if(NOT asked IN_LIST trtsmith_left_out)
    message(FATAL_ERROR
      "There is no operator and no family ${asked} to leave out.\n"
      "  where:    TRTSMITH_LEAVE_OUT\n"
      "  expected: names of operators, or of folders of kernels/, separated by semicolons\n"
      "  fix:      take a name from ${TRTSMITH_OPERATORS_LIST}")
  endif()
endforeach()
list(REMOVE_DUPLICATES TRTSMITH_KERNELS)
configure_file("${CMAKE_CURRENT_LIST_DIR}/operators.hpp.in" "${PROJECT_BINARY_DIR}/generated/operators.hpp" @ONLY)
