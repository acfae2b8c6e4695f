#include <complex>

#include "base/work_poll.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/widen.h"
#include "ops/support/wrapping.h"

namespace ferry {
namespace {

constexpr int64_t kLargestSize = int64_t{1} << 40;

// One spatial axis: how the blocks lie over the image.
struct BlockAxis {
  int64_t image, block, dilation, stride, pad_before, pad_after;
  int64_t steps;  // block positions along the axis
};

std::vector<int64_t> PerAxis(const Node& node, std::string_view name, size_t count, int64_t otherwise,
                             int64_t smallest) {
  std::vector<int64_t> values = node.Ints(name);
  if (!node.Has(name)) values.assign(count, otherwise);
  Require(values.size() == count, name, " has ", values.size(), " numbers, ", count, " are needed");
  for (int64_t value : values)
    Require(value >= smallest && value <= kLargestSize, name, " has ", value, ", which is out of range");
  return values;
}

std::vector<BlockAxis> ReadAxes(const OpContext& context) {
  std::vector<int64_t> image = IntegerList(context.Input(1), "image_shape"),
                       block = IntegerList(context.Input(2), "block_shape");
  size_t rank = image.size();
  Require(rank > 0 && block.size() == rank, "image_shape has ", rank, " numbers, block_shape ", block.size());
  std::vector<int64_t> dilations = PerAxis(context.node(), "dilations", rank, 1, 1);
  std::vector<int64_t> strides = PerAxis(context.node(), "strides", rank, 1, 1);
  std::vector<int64_t> pads = PerAxis(context.node(), "pads", 2 * rank, 0, 0);
  std::vector<BlockAxis> axes;
  for (size_t i = 0; i < rank; ++i) {
    Require(image[i] >= 0 && image[i] <= kLargestSize && block[i] > 0 && block[i] <= kLargestSize, "axis ", i,
            " of the image has size ", image[i], " and blocks of ", block[i]);
    BlockAxis axis{image[i], block[i], dilations[i], strides[i], pads[i], pads[rank + i], 0};
    int64_t reach = CheckedProduct(axis.dilation, axis.block - 1) + 1;
    int64_t room = axis.image + axis.pad_before + axis.pad_after - reach;
    Require(room >= 0, "blocks that reach over ", reach, " do not fit axis ", i, " of size ", axis.image);
    axis.steps = room / axis.stride + 1;
    axes.push_back(axis);
  }
  return axes;
}

// Adds the columns of one image: columns are [block positions…, steps…].
template <class T>
void AddColumns(const std::vector<BlockAxis>& axes, const T* columns, T* image) {
  size_t rank = axes.size();
  std::vector<int64_t> counter(2 * rank);  // position inside the block, then the block's step, axis by axis
  WorkPoll poll;
  for (;; ++columns) {
    poll(8);
    int64_t place = 0;
    bool inside = true;
    for (size_t a = 0; a < rank && inside; ++a) {
      int64_t at = counter[rank + a] * axes[a].stride - axes[a].pad_before + counter[a] * axes[a].dilation;
      inside = at >= 0 && at < axes[a].image;
      place = place * axes[a].image + at;
    }
    if (inside) image[place] = WrappingAdd(image[place], *columns);
    size_t c = 2 * rank;
    for (;;) {
      if (c-- == 0) return;
      int64_t size = c < rank ? axes[c].block : axes[c - rank].steps;
      if (++counter[c] < size) break;
      counter[c] = 0;
    }
  }
}

void ComputeCol2Im(OpContext& context) {
  const Tensor& x = context.Input(0);
  Require(x.rank() == 3, "the input must be [N, C·block, L], has shape ", x.shape());
  std::vector<BlockAxis> axes = ReadAxes(context);
  int64_t block = 1, steps = 1;
  for (const BlockAxis& axis : axes) {
    block = CheckedProduct(block, axis.block);
    steps = CheckedProduct(steps, axis.steps);
  }
  Require(x.dim(1) % block == 0, "dimension 1 of shape ", x.shape(), " is not a multiple of the block's ", block,
          " elements");
  Require(x.dim(2) == steps, "dimension 2 of shape ", x.shape(), " should be ", steps, ", the number of blocks");
  Shape shape{x.dim(0), x.dim(1) / block};
  for (const BlockAxis& axis : axes) shape.push_back(axis.image);
  Tensor& out = context.Output(0, x.dtype(), shape);
  Tensor from = IsSmallFloat(x.dtype()) ? WidenToFloat(x) : x;
  Tensor sums = IsSmallFloat(x.dtype()) ? Tensor(DType::kFloat, shape) : out;
  Dispatch(TypeList<float, double, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, bool,
                    std::complex<float>, std::complex<double>>{},
           from.dtype(), [&](auto tag) {
             using T = typename decltype(tag)::type;
             const T* columns = from.Data<T>();
             T* images = sums.MutableData<T>();
             std::fill_n(images, sums.size(), T{});
             if (sums.size() == 0 || from.size() == 0) return;
             int64_t image_size = sums.shape().CountBetween(2, sums.rank());
             context.ParallelFor(x.dim(0) * shape[1], 1, [&](int64_t begin, int64_t end) {
               for (int64_t i = begin; i < end; ++i)
                 AddColumns(axes, columns + i * block * steps, images + i * image_size);
             });
           });
  NarrowInto(sums, out);
}

void InferCol2Im(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  std::optional<SymbolicShape> image = ElementsOf(context, 1), block = ElementsOf(context, 2);
  DType dtype = context.InputDType(0);
  if (!image) {
    std::optional<size_t> rank = block ? std::optional(block->size()) : ListLength(context, 1);
    if (!rank) return context.SetOutput(0, dtype);
    image = UnknownShape(*rank);
  }
  Require(!x || x->size() == 3, "the input must be [N, C·block, L]");
  SymbolicShape shape = {x ? (*x)[0] : Dim(), x && block ? FloorDivide((*x)[1], CountElements(*block)) : Dim()};
  for (const Dim& dim : ShapeFromElements(*image)) shape.push_back(dim);
  context.SetOutput(0, dtype, std::move(shape));
}

}  // namespace

FERRY_OPERATOR(Col2Im, {.compute = ComputeCol2Im, .infer = InferCol2Im});

}  // namespace ferry
