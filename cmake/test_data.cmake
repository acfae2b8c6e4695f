# Unpacks tests/data/*.tar.xz into build/test_data/ when something is built that needs them.
file(GLOB archives CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/data/*.tar.xz)
set(unpacked "")
foreach(archive ${archives})
  get_filename_component(name ${archive} NAME_WE)
  set(mark ${PROJECT_BINARY_DIR}/test_data/${name}.unpacked)
  add_custom_command(OUTPUT ${mark}
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${name}
    COMMAND ${CMAKE_COMMAND} -E tar xf ${archive}
    COMMAND ${CMAKE_COMMAND} -E touch ${mark}
    DEPENDS ${archive}
    WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/test_data
    COMMENT "Unpacking ${name}")
  list(APPEND unpacked ${mark})
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/test_data)
add_custom_target(test_data DEPENDS ${unpacked})
