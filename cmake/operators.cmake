# Collects every FERRY_OPERATOR(Name, …) line of src/ops/ into one table, so that adding an operator is adding a file.
function(collect_operators output)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/ops/*.cc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(names "")
  foreach(source ${sources})
    file(STRINGS ${source} lines REGEX "^FERRY_OPERATOR\\(")
    foreach(line ${lines})
      string(REGEX REPLACE "^FERRY_OPERATOR\\(([A-Za-z0-9_]+).*" "\\1" name "${line}")
      list(APPEND names ${name})
    endforeach()
  endforeach()
  list(SORT names)
  set(declarations "")
  set(entries "")
  foreach(name ${names})
    string(APPEND declarations "extern const Operator operator_${name};\n")
    string(APPEND entries "    &operator_${name},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"// Made by cmake/operators.cmake from the FERRY_OPERATOR lines in src/ops/.
#include \"ops/operator_table.h\"

namespace ferry {
@declarations@
const Operator* const kOperatorTable[] = {
@entries@};
const size_t kOperatorTableSize = sizeof(kOperatorTable) / sizeof(kOperatorTable[0]);

}  // namespace ferry
")
endfunction()
