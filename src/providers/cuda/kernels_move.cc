#include <algorithm>

#include "providers/cuda/chain.h"
#include "providers/cuda/kernels.h"

namespace ferry::cuda {
namespace {

constexpr size_t kMostAxes = 8;

struct Places {
  int64_t count;
  int32_t rank;
  int32_t unused = 0;
  int64_t dims[kMostAxes], from[kMostAxes], to[kMostAxes];
};

constexpr char kCopySource[] = R"(
struct Places { int64 count; int32 rank, unused; int64 dims[8], from[8], to[8]; };
extern "C" __global__ void CopyWalk(const ELEMENT* from, ELEMENT* to, const Places places) {
  for (INDEX i = INDEX(blockIdx.x) * blockDim.x + threadIdx.x; i < INDEX(places.count); i += INDEX(gridDim.x) * blockDim.x) {
    INDEX rest = i;
    int64 a = 0, b = 0;
#pragma unroll
    for (int axis = RANK - 1; axis > 0; --axis) {
      const INDEX at = rest % INDEX(places.dims[axis]);
      rest /= INDEX(places.dims[axis]);
      a += at * places.from[axis];
      b += at * places.to[axis];
    }
    to[b + rest * places.to[0]] = from[a + rest * places.from[0]];
  }
}
)";

// Planes are turned through a tile in shared memory, so that both sides are walked in order.
constexpr char kTurnSource[] = R"(
struct Places { int64 count; int32 rank, unused; int64 dims[8], from[8], to[8]; };
extern "C" __global__ void TurnPlanes(const ELEMENT* from, ELEMENT* to, const Places places) {
  __shared__ ELEMENT tile[32][33];
  const int64 rows = places.dims[1], columns = places.dims[2];
  const int64 across = (columns + 31) / 32, down = (rows + 31) / 32;
  for (int64 block = blockIdx.x; block < places.count; block += gridDim.x) {
    const int64 plane = block / (across * down), r = block / across % down * 32, c = block % across * 32;
    const ELEMENT* source = from + plane * places.from[0];
    ELEMENT* target = to + plane * places.to[0];
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    __syncthreads();
    for (int k = y; k < 32; k += 8)
      if (r + x < rows && c + k < columns) tile[k][x] = source[r + x + (c + k) * places.from[2]];
    __syncthreads();
    for (int k = y; k < 32; k += 8)
      if (r + k < rows && c + x < columns) target[(r + k) * places.to[1] + c + x] = tile[x][k];
  }
}
)";

const char* ElementOf(size_t bytes) {
  return bytes == 1 ? "uint8" : bytes == 2 ? "uint16" : bytes == 4 ? "uint32" : bytes == 8 ? "uint64" : "uint4";
}

// Drops axes of one element and joins neighbours that both sides walk through as if they were one.
void Simplify(Walk& walk) {
  Walk simple{.from_offset = walk.from_offset, .to_offset = walk.to_offset};
  for (size_t i = 0; i < walk.dims.size(); ++i) {
    if (walk.dims[i] == 1) continue;
    if (!simple.dims.empty() && simple.from.back() == walk.from[i] * walk.dims[i] &&
        simple.to.back() == walk.to[i] * walk.dims[i]) {
      simple.dims.back() *= walk.dims[i];
      simple.from.back() = walk.from[i];
      simple.to.back() = walk.to[i];
      continue;
    }
    simple.dims.push_back(walk.dims[i]);
    simple.from.push_back(walk.from[i]);
    simple.to.push_back(walk.to[i]);
  }
  if (simple.dims.empty()) simple.dims = {1}, simple.from = {1}, simple.to = {1};
  walk = std::move(simple);
}

// Takes neighbouring elements together where everything is a multiple.
void Widen(Walk& walk, size_t& bytes, const std::byte* from, const std::byte* to) {
  auto even = [](const std::vector<int64_t>& values, size_t count) {
    return std::all_of(values.begin(), values.begin() + static_cast<long>(count), [](int64_t v) { return v % 2 == 0; });
  };
  const size_t last = walk.dims.size() - 1;
  while (bytes < 16 && walk.from[last] == 1 && walk.to[last] == 1 && walk.dims[last] % 2 == 0 &&
         even(walk.from, last) && even(walk.to, last) && walk.from_offset % 2 == 0 && walk.to_offset % 2 == 0 &&
         reinterpret_cast<uintptr_t>(from) % (2 * bytes) == 0 && reinterpret_cast<uintptr_t>(to) % (2 * bytes) == 0) {
    bytes *= 2;
    walk.dims[last] /= 2;
    for (size_t i = 0; i < last; ++i) walk.from[i] /= 2, walk.to[i] /= 2;
    walk.from_offset /= 2;
    walk.to_offset /= 2;
  }
}

