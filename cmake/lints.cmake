# Collects src/doctor/lints/NAME.cc, each of which defines lint_NAME, into one table, so that adding a lint is adding a file.
function(collect_lints output)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/doctor/lints/*.cc)
  set(declarations "")
  set(entries "")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    string(APPEND declarations "extern const Lint lint_${name};\n")
    string(APPEND entries "    &lint_${name},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"// Made by cmake/lints.cmake from the files in src/doctor/lints/.
#include \"doctor/lint.h\"

namespace ferry {
@declarations@
const Lint* const kLintTable[] = {
@entries@};
const size_t kLintTableSize = sizeof(kLintTable) / sizeof(kLintTable[0]);

}  // namespace ferry
")
endfunction()
