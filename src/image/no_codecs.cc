#include "base/error.h"
#include "image/image.h"

namespace ferry {

std::optional<Image> DecodeBy(Codec codec, Bytes) {
  constexpr const char* kNames[] = {"JPEG", "JPEG 2000", "PNG", "TIFF", "WebP"};
  Fail(ErrorCode::kUnsupported, "this program was built without image codecs and cannot decode ",
       kNames[static_cast<size_t>(codec)], " images; `ferry` built with -DFERRY_IMAGE=ON can");
}

}  // namespace ferry
