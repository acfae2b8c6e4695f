# Tables made of what the folders hold, so that adding a command, a lint or an operator is adding a file.

# Writes FILE: the objects PREFIX_NAME of type TYPE in one array, k<TYPE>Table, for the NAMES given.
#   write_table(FILE TYPE Command PREFIX command HEADER cli/command.h NAMESPACE ferry::cli NAMES …)
function(write_table file)
  cmake_parse_arguments(PARSE_ARGV 1 table "" "TYPE;PREFIX;HEADER;NAMESPACE" "NAMES")
  set(declarations "")
  set(entries "")
  foreach(name ${table_NAMES})
    string(APPEND declarations "extern const ${table_TYPE} ${table_PREFIX}_${name};\n")
    string(APPEND entries "    &${table_PREFIX}_${name},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT
"// Made by cmake/tables.cmake.
#include \"@table_HEADER@\"

namespace @table_NAMESPACE@ {
@declarations@
const @table_TYPE@* const k@table_TYPE@Table[] = {
@entries@};
const size_t k@table_TYPE@TableSize = sizeof(k@table_TYPE@Table) / sizeof(k@table_TYPE@Table[0]);

}  // namespace @table_NAMESPACE@
")
endfunction()

# The names of the sources in a folder, without their ends.
function(names_in folder output)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  list(TRANSFORM sources REPLACE ".*/(.*)\\.cc$" "\\1")
  set(${output} ${sources} PARENT_SCOPE)
endfunction()

# src/cli/commands/NAME.cc defines command_NAME. Further arguments name commands to leave out.
function(collect_commands file)
  names_in(src/cli/commands names)
  list(REMOVE_ITEM names ${ARGN})
  write_table(${file} TYPE Command PREFIX command HEADER cli/command.h NAMESPACE ferry::cli NAMES ${names})
endfunction()

# src/doctor/lints/NAME.cc defines lint_NAME.
function(collect_lints file)
  names_in(src/doctor/lints names)
  write_table(${file} TYPE Lint PREFIX lint HEADER doctor/lint.h NAMESPACE ferry NAMES ${names})
endfunction()

# The names domain_Name of all lines MACRO(domain, Name, …) of src/ops/ and the folders in it. FERRY_OPERATOR(Name, …) is
# FERRY_OPERATOR_IN(onnx, Name, …).
function(names_of_lines macro output)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*.cc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(names "")
  foreach(source ${sources})
    file(STRINGS ${source} lines REGEX "^FERRY_[A-Z_]+\\(")
    foreach(line ${lines})
      string(REGEX REPLACE "^FERRY_OPERATOR\\(" "FERRY_OPERATOR_IN(onnx, " line "${line}")
      if(line MATCHES "^${macro}\\(([a-z]+), ([A-Za-z0-9_]+)")
        list(APPEND names ${CMAKE_MATCH_1}_${CMAKE_MATCH_2})
      endif()
    endforeach()
  endforeach()
  list(SORT names)
  set(${output} ${names} PARENT_SCOPE)
endfunction()

# They define operator_domain_Name …
function(collect_operators file)
  names_of_lines(FERRY_OPERATOR_IN names)
  write_table(${file} TYPE Operator PREFIX operator HEADER ops/operator_table.h NAMESPACE ferry NAMES ${names})
endfunction()

# … and FERRY_COMPOSITION(domain, Name, …) composition_domain_Name.
function(collect_compositions file)
  names_of_lines(FERRY_COMPOSITION names)
  write_table(${file} TYPE Composition PREFIX composition HEADER ops/support/compose.h NAMESPACE ferry NAMES ${names})
endfunction()
