#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/indices.h"
#include "ops/support/infer.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

// The centres of `count` pixels between -1 and 1.
std::vector<double> Centres(int64_t count, bool align_corners) {
  std::vector<double> centres(static_cast<size_t>(count));
  double size = static_cast<double>(count);
  for (size_t i = 0; i < centres.size(); ++i) {
    double place = static_cast<double>(i);
    if (align_corners)
      centres[i] = count == 1 ? 0.0 : -1.0 + 2.0 * place / (size - 1.0);
    else
      centres[i] = -1.0 + (2.0 * place + 1.0) / size;
  }
  return centres;
}

// theta is [n, axes, axes + 1]; the grid is [n, sizes…, axes], the last coordinate first (x, y, z).
template <class T>
void FillGrid(const T* theta, int64_t batch, const std::vector<std::vector<double>>& centres, T* grid) {
  size_t axes = centres.size();
  for (int64_t n = 0; n < batch; ++n, theta += axes * (axes + 1)) {
    std::vector<size_t> position(axes);
    for (bool more = true; more;) {
      for (size_t row = 0; row < axes; ++row) {
        const T* weights = theta + row * (axes + 1);
        double sum = static_cast<double>(weights[axes]);
        for (size_t a = 0; a < axes; ++a)
          sum += static_cast<double>(weights[a]) * centres[axes - 1 - a][position[axes - 1 - a]];
        *grid++ = static_cast<T>(sum);
      }
      size_t a = axes;
      while (a > 0 && ++position[a - 1] == centres[a - 1].size()) position[--a] = 0;
      more = a > 0;
    }
  }
}

void ComputeAffineGrid(OpContext& context) {
  const Tensor& theta = context.Input(0);
  std::vector<int64_t> size = IntegerList(context.Input(1), "size");
  Require(size.size() == 4 || size.size() == 5, "size must be [N, C, H, W] or [N, C, D, H, W], has ", size.size(),
          " numbers");
  auto axes = static_cast<int64_t>(size.size()) - 2;
  Require(theta.shape() == Shape{size[0], axes, axes + 1}, "theta has shape ", theta.shape(), ", expected ",
          Shape{size[0], axes, axes + 1});
  Shape shape{size[0]};
  for (size_t i = 2; i < size.size(); ++i) shape.push_back(size[i]);
  shape.push_back(axes);
  Tensor& out = context.Output(0, theta.dtype(), shape);
  if (out.size() == 0) return;
  bool align_corners = context.node().Int("align_corners", 0) != 0;
  std::vector<std::vector<double>> centres;
  for (size_t i = 2; i < size.size(); ++i) centres.push_back(Centres(size[i], align_corners));
  Tensor matrices = IsSmallFloat(theta.dtype()) ? WidenToFloat(theta) : theta;
  Tensor grid = IsSmallFloat(theta.dtype()) ? Tensor(DType::kFloat, shape) : out;
  Dispatch(FloatTypes{}, matrices.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    FillGrid(matrices.Data<T>(), size[0], centres, grid.MutableData<T>());
  });
  NarrowInto(grid, out);
}

void InferAffineGrid(InferContext& context) {
  DType dtype = context.InputDType(0);
  std::optional<SymbolicShape> size = ElementsOf(context, 1);
  std::optional<size_t> rank = size ? std::optional(size->size()) : ListLength(context, 1);
  if (!rank) return context.SetOutput(0, dtype);
  Require(*rank == 4 || *rank == 5, "size must be [N, C, H, W] or [N, C, D, H, W], has ", *rank, " numbers");
  SymbolicShape shape = UnknownShape(*rank);
  if (size) {
    shape[0] = (*size)[0];
    for (size_t i = 2; i < *rank; ++i) shape[i - 1] = (*size)[i];
  }
  if (const SymbolicShape* theta = context.InputShape(0); theta && theta->size() == 3 && shape[0].unknown())
    shape[0] = (*theta)[0];
  shape.back() = Dim(static_cast<int64_t>(*rank) - 2);
  context.SetOutput(0, dtype, ShapeFromElements(shape));
}

}  // namespace

FERRY_OPERATOR(AffineGrid, {.compute = ComputeAffineGrid, .infer = InferAffineGrid});

}  // namespace ferry
