# The image codecs of ImageDecoder, as static libraries where the system has them.
set(FERRY_IMAGE_LIBRARIES "")
set(FERRY_IMAGE_INCLUDES "")

function(find_codec name header static_name shared_name)
  find_library(${name}_LIBRARY NAMES ${static_name} ${shared_name})
  find_path(${name}_INCLUDE NAMES ${header} PATH_SUFFIXES openjpeg-2.5 openjpeg-2.4)
  if(NOT ${name}_LIBRARY OR NOT ${name}_INCLUDE)
    message(FATAL_ERROR "${shared_name} was not found; install it, or build without image codecs: -DFERRY_IMAGE=OFF")
  endif()
  set(FERRY_IMAGE_LIBRARIES ${FERRY_IMAGE_LIBRARIES} ${${name}_LIBRARY} PARENT_SCOPE)
  set(FERRY_IMAGE_INCLUDES ${FERRY_IMAGE_INCLUDES} ${${name}_INCLUDE} PARENT_SCOPE)
endfunction()

# Users before what they use: libtiff needs libjpeg and libdeflate.
find_codec(TIFF tiffio.h libtiff.a tiff)
find_codec(WEBP_DEMUX webp/demux.h libwebpdemux.a webpdemux)
find_codec(WEBP webp/decode.h libwebp.a webp)
find_codec(PNG png.h libpng16.a png16)
find_codec(OPENJP2 openjpeg.h libopenjp2.a openjp2)
find_codec(JPEG jpeglib.h libjpeg.a jpeg)
find_codec(DEFLATE libdeflate.h libdeflate.a deflate)

target_compile_definitions(ferry PRIVATE FERRY_IMAGE)
target_include_directories(ferry SYSTEM PRIVATE ${FERRY_IMAGE_INCLUDES})
target_link_libraries(ferry PRIVATE ${FERRY_IMAGE_LIBRARIES} m)
