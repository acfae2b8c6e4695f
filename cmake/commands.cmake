# Collects src/cli/commands/NAME.cc, each of which defines command_NAME, into one table, so that adding a command is adding
# a file. EXCEPT names commands to leave out.
function(collect_commands output)
  cmake_parse_arguments(PARSE_ARGV 1 asked "" "" EXCEPT)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cli/commands/*.cc)
  set(declarations "")
  set(entries "")
  foreach(source ${sources})
    get_filename_component(name ${source} NAME_WE)
    if(name IN_LIST asked_EXCEPT)
      continue()
    endif()
    string(APPEND declarations "extern const Command command_${name};\n")
    string(APPEND entries "    &command_${name},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT
"// Made by cmake/commands.cmake from the files in src/cli/commands/.
#include \"cli/command.h\"

namespace ferry::cli {
@declarations@
const Command* const kCommandTable[] = {
@entries@};
const size_t kCommandTableSize = sizeof(kCommandTable) / sizeof(kCommandTable[0]);

}  // namespace ferry::cli
")
endfunction()
