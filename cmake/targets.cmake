# Puts src/doctor/targets/NAME.txt, what each runtime states that it supports, into the library as text: adding a runtime is
# adding a file.
function(collect_targets output)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/doctor/targets/*.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})
  set(entries "")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WLE)
    file(READ ${source} facts)
    string(APPEND entries "    {\"${name}\", R\"facts(${facts})facts\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"// Made by cmake/targets.cmake from the files in src/doctor/targets/.
#include \"doctor/targets.h\"

namespace ferry {

const TargetSource kTargetSources[] = {
@entries@};
const size_t kTargetSourceCount = sizeof(kTargetSources) / sizeof(kTargetSources[0]);

}  // namespace ferry
")
endfunction()
