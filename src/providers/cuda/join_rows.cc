#include "providers/cuda/join_rows.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "providers/cuda/chain.h"

namespace ferry::cuda {
namespace {

constexpr size_t kMostParts = 96;  // of one launch: all are parameters

constexpr char kSource[] = R"(
typedef Pack<ELEMENT, WIDTH> Group;
struct Parts { int64 total, pitch; int32 count, columns, first; int32 begin[97]; const Group* from[96]; float low, high; };
extern "C" __global__ void JoinRows(Group* y, const Group* factor, const Group* offset, const Parts parts) {
  __shared__ int32 begin[97];
  __shared__ const Group* from[96];
  for (int i = threadIdx.x; i <= parts.count; i += blockDim.x) {
    begin[i] = parts.begin[i];
    if (i < parts.count) from[i] = parts.from[i];
  }
  __syncthreads();
  for (INDEX i = INDEX(blockIdx.x) * blockDim.x + threadIdx.x; i < INDEX(parts.total); i += INDEX(gridDim.x) * blockDim.x) {
    const INDEX row = i / parts.columns;
    const int32 column = int32(i - row * parts.columns);
    int low = 0, high = parts.count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (begin[middle] <= column) low = middle;
      else high = middle;
    }
    Group group = from[low][int64(row) * (begin[low + 1] - begin[low]) + column - begin[low]];
#if IS_SCALED
    const Group by = factor[column];
    Group more = {};
    if (HAS_OFFSET) more = offset[column];
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      float v = Load(Stored<ELEMENT>::From(Load(group.at[k]) * Load(by.at[k])));
      if (HAS_OFFSET) v = Load(Stored<ELEMENT>::From(v + Load(more.at[k])));
      group.at[k] = Stored<ELEMENT>::From(v < parts.low ? parts.low : v > parts.high ? parts.high : v);
    }
#endif
    y[row * parts.pitch + parts.first + column] = group;
  }
}
)";

struct Parts {
  int64_t total, pitch;
  int32_t count, columns, first;
  int32_t begin[kMostParts + 1];
  const std::byte* from[kMostParts];
  float low, high;
};

KernelSource JoinSource(const std::string& element, int width, bool wide, bool scaled, bool offset) {
  return {"JoinRows",
          Cat("#define ELEMENT ", element, "\n#define WIDTH ", width, "\n#define INDEX ", wide ? "uint64" : "uint32",
              "\n#define IS_SCALED ", scaled, "\n#define HAS_OFFSET ", offset, kSource)};
}

struct Work {
  std::string element;
  int width = 1;     // elements that a thread takes at once
  size_t bytes = 0;  // of such a group
  const ColumnScaling* scaling = nullptr;
};

// Parts in as many launches as parameters need.
void Join(const Device& device, std::span<const Tensor* const> parts, std::span<const int64_t> groups, int64_t rows,
          const Work& work, Tensor& y) {
  int64_t pitch = 0, first = 0;
  for (int64_t count : groups) pitch += count;
  Require(pitch <= INT32_MAX, "rows of ", pitch, " elements cannot be joined");
  for (size_t begin = 0; begin < parts.size();) {
    Parts given{};
    given.pitch = pitch;
    given.first = static_cast<int32_t>(first);
    for (; begin < parts.size() && given.count < static_cast<int32_t>(kMostParts); ++begin) {
      if (groups[begin] == 0) continue;
      const auto i = static_cast<size_t>(given.count++);
      given.from[i] = parts[begin]->address();
      given.begin[i + 1] = given.begin[i] + static_cast<int32_t>(groups[begin]);
    }
    if (given.count == 0) return;
    given.columns = given.begin[given.count];
    given.total = rows * given.columns;
    const std::byte *factor = nullptr, *offset = nullptr;
    if (const ColumnScaling* scaling = work.scaling) {
      given.low = scaling->low, given.high = scaling->high;
      const size_t skipped = static_cast<size_t>(first) * work.bytes;
      factor = scaling->factor->address() + skipped;
      if (scaling->offset) offset = scaling->offset->address() + skipped;
    }
    first += given.columns;
    const bool wide = given.total > INT32_MAX;
    const std::string key = Cat("join ", work.element, work.width, wide, factor != nullptr, offset != nullptr);
    const Function function = FindKernel(
        device, key, [&] { return JoinSource(work.element, work.width, wide, factor != nullptr, offset != nullptr); });
    Launch(device, function, GridFor(device, given.total), y.address(), factor, offset, given);
  }
}

constexpr size_t kMostMixed = 8;

constexpr char kMixedSource[] = R"(
struct Parts { int64 total; int32 count, columns; int32 begin[9]; int32 is_float[8]; const void* from[8]; };
extern "C" __global__ void JoinMixed(Pack<MADE, 4>* y, const Parts parts) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < parts.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 row = i / parts.columns;
    const int32 column = int32(i - row * parts.columns);
    Pack<MADE, 4> made;
#pragma unroll
    for (int part = 0; part < 8; ++part) {
      if (part >= parts.count || column < parts.begin[part] || column >= parts.begin[part + 1]) continue;
      const int64 place = row * (parts.begin[part + 1] - parts.begin[part]) + column - parts.begin[part];
      if (parts.is_float[part]) {
        const Pack<float, 4> group = static_cast<const Pack<float, 4>*>(parts.from[part])[place];
#pragma unroll
        for (int k = 0; k < 4; ++k) made.at[k] = Stored<MADE>::From(group.at[k]);
      } else {
        const Pack<SMALL, 4> group = static_cast<const Pack<SMALL, 4>*>(parts.from[part])[place];
#pragma unroll
        for (int k = 0; k < 4; ++k) made.at[k] = Stored<MADE>::From(Load(group.at[k]));
      }
    }
    y[i] = made;
  }
}
)";

