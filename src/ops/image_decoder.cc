#include <algorithm>

#include "image/image.h"
#include "ops/operator.h"

namespace ferry {
namespace {

enum class PixelFormat { kRgb, kBgr, kGrayscale };

PixelFormat ReadFormat(const Node& node) {
  std::string name = node.String("pixel_format", "RGB");
  if (name == "RGB") return PixelFormat::kRgb;
  if (name == "BGR") return PixelFormat::kBgr;
  if (name == "Grayscale") return PixelFormat::kGrayscale;
  Fail(ErrorCode::kInvalidModel, "attribute 'pixel_format' must be RGB, BGR or Grayscale, is '", Printable(name), "'");
}

void ComputeImageDecoder(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() == 1, "the encoded stream must have one dimension, is of shape ", x.shape());
  PixelFormat format = ReadFormat(context.node());
  std::optional<Image> decoded = DecodeImage(x.Span<uint8_t>());
  int64_t channels = format == PixelFormat::kGrayscale ? 1 : 3;
  // The standard's answer to a stream that cannot be decoded is an image without pixels.
  Image image = decoded ? std::move(*decoded) : Image{0, 0, static_cast<int>(channels), {}};
  image = format == PixelFormat::kGrayscale ? ToGray(image) : ToColor(std::move(image));
  if (format == PixelFormat::kBgr)
    for (size_t i = 0; i < image.pixels.size(); i += 3) std::swap(image.pixels[i], image.pixels[i + 2]);
  Tensor& y = context.Output(0, DType::kUInt8, {image.height, image.width, channels});
  std::copy(image.pixels.begin(), image.pixels.end(), y.MutableData<uint8_t>());
}

void InferImageDecoder(InferContext& context) {
  int64_t channels = ReadFormat(context.node()) == PixelFormat::kGrayscale ? 1 : 3;
  context.SetOutput(0, DType::kUInt8, {Dim(), Dim(), channels});
}

}  // namespace

FERRY_OPERATOR(ImageDecoder, {.compute = ComputeImageDecoder, .infer = InferImageDecoder});

}  // namespace ferry
