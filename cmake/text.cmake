# RE2 and utf8proc for the string operators, the static libraries where there are any.
find_path(RE2_INCLUDE_DIR re2/re2.h REQUIRED)
find_library(RE2_LIBRARY NAMES libre2.a re2 REQUIRED)
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY NAMES libutf8proc.a utf8proc REQUIRED)

function(link_text_libraries target)
  target_include_directories(${target} SYSTEM PRIVATE ${RE2_INCLUDE_DIR} ${UTF8PROC_INCLUDE_DIR})
  target_link_libraries(${target} PRIVATE ${RE2_LIBRARY} ${UTF8PROC_LIBRARY})
  if(UTF8PROC_LIBRARY MATCHES "\\.a$")
    # Only where it is needed: a definition for all sources would recompile them all.
    set_property(SOURCE ${CMAKE_SOURCE_DIR}/src/ops/support/unicode.cc APPEND PROPERTY COMPILE_DEFINITIONS UTF8PROC_STATIC)
  endif()
endfunction()
