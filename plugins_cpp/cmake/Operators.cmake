# Reads the list of operators. Sets TRTSMITH_KERNELS, every operator's CUDA sources, and TRTSMITH_BINDINGS_V2 and _V3, the
# bindings in either plugin library; writes generated/operators.hpp, through which C++ knows the list. The sources are in
# TRTSMITH_OPERATORS_ROOT's folders kernels/ and ops/, which are ours unless it is set; so is TRTSMITH_OPERATORS_LIST. TRTSMITH_TRITON is
# the folder with the bindings of kernels that are written in Triton; ours has none.
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
  cmake_parse_arguments(operator "DATA_DEPENDENT_SHAPES" "BINDING;TRITON" "KERNELS" ${ARGN})
  # Of a kernel that is written in Triton, `trtsmith op build` has made the binding, with the kernel in it.
  if(operator_TRITON AND TRTSMITH_TRITON)
    get_filename_component(operator_made "${operator_TRITON}" NAME_WE)
    set(operator_made "${TRTSMITH_TRITON}/${operator_made}")
    set_source_files_properties("${operator_made}.cpp" PROPERTIES OBJECT_DEPENDS "${operator_made}.bin")
  elseif(operator_BINDING AND operator_KERNELS AND NOT operator_TRITON)
    set(operator_made "")
  else()
    set(operator_UNPARSED_ARGUMENTS TRUE)
  endif()
  if(operator_UNPARSED_ARGUMENTS OR (operator_made AND (operator_BINDING OR operator_KERNELS OR operator_DATA_DEPENDENT_SHAPES)))
    message(FATAL_ERROR
      "${TRTSMITH_OPERATORS_LIST} does not say what ${name} is made of.\n"
      "  where:    trtsmith_operator(${name} ${ARGN})\n"
      "  expected: trtsmith_operator(Name [DATA_DEPENDENT_SHAPES] BINDING name.cpp KERNELS name.cu ...), or in a package "
      "trtsmith_operator(Name TRITON name_triton.py)\n"
      "  fix:      write the line so")
  endif()
  set(operator_family "")
  if(operator_KERNELS)
    list(GET operator_KERNELS 0 operator_family)
    get_filename_component(operator_family "${operator_family}" DIRECTORY)
  endif()
  # An operator of kernels/ itself has no family, and "" counts as a member of an empty list.
  if("${name}" IN_LIST TRTSMITH_LEAVE_OUT OR (operator_family AND "${operator_family}" IN_LIST TRTSMITH_LEAVE_OUT))
    list(APPEND trtsmith_left_out ${name} ${operator_family})
  else()
    if(operator_made)
      set(operator_source "${operator_made}.cpp")
    else()
      set(operator_source "${TRTSMITH_OPERATORS_ROOT}/ops/${operator_BINDING}")
      list(TRANSFORM operator_KERNELS PREPEND "${TRTSMITH_OPERATORS_ROOT}/kernels/")
      list(APPEND TRTSMITH_KERNELS ${operator_KERNELS})
    endif()
    foreach(interface V2 V3)
      if(interface STREQUAL "V3" OR NOT operator_DATA_DEPENDENT_SHAPES)
        list(APPEND TRTSMITH_BINDINGS_${interface} "${operator_source}")
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
