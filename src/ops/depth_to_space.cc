#include "ops/operator.h"
#include "ops/support/infer.h"
#include "ops/support/movement.h"

namespace ferry {
namespace {

int64_t BlockSize(const Node& node) {
  int64_t block = node.Int("blocksize", 0);
  Require(block > 0 && block <= INT32_MAX, "blocksize ", block, " is not a positive number");
  return block;
}

bool IsDepthFirst(const Node& node) {
  std::string mode = node.String("mode", "DCR");
  Require(mode == "DCR" || mode == "CRD", "mode '", Printable(mode), "' is neither DCR nor CRD");
  return mode == "DCR";
}

// The two sides of the rearrangement: `deep` is [N, depth·block², h, w], `wide` is [N, depth, h·block, w·block].
// Both are walked over [N, depth, h, block row, w, block column].
struct BlockLayout {
  int64_t batch, depth, height, width, block;
  bool depth_first;

  std::vector<int64_t> Sizes() const { return {batch, depth, height, block, width, block}; }
  std::vector<int64_t> DeepStrides() const {
    int64_t plane = height * width, blocks = block * block;
    int64_t column = depth_first ? depth * plane : plane;
    return {depth * blocks * plane, depth_first ? plane : blocks * plane, width, column * block, 1, column};
  }
  std::vector<int64_t> WideStrides() const {
    int64_t row = width * block;
    return {depth * height * block * row, height * block * row, block * row, row, block, 1};
  }
};

void ComputeDepthToSpace(OpContext& context) {
  const Tensor& x = context.Input(0);
  int64_t block = BlockSize(context.node());
  Require(x.rank() == 4, "the input must have four axes, has shape ", x.shape());
  Require(x.dim(1) % (block * block) == 0, "depth ", x.dim(1), " does not divide into blocks of ", block, "×", block);
  BlockLayout layout{x.dim(0), x.dim(1) / (block * block), x.dim(2), x.dim(3), block, IsDepthFirst(context.node())};
  Shape shape{layout.batch, layout.depth, CheckedProduct(layout.height, block), CheckedProduct(layout.width, block)};
  Tensor from = Movable(x);
  WriteMoved(context, 0, x.dtype(), shape, [&](Tensor& out) {
    CopyStrided(context, from, 0, out, 0, BoxAxes(layout.Sizes(), layout.DeepStrides(), layout.WideStrides()));
  });
}

void ComputeSpaceToDepth(OpContext& context) {
  const Tensor& x = context.Input(0);
  int64_t block = BlockSize(context.node());
  Require(x.rank() == 4, "the input must have four axes, has shape ", x.shape());
  Require(x.dim(2) % block == 0 && x.dim(3) % block == 0, "shape ", x.shape(), " does not divide into blocks of ",
          block, "×", block);
  BlockLayout layout{x.dim(0), x.dim(1), x.dim(2) / block, x.dim(3) / block, block, IsDepthFirst(context.node())};
  Shape shape{layout.batch, CheckedProduct(layout.depth, block * block), layout.height, layout.width};
  Tensor from = Movable(x);
  WriteMoved(context, 0, x.dtype(), shape, [&](Tensor& out) {
    CopyStrided(context, from, 0, out, 0, BoxAxes(layout.Sizes(), layout.WideStrides(), layout.DeepStrides()));
  });
}

void InferDepthToSpace(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  DType dtype = context.InputDType(0);
  if (!x) return context.SetOutput(0, dtype, UnknownShape(4));
  Require(x->size() == 4, "the input must have four axes, has shape ", *x);
  Dim block(BlockSize(context.node()));
  context.SetOutput(0, dtype, {(*x)[0], FloorDivide((*x)[1], block * block), (*x)[2] * block, (*x)[3] * block});
}

void InferSpaceToDepth(InferContext& context) {
  const SymbolicShape* x = context.InputShape(0);
  DType dtype = context.InputDType(0);
  if (!x) return context.SetOutput(0, dtype, UnknownShape(4));
  Require(x->size() == 4, "the input must have four axes, has shape ", *x);
  Dim block(BlockSize(context.node()));
  context.SetOutput(0, dtype,
                    {(*x)[0], (*x)[1] * (block * block), FloorDivide((*x)[2], block), FloorDivide((*x)[3], block)});
}

}  // namespace

FERRY_OPERATOR(DepthToSpace, {.compute = ComputeDepthToSpace, .infer = InferDepthToSpace, .moves_elements = true});
FERRY_OPERATOR(SpaceToDepth, {.compute = ComputeSpaceToDepth, .infer = InferSpaceToDepth, .moves_elements = true});

}  // namespace ferry
