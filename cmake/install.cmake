# cmake --install: the binary, both libraries, the headers, a CMake package (find_package(ferry)) and a pkg-config file.
include(CMakePackageConfigHelpers)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)  # cmake/packages.cmake has the components
install(TARGETS ferry_cli ferry_runtime RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
install(TARGETS ferry ferry_shared EXPORT ferry
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
install(DIRECTORY include/ferry DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ferry)
install(EXPORT ferry NAMESPACE ferry:: FILE ferry-targets.cmake DESTINATION ${package_folder})
configure_package_config_file(cmake/ferry-config.cmake.in ${PROJECT_BINARY_DIR}/ferry-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ferry-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ferry-config.cmake ${PROJECT_BINARY_DIR}/ferry-config-version.cmake
  DESTINATION ${package_folder})

# The file says where it lies, so that its flags are right under every prefix it is installed to.
if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(FERRY_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" FERRY_PC_PREFIX "\${pcfiledir}/${up}")
endif()
string(REPLACE ";" " " FERRY_PC_PRIVATE "${FERRY_LINK_STATIC}")
configure_file(cmake/ferry.pc.in ${PROJECT_BINARY_DIR}/ferry.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ferry.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Completions and the manual page are printed by the binary itself, so that they never lag behind it.
foreach(shell bash zsh)
  set(completion ${PROJECT_BINARY_DIR}/completion.${shell})
  add_custom_command(OUTPUT ${completion} COMMAND ferry_cli completion ${shell} > ${completion} DEPENDS ferry_cli)
  list(APPEND completions ${completion})
endforeach()
set(manual ${PROJECT_BINARY_DIR}/man/ferry.1)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/man)
add_custom_command(OUTPUT ${manual} COMMAND ferry_cli --help --man > ${manual} DEPENDS ferry_cli)
add_custom_target(completions ALL DEPENDS ${completions} ${manual})
install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)

# What 'cmake --install' takes along: scripts/build and scripts/quickstart build this.
add_custom_target(installable)
add_dependencies(installable ferry_cli ferry_runtime ferry ferry_shared completions)
set(binaries ferry_cli ferry_runtime)
if(TARGET ferry_server)
  list(APPEND binaries ferry_server)
  add_dependencies(installable ferry_server)
  install(TARGETS ferry_server RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
endif()

# Binaries as they are handed out, with their symbols beside them, where debuggers and profilers look.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT FERRY_SANITIZE AND CMAKE_OBJCOPY)
  foreach(binary ${binaries})
    set(name $<TARGET_FILE_NAME:${binary}>)
    add_custom_command(TARGET ${binary} POST_BUILD WORKING_DIRECTORY $<TARGET_FILE_DIR:${binary}>
      COMMAND ${CMAKE_OBJCOPY} --only-keep-debug ${name} ${name}.debug
      COMMAND ${CMAKE_OBJCOPY} --strip-unneeded --add-gnu-debuglink=${name}.debug ${name})
  endforeach()
endif()
# The page of 'ferry view', where scripts/build_web has built it.
install(DIRECTORY ${PROJECT_BINARY_DIR}/web/workbench DESTINATION ${CMAKE_INSTALL_DATADIR}/ferry COMPONENT programs OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/completion.bash RENAME ferry
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
install(FILES ${PROJECT_BINARY_DIR}/completion.zsh RENAME _ferry DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions
  COMPONENT programs)

include(${CMAKE_CURRENT_LIST_DIR}/packages.cmake)
