# How Ferry's own targets are compiled. Everything is said of a target, nothing of a folder: a project that takes Ferry in
# with add_subdirectory or FetchContent keeps its flags, and Ferry gets none of that project's warnings.
include_guard()

set(FERRY_SANITIZE "" CACHE STRING "Sanitizers to build with: 'address,undefined' or 'thread'")
set(FERRY_CMAKE_DIR ${CMAKE_CURRENT_LIST_DIR})

# ferry_compile(TARGET OPTIONS…): OPTIONS are those of a release build: -O2 for what runs once per element, -Os for what
# runs once per model.
function(ferry_compile target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wno-missing-field-initializers -ffunction-sections -fdata-sections)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 cries wolf over std::optional and std::string.
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized -Wno-restrict)
  endif()
  get_target_property(type ${target} TYPE)
  if(NOT FERRY_SANITIZE)
    target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:${ARGN}>")
    if(type MATCHES "EXECUTABLE|SHARED_LIBRARY|MODULE_LIBRARY")
      target_link_options(${target} PRIVATE -Wl,--gc-sections)
    endif()
    return()
  endif()
  # With the checks in, optimising hard costs more time to compile than it saves while testing. What runs once per model
  # takes three times as long to optimise as to compile: only fuzzing for minutes wins that back.
  set(optimize -O1)
  if("${ARGN}" MATCHES "-O[s0]" AND (FERRY_TESTS OR NOT FERRY_FUZZ))
    set(optimize -O0)
  endif()
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release>:${optimize}>"
    -fsanitize=${FERRY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  target_link_options(${target} PRIVATE -fsanitize=${FERRY_SANITIZE})
  find_program(LLD ld.lld)
  mark_as_advanced(LLD)
  if(LLD AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_link_options(${target} PRIVATE -fuse-ld=lld)  # seconds instead of half a minute for each program full of checks
  endif()
  if(FERRY_SANITIZE MATCHES undefined)
    # A third of the time to compile, for faults that the address sanitizer stops at as well.
    target_compile_options(${target} PRIVATE -fno-sanitize=null,object-size,vptr)
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      target_compile_options(${target} PRIVATE -fsanitize-ignorelist=${FERRY_CMAKE_DIR}/sanitizer_ignores.txt)
    endif()
  endif()
endfunction()