struct MixedParts {
  int64_t total;
  int32_t count, columns;
  int32_t begin[kMostMixed + 1];
  int32_t is_float[kMostMixed];
  const std::byte* from[kMostMixed];
};

KernelSource MixedSource(DType small, DType made) {
  return {"JoinMixed", Cat("#define SMALL ", TypeName(small), "\n#define MADE ", TypeName(made), kMixedSource)};
}

int WidthOf(DType type) { return type == DType::kFloat ? 4 : 8; }

int64_t RowsOf(const Tensor& y, std::span<const int64_t> columns) {
  int64_t pitch = 0;
  for (int64_t count : columns) pitch += count;
  return pitch == 0 ? 0 : y.size() / pitch;
}

bool IsAligned(const Tensor& tensor, size_t bytes) {
  return reinterpret_cast<uintptr_t>(tensor.address()) % bytes == 0;
}

}  // namespace

void JoinRows(const Device& device, std::span<const Tensor* const> parts, std::span<const int64_t> columns, Tensor& y) {
  const int64_t rows = RowsOf(y, columns);
  if (rows == 0) return;
  size_t bytes = static_cast<size_t>(BitWidth(y.dtype())) / 8;
  std::vector<int64_t> groups(columns.begin(), columns.end());
  auto doubles = [&] {
    for (size_t i = 0; i < parts.size(); ++i)
      if (groups[i] % 2 != 0 || !IsAligned(*parts[i], 2 * bytes)) return false;
    return bytes < 16 && IsAligned(y, 2 * bytes);
  };
  while (doubles()) {
    bytes *= 2;
    for (int64_t& count : groups) count /= 2;
  }
  const char* element = bytes == 1   ? "uint8"
                        : bytes == 2 ? "uint16"
                        : bytes == 4 ? "uint32"
                        : bytes == 8 ? "uint64"
                                     : "uint4";
  Join(device, parts, groups, rows, {element, 1, bytes}, y);
}

bool CanJoinScaled(DType type, std::span<const int64_t> columns) {
  if (type != DType::kFloat && type != DType::kFloat16 && type != DType::kBFloat16) return false;
  return std::all_of(columns.begin(), columns.end(), [&](int64_t count) { return count % WidthOf(type) == 0; });
}

void JoinScaled(const Device& device, std::span<const Tensor* const> parts, std::span<const int64_t> columns,
                const ColumnScaling& scaling, Tensor& y) {
  const int64_t rows = RowsOf(y, columns);
  if (rows == 0) return;
  const int width = WidthOf(y.dtype());
  for (const Tensor* part : parts) Require(IsAligned(*part, 16), "a part does not begin at a multiple of 16 bytes");
  std::vector<int64_t> groups;
  for (int64_t count : columns) groups.push_back(count / width);
  Join(device, parts, groups, rows, {TypeName(y.dtype()), width, 16, &scaling}, y);
}

bool CanJoinMixed(std::span<const DType> parts, DType made, std::span<const int64_t> columns) {
  DType small = DType::kUndefined;
  auto fits = [&](DType type) {
    if (type == DType::kFloat) return true;
    if (type != DType::kFloat16 && type != DType::kBFloat16) return false;
    if (small == DType::kUndefined) small = type;
    return type == small;
  };
  int64_t width = 0;
  for (int64_t count : columns) {
    if (count < 0 || count % 4 != 0 || count > INT32_MAX) return false;
    width += count;
  }
  return !parts.empty() && parts.size() <= kMostMixed && width <= INT32_MAX && fits(made) &&
         std::all_of(parts.begin(), parts.end(), fits);
}

void JoinMixed(const Device& device, std::span<const Tensor* const> parts, std::span<const int64_t> columns,
               Tensor& y) {
  const int64_t rows = RowsOf(y, columns);
  if (rows == 0) return;
  MixedParts given{};
  DType small = y.dtype() == DType::kFloat ? DType::kFloat16 : y.dtype();
  for (size_t i = 0; i < parts.size(); ++i) {
    Require(IsAligned(*parts[i], 16), "a part does not begin at a multiple of 16 bytes");
    given.from[i] = parts[i]->address();
    given.is_float[i] = parts[i]->dtype() == DType::kFloat;
    if (!given.is_float[i]) small = parts[i]->dtype();
    given.begin[i + 1] = given.begin[i] + static_cast<int32_t>(columns[i] / 4);
  }
  given.count = static_cast<int32_t>(parts.size());
  given.columns = given.begin[given.count];
  given.total = rows * given.columns;
  Launch(device,
         FindKernel(device, Cat("join mixed ", small, y.dtype()), [&] { return MixedSource(small, y.dtype()); }),
         GridFor(device, given.total), y.address(), given);
}

std::vector<KernelSource> JoinSources() {
  return {MixedSource(DType::kFloat16, DType::kFloat), MixedSource(DType::kBFloat16, DType::kBFloat16),
          JoinSource("uint4", 1, false, false, false), JoinSource("uint16", 1, true, false, false),
          JoinSource("half", 8, false, true, true),    JoinSource("float", 4, false, true, false)};
}

}  // namespace ferry::cuda