// [planes, rows, columns] whose rows are neighbours where they come from and whose columns are where they go.
bool TurnsPlanes(Walk& walk) {
  if (walk.dims.size() == 2) {
    walk.dims.insert(walk.dims.begin(), 1);
    walk.from.insert(walk.from.begin(), 0);
    walk.to.insert(walk.to.begin(), 0);
  }
  return walk.dims.size() == 3 && walk.from[1] == 1 && walk.to[2] == 1 && walk.dims[1] >= 8 && walk.dims[2] >= 8;
}

KernelSource CopySource(size_t bytes, size_t rank, bool wide) {
  return {"CopyWalk", Cat("#define ELEMENT ", ElementOf(bytes), "\n#define RANK ", rank, "\n#define INDEX ",
                          wide ? "uint64" : "uint32", kCopySource)};
}

KernelSource TurnSource(size_t bytes) { return {"TurnPlanes", Cat("#define ELEMENT ", ElementOf(bytes), kTurnSource)}; }

Places PlacesOf(const Walk& walk, int64_t count) {
  Places places{count, static_cast<int32_t>(walk.dims.size())};
  std::copy(walk.dims.begin(), walk.dims.end(), places.dims);
  std::copy(walk.from.begin(), walk.from.end(), places.from);
  std::copy(walk.to.begin(), walk.to.end(), places.to);
  return places;
}

constexpr char kGatherSource[] = R"(
extern "C" __global__ void Gather(const ELEMENT* x, const INDEX* indices, ELEMENT* y, int64 axis, int64 inner,
                                  int64 count, int64 total, int* fault) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < total; i += int64(gridDim.x) * blockDim.x) {
    const int64 at = i % inner, j = i / inner % count, outer = i / inner / count;
    int64 index = indices[j];
    if (index < 0) index += axis;
    if (index < 0 || index >= axis) {
      *fault = 1;
      index = 0;
    }
    y[i] = x[(outer * axis + index) * inner + at];
  }
}
)";

KernelSource GatherSource(size_t bytes, DType index) {
  return {"Gather", Cat("#define ELEMENT ", ElementOf(bytes), "\n#define INDEX ", TypeName(index), kGatherSource)};
}

}  // namespace

bool CanCopy(DType type) {
  const int bits = BitWidth(type);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}

void CopyWalk(const Device& device, Walk walk, size_t bytes, const std::byte* from, std::byte* to) {
  int64_t count = 1;
  for (int64_t dim : walk.dims) count *= dim;
  if (count == 0) return;
  Simplify(walk);
  Widen(walk, bytes, from, to);
  from += static_cast<size_t>(walk.from_offset) * bytes;
  to += static_cast<size_t>(walk.to_offset) * bytes;
  if (walk.dims.size() == 1 && walk.from[0] == 1 && walk.to[0] == 1)
    return device.memory().CopyInside(to, from, static_cast<size_t>(walk.dims[0]) * bytes);
  if (TurnsPlanes(walk)) {
    const int64_t tiles = walk.dims[0] * ((walk.dims[1] + 31) / 32) * ((walk.dims[2] + 31) / 32);
    Grid grid{static_cast<unsigned>(std::min<int64_t>(tiles, 1 << 20)), 256};
    return Launch(device, FindKernel(device, Cat("turn ", bytes), [&] { return TurnSource(bytes); }), grid, from, to,
                  PlacesOf(walk, tiles));
  }
  if (walk.dims.size() > kMostAxes)
    Fail(ErrorCode::kUnsupported, "elements are moved along ", walk.dims.size(), " axes; ", kMostAxes, " is the most");
  count = 1;
  for (int64_t dim : walk.dims) count *= dim;
  const size_t rank = walk.dims.size();
  const bool wide = count > INT32_MAX;
  const Function function =
      FindKernel(device, Cat("copy ", bytes, " ", rank, wide), [&] { return CopySource(bytes, rank, wide); });
  Launch(device, function, GridFor(device, count), from, to, PlacesOf(walk, count));
}

void Gather(const Device& device, const Tensor& x, size_t axis, const Tensor& indices, Tensor& y) {
  if (y.size() == 0) return;
  size_t bytes = static_cast<size_t>(BitWidth(x.dtype())) / 8;
  int64_t inner = x.shape().CountBetween(axis + 1, x.rank());
  auto aligned = [&](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.address()) % (2 * bytes) == 0; };
  int64_t total = y.size();
  while (bytes < 16 && inner % 2 == 0 && aligned(x) && aligned(y)) bytes *= 2, inner /= 2, total /= 2;
  const Function function =
      FindKernel(device, Cat("gather ", bytes, indices.dtype()), [&] { return GatherSource(bytes, indices.dtype()); });
  Launch(device, function, GridFor(device, total), x.address(), indices.address(), y.address(), x.dim(axis), inner,
         indices.size(), total, device.fault());
}

std::vector<KernelSource> MoveSources() {
  return {CopySource(1, 3, false), CopySource(2, 3, false),        CopySource(4, 8, true),
          CopySource(8, 1, false), CopySource(16, 4, false),       TurnSource(2),
          TurnSource(4),           GatherSource(4, DType::kInt64), GatherSource(16, DType::kInt32)};
}

}  // namespace ferry::cuda
