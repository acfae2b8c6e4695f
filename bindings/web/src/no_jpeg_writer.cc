// libtiff names what writes JPEG beside what reads it. Nothing here writes: whoever asked would get the library's
// error.
#include <cstdio>
// jpeglib.h needs FILE declared before it.
#include <jpeglib.h>

namespace {
void Refuse(j_compress_ptr info) { info->err->error_exit(reinterpret_cast<j_common_ptr>(info)); }
}  // namespace

extern "C" {
void jpeg_CreateCompress(j_compress_ptr info, int, size_t) { Refuse(info); }
void jpeg_set_defaults(j_compress_ptr info) { Refuse(info); }
void jpeg_set_colorspace(j_compress_ptr info, J_COLOR_SPACE) { Refuse(info); }
void jpeg_set_quality(j_compress_ptr info, int, boolean) { Refuse(info); }
void jpeg_suppress_tables(j_compress_ptr info, boolean) { Refuse(info); }
void jpeg_start_compress(j_compress_ptr info, boolean) { Refuse(info); }
JDIMENSION jpeg_write_scanlines(j_compress_ptr info, JSAMPARRAY, JDIMENSION) { return Refuse(info), 0; }
JDIMENSION jpeg_write_raw_data(j_compress_ptr info, JSAMPIMAGE, JDIMENSION) { return Refuse(info), 0; }
void jpeg_write_tables(j_compress_ptr info) { Refuse(info); }
void jpeg_finish_compress(j_compress_ptr info) { Refuse(info); }
}
