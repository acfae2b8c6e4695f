# The system's libraries: linked statically into programs, so that the binary runs anywhere, and as shared libraries into
# shared libraries, since not all of Debian's archives are compiled for those.
set(FERRY_LINK_STATIC "")
set(FERRY_LINK_SHARED "")

# For the headers of `room`.
macro(use_library name room header static_name shared_name)
  find_library(${name}_SHARED NAMES ${shared_name})
  find_library(${name}_STATIC NAMES ${static_name} ${shared_name})
  find_path(${name}_INCLUDE NAMES ${header} PATH_SUFFIXES openjpeg-2.5 openjpeg-2.4)
  if(NOT ${name}_SHARED OR NOT ${name}_INCLUDE)
    message(FATAL_ERROR "${shared_name} was not found: scripts/setup installs it (-DFERRY_IMAGE=OFF leaves image codecs out)")
  endif()
  list(APPEND FERRY_LINK_STATIC ${${name}_STATIC})
  list(APPEND FERRY_LINK_SHARED ${${name}_SHARED})
  target_include_directories(ferry_room_${room} SYSTEM PRIVATE ${${name}_INCLUDE})
endmacro()

# Regular expressions and Unicode for the string operators.
use_library(RE2 ops re2/re2.h libre2.a re2)
use_library(UTF8PROC ops utf8proc.h libutf8proc.a utf8proc)
target_include_directories(ferry_room_generate SYSTEM PRIVATE ${UTF8PROC_INCLUDE})

# Users before what they use: libtiff needs libjpeg and libdeflate, and all need zlib.
if(FERRY_IMAGE)
  use_library(TIFF image tiffio.h libtiff.a tiff)
  use_library(WEBP_DEMUX image webp/demux.h libwebpdemux.a webpdemux)
  use_library(WEBP image webp/decode.h libwebp.a webp)
  use_library(PNG image png.h libpng16.a png16)
  use_library(OPENJP2 image openjpeg.h libopenjp2.a openjp2)
  use_library(JPEG image jpeglib.h libjpeg.a jpeg)
  use_library(DEFLATE image libdeflate.h libdeflate.a deflate)
endif()
use_library(ZLIB base zlib.h libz.a z)

# TYPE is that of whoever links ferry.
set(into_program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
target_link_libraries(ferry
  PRIVATE "$<${into_program}:${FERRY_LINK_STATIC}>" "$<$<NOT:${into_program}>:${FERRY_LINK_SHARED}>" m
  PUBLIC Threads::Threads)
