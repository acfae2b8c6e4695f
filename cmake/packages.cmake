# Debian packages: ferry (the binaries), libferry1, libferry-dev and python3-ferry; scripts/package makes and tries them.
set(CPACK_GENERATOR DEB)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # the target installable is enough, tests need not be built
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Ferry's developers <ferry@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL programs library development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME ferry)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "The commands ferry and ferry-runtime, their completions and manual page.")

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libferry1)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_BINARY_DIR}/triggers)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "The shared library with Ferry's C interface.")
file(WRITE ${PROJECT_BINARY_DIR}/triggers "activate-noawait ldconfig\n")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libferry-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libferry1 (= ${PROJECT_VERSION}), libre2-dev, libutf8proc-dev, zlib1g-dev")
if(FERRY_IMAGE)
  string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    ", libtiff-dev, libwebp-dev, libpng-dev, libopenjp2-7-dev, libjpeg-dev, libdeflate-dev")
endif()
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers, the static library, a CMake package and a pkg-config file.")

if(FERRY_PYTHON)
  list(APPEND CPACK_COMPONENTS_ALL python)
  # Not part of 'cmake --install': a wheel is for other places than Debian's own.
  install(DIRECTORY ${PROJECT_BINARY_DIR}/python/ferry DESTINATION lib/python3/dist-packages COMPONENT python EXCLUDE_FROM_ALL
    PATTERN __pycache__ EXCLUDE)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-ferry)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  # The module is for the Python it was built with, and no other.
  set(python ${Python3_EXECUTABLE})
  if(NOT python)
    set(python python3)
  endif()
  execute_process(COMMAND ${python} -c "import sys; n = sys.version_info[1]; print(f'python3 (>= 3.{n}~), python3 (<< 3.{n + 1})', end='')"
    OUTPUT_VARIABLE its_python COMMAND_ERROR_IS_FATAL ANY)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "${its_python}, python3-numpy")
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION "Ferry for Python: onnxruntime's interface, and more.")
endif()
include(CPack)
