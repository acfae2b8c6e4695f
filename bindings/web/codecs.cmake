# The image libraries that ImageDecoder is linked with elsewhere, compiled from their sources (build/fetch_codecs) for
# `ferry-web`: what reads, without what writes. FERRY_WEB_CODECS is the folder of the sources.
enable_language(C)
set(codecs ${FERRY_WEB_CODECS})
set(settings ${PROJECT_BINARY_DIR}/codecs-settings)

file(CONFIGURE OUTPUT ${settings}/jconfig.h CONTENT
"#define JPEG_LIB_VERSION 62
#define LIBJPEG_TURBO_VERSION 2
#define LIBJPEG_TURBO_VERSION_NUMBER 2000000
#define D_ARITH_CODING_SUPPORTED 1
#define MEM_SRCDST_SUPPORTED 1
#define BITS_IN_JSAMPLE 8
")
file(CONFIGURE OUTPUT ${settings}/jconfigint.h CONTENT
"#undef inline
#define BUILD \"\"
#define INLINE inline
#define THREAD_LOCAL __thread
#define PACKAGE_NAME \"libjpeg-turbo\"
#define VERSION \"\"
#define SIZEOF_SIZE_T 4
#define HAVE_BUILTIN_CTZL
#define FALLTHROUGH __attribute__((fallthrough));
")
configure_file(${codecs}/libjpeg-turbo/jversion.h.in ${settings}/jversion.h)
configure_file(${codecs}/libpng1.6/scripts/pnglibconf.h.prebuilt ${settings}/pnglibconf.h COPYONLY)
file(CONFIGURE OUTPUT ${settings}/opj_config.h CONTENT
"#define OPJ_HAVE_STDINT_H 1
#define OPJ_VERSION_MAJOR 2
#define OPJ_VERSION_MINOR 5
#define OPJ_VERSION_BUILD 0
")
file(CONFIGURE OUTPUT ${settings}/opj_config_private.h CONTENT
"#define OPJ_HAVE_INTTYPES_H 1
#define OPJ_PACKAGE_VERSION \"2.5.0\"
#define OPJ_HAVE_FSEEKO 1
#define OPJ_HAVE_POSIX_MEMALIGN
#define _POSIX_C_SOURCE 200112L
")
foreach(bits 8 16 32 64)
  set(TIFF_INT${bits}_T int${bits}_t)
  set(TIFF_UINT${bits}_T uint${bits}_t)
endforeach()
set(TIFF_SSIZE_T int32_t)
set(HOST_FILLORDER FILLORDER_LSB2MSB)
set(HOST_BIG_ENDIAN 0)
set(SIZEOF_SIZE_T 4)
set(STRIP_SIZE_DEFAULT 8192)
set(TIFF_MAX_DIR_COUNT 1048576)
set(STRIPCHOP_DEFAULT TIFF_STRIPCHOP)
# Without compressions that hardly anybody writes: LogLuv, NeXT, old JPEG, PixarLog, ThunderScan.
foreach(part HAVE_IEEEFP CCITT_SUPPORT JPEG_SUPPORT LZW_SUPPORT PACKBITS_SUPPORT ZIP_SUPPORT SUBIFD_SUPPORT DEFAULT_EXTRASAMPLE_AS_ALPHA CHECK_JPEG_YCBCR_SUBSAMPLING
    MDI_SUPPORT CHUNKY_STRIP_READ_SUPPORT DEFER_STRILE_LOAD HAVE_ASSERT_H HAVE_FCNTL_H HAVE_FSEEKO HAVE_STRINGS_H
    HAVE_SYS_TYPES_H HAVE_UNISTD_H)
  set(${part} 1)
endforeach()
configure_file(${codecs}/tiff/libtiff/tiffconf.h.cmake.in ${settings}/tiffconf.h)
configure_file(${codecs}/tiff/libtiff/tif_config.h.cmake.in ${settings}/tif_config.h)

# add_codec(NAME FOLDER FILE…): names without their ends.
function(add_codec name folder)
  list(TRANSFORM ARGN REPLACE "(.+)" "${codecs}/${folder}/\\1.c" OUTPUT_VARIABLE sources)
  add_library(ferry_codec_${name} OBJECT ${sources})
  target_include_directories(ferry_codec_${name} PRIVATE ${settings} ${codecs}/${folder} ${codecs}/libjpeg-turbo)
  target_compile_options(ferry_codec_${name} PRIVATE -Oz -w -DNDEBUG -ffunction-sections -fdata-sections)
  set(objects_codecs ${objects_codecs} $<TARGET_OBJECTS:ferry_codec_${name}> PARENT_SCOPE)
endfunction()
add_codec(jpeg libjpeg-turbo jaricom jcomapi jdapimin jdapistd jdarith jdatasrc jdcoefct jdcolor jddctmgr jdhuff jdinput jdmainct
  jdmarker jdmaster jdmerge jdphuff jdpostct jdsample jerror jidctflt jidctfst jidctint jidctred jmemmgr jmemnobs jquant1 jquant2
  jsimd_none jutils)
add_codec(png libpng1.6 png pngerror pngget pngmem pngread pngrio pngrtran pngrutil pngset pngtrans)
add_codec(webp libwebp src/dec/alpha_dec src/dec/buffer_dec src/dec/frame_dec src/dec/idec_dec src/dec/io_dec src/dec/quant_dec
  src/dec/tree_dec src/dec/vp8_dec src/dec/vp8l_dec src/dec/webp_dec src/demux/anim_decode src/demux/demux
  src/dsp/alpha_processing src/dsp/cpu src/dsp/dec src/dsp/dec_clip_tables src/dsp/filters src/dsp/lossless src/dsp/rescaler
  src/dsp/upsampling src/dsp/yuv src/utils/bit_reader_utils src/utils/color_cache_utils src/utils/filters_utils
  src/utils/huffman_utils src/utils/quant_levels_dec_utils src/utils/random_utils src/utils/rescaler_utils
  src/utils/thread_utils src/utils/utils)
add_codec(jpeg2000 openjpeg2/src/lib/openjp2 bio cio dwt event function_list ht_dec image invert j2k jp2 mct mqc openjpeg
  opj_clock opj_malloc pi sparse_array t1 t2 tcd tgt thread)
add_codec(tiff tiff/libtiff tif_aux tif_close tif_codec tif_color tif_compress tif_dir tif_dirinfo tif_dirread tif_dirwrite
  tif_dumpmode tif_error tif_extension tif_fax3 tif_fax3sm tif_flush tif_getimage tif_hash_set tif_jpeg tif_lzw tif_open
  tif_packbits tif_predict tif_print tif_read tif_strip tif_swab tif_tile tif_unix
  tif_version tif_warning tif_write tif_zip)

set(image ${PROJECT_SOURCE_DIR}/src/image)
add_room_library(ferry_web_codecs size ${image}/codecs.cc ${image}/jpeg.cc ${image}/jpeg2000.cc ${image}/png.cc ${image}/tiff.cc
  ${image}/webp.cc ${web}/src/no_jpeg_writer.cc)
target_include_directories(ferry_web_codecs SYSTEM PRIVATE ${settings} ${codecs}/libjpeg-turbo ${codecs}/libpng1.6
  ${codecs}/libwebp/src ${codecs}/openjpeg2/src/lib/openjp2 ${codecs}/tiff/libtiff)
list(APPEND objects_codecs $<TARGET_OBJECTS:ferry_web_codecs>)
