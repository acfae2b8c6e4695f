#include "providers/cuda/kernels_index.h"

#include <algorithm>

#include "providers/cuda/chain.h"
#include "providers/cuda/kernels.h"

namespace ferry::cuda {
namespace {

constexpr size_t kMostAxes = 8;

const char* BitsOf(DType type) {
  const int bits = BitWidth(type);
  return bits == 8 ? "uint8" : bits == 16 ? "uint16" : bits == 32 ? "uint32" : "uint64";
}

// A warp or a block of threads walks along a line; what came before is carried from one stretch to the next.
constexpr char kCumulateSource[] = R"(
extern "C" __global__ void Cumulate(const ELEMENT* x, ELEMENT* y, int64 lines, int64 count, int64 inner, int exclusive,
                                    int reverse) {
  __shared__ RUNNING parts[32];
  const int teams = blockDim.x / TEAM, member = threadIdx.x % TEAM, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int64 first = int64(blockIdx.x) * teams; first < lines; first += int64(gridDim.x) * teams) {
    const int64 line = first + threadIdx.x / TEAM;
    const int64 base = line / inner * count * inner + line % inner;
    RUNNING carried = NEUTRAL;
    for (int64 begin = 0; begin < count; begin += TEAM) {
      const int64 step = begin + member, at = base + (reverse ? count - 1 - step : step) * inner;
      const bool inside = line < lines && step < count;
      RUNNING upto = inside ? RUNNING(Load(x[at])) : RUNNING(NEUTRAL);
      for (int d = 1; d < 32; d *= 2) {
        const RUNNING other = __shfl_up_sync(FULL_WARP, upto, d);
        if (lane >= d) upto = other JOIN upto;
      }
      RUNNING before = __shfl_up_sync(FULL_WARP, upto, 1);
      if (lane == 0) before = NEUTRAL;
      RUNNING whole = __shfl_sync(FULL_WARP, upto, 31), ahead = carried;
      if (TEAM > 32) {
        __syncthreads();
        if (lane == 31) parts[warp] = upto;
        __syncthreads();
        whole = NEUTRAL;
        for (int w = 0; w < TEAM / 32; ++w) {
          if (w == warp) ahead = carried JOIN whole;
          whole = whole JOIN parts[w];
        }
      }
      if (inside) y[at] = Stored<ELEMENT>::From(COMPUTE(ahead JOIN (exclusive ? before : upto)));
      carried = carried JOIN whole;
    }
  }
}
)";

KernelSource CumulateSource(DType type, bool product, int team) {
  return {"Cumulate",
          Cat("#define TEAM ", team, "\n#define ELEMENT ", TypeName(type), "\n#define COMPUTE ", ComputeTypeName(type),
              "\n#define RUNNING ", IsFloating(type) ? "double" : "uint64", "\n#define JOIN ", product ? "*" : "+",
              "\n#define NEUTRAL ", product ? 1 : 0, kCumulateSource)};
}

constexpr char kBestSource[] = R"(
__device__ inline bool Wins(COMPUTE a, int64 i, COMPUTE b, int64 j) {
  if (j < 0) return i >= 0;
  if (i < 0) return false;
  const bool a_none = a != a, b_none = b != b;
  if (a_none != b_none) return a_none;
  if (!a_none && a != b) return IS_LARGEST ? a > b : a < b;
  return TAKES_LAST ? i > j : i < j;
}
extern "C" __global__ void FindBest(const ELEMENT* x, int64* places, int64 lines, int64 count, int64 inner) {
  __shared__ COMPUTE values[32];
  __shared__ int64 indices[32];
  const int teams = blockDim.x / TEAM, member = threadIdx.x % TEAM, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int64 first = int64(blockIdx.x) * teams; first < lines; first += int64(gridDim.x) * teams) {
    const int64 line = first + threadIdx.x / TEAM;
    const ELEMENT* from = x + line / inner * count * inner + line % inner;
    COMPUTE best = COMPUTE(0);
    int64 place = -1;
    for (int64 i = member; line < lines && i < count; i += TEAM) {
      const COMPUTE value = COMPUTE(Load(from[i * inner]));
      if (Wins(value, i, best, place)) best = value, place = i;
    }
    for (int d = 16; d > 0; d /= 2) {
      const COMPUTE value = __shfl_xor_sync(FULL_WARP, best, d);
      const int64 index = __shfl_xor_sync(FULL_WARP, place, d);
      if (Wins(value, index, best, place)) best = value, place = index;
    }
    if (TEAM > 32) {
      __syncthreads();
      if (lane == 0) values[warp] = best, indices[warp] = place;
      __syncthreads();
      for (int w = 0; w < TEAM / 32; ++w)
        if (Wins(values[w], indices[w], best, place)) best = values[w], place = indices[w];
    }
    if (line < lines && member == 0) places[line] = place;
  }
}
)";

// __shfl knows numbers of 32 and 64 bits.
const char* ShuffledType(DType type) {
  if (IsFloating(type)) return ComputeTypeName(type);
  if (BitWidth(type) == 64) return IsSignedInteger(type) ? "int64" : "uint64";
  return IsSignedInteger(type) ? "int32" : "uint32";
}

KernelSource BestSource(DType type, const BestElement& how, int team) {
  return {"FindBest",
          Cat("#define TEAM ", team, "\n#define ELEMENT ", TypeName(type), "\n#define COMPUTE ", ShuffledType(type),
              "\n#define IS_LARGEST ", how.is_largest, "\n#define TAKES_LAST ", how.takes_last, kBestSource)};
}

// Numbers whose order as unsigned integers is that of the elements, the best one the smallest. A digit of 8 bits after
// the other narrows down which number is the last to be taken; those before it, and as many of its equals as there is
// room for, are then sorted.
constexpr char kTopSource[] = R"(
struct Entry { KEY key; int64 place; };
__device__ inline bool IsBefore(const Entry& a, const Entry& b) {
  return a.key != b.key ? a.key < b.key : a.place < b.place;
}
__device__ inline KEY KeyOf(ELEMENT element) {
  KEY bits;
  if (IS_FLOAT) {
    const COMPUTE value = COMPUTE(Load(element));
    BITS raw = *reinterpret_cast<const BITS*>(&element);
    if (value == COMPUTE(0)) raw = 0;
    const BITS top = BITS(BITS(1) << (WIDTH - 1));
    bits = value != value ? KEY(BITS(~BITS(0))) : KEY(BITS(raw & top ? ~raw : raw | top));
  } else {
    const BITS raw = *reinterpret_cast<const BITS*>(&element);
    bits = KEY(BITS(IS_SIGNED ? raw ^ BITS(BITS(1) << (WIDTH - 1)) : raw));
  }
  return IS_LARGEST ? KEY(BITS(~bits)) : bits;
}
extern "C" __global__ void FindTop(const ELEMENT* x, ELEMENT* values, int64* places, Entry* kept, int64 lines,
                                   int64 count, int64 inner, int64 wanted, int64 room) {
  __shared__ int counts[256];
  __shared__ KEY chosen;
  __shared__ int64 left;
  __shared__ unsigned long long taken;
  __shared__ int flags[33];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  Entry* mine = kept + int64(blockIdx.x) * room;
  for (int64 line = blockIdx.x; line < lines; line += gridDim.x) {
    const ELEMENT* from = x + line / inner * count * inner + line % inner;
    __syncthreads();
    if (threadIdx.x == 0) chosen = 0, left = wanted, taken = 0;
    for (int shift = WIDTH - 8; shift >= 0; shift -= 8) {
      __syncthreads();
      for (int i = threadIdx.x; i < 256; i += blockDim.x) counts[i] = 0;
      __syncthreads();
      const KEY prefix = chosen;
      const bool any = shift == WIDTH - 8;
      for (int64 i = threadIdx.x; i < count; i += blockDim.x) {
        const KEY key = KeyOf(from[i * inner]);
        if (any || (key >> (shift + 8)) == (prefix >> (shift + 8))) atomicAdd(&counts[(key >> shift) & 255], 1);
      }
      __syncthreads();
      if (threadIdx.x == 0) {
        int digit = 0;
        int64 rest = left;
        while (digit < 255 && counts[digit] < rest) rest -= counts[digit++];
        left = rest;
        chosen = prefix | KEY(KEY(digit) << shift);
      }
    }
    __syncthreads();
    const KEY last = chosen;
    const int64 equals = left;
    int64 seen = 0;
    for (int64 begin = 0; begin < count; begin += blockDim.x) {
      const int64 i = begin + threadIdx.x;
      const KEY key = i < count ? KeyOf(from[i * inner]) : KEY(0);
      const bool is_before = i < count && key < last, is_equal = i < count && key == last;
      if (is_before) mine[atomicAdd(&taken, 1ull)] = Entry{key, i};
      const unsigned mask = __ballot_sync(FULL_WARP, is_equal);
      __syncthreads();
      if (lane == 0) flags[warp] = __popc(mask);
      __syncthreads();
      int ahead = 0, all = 0;
      for (int w = 0; w < blockDim.x / 32; ++w) {
        if (w < warp) ahead += flags[w];
        all += flags[w];
      }
      const int64 number = seen + ahead + __popc(mask & ((1u << lane) - 1));
      if (is_equal && number < equals) mine[wanted - equals + number] = Entry{key, i};
      seen += all;
    }
    for (int64 i = wanted + threadIdx.x; i < room; i += blockDim.x) mine[i] = Entry{KEY(~KEY(0)), 0x7fffffffffffffffll};
    for (int64 size = 2; size <= room; size *= 2)
      for (int64 step = size / 2; step > 0; step /= 2) {
        __syncthreads();
        for (int64 i = threadIdx.x; i < room; i += blockDim.x) {
          const int64 other = i ^ step;
          if (other <= i) continue;
          const Entry a = mine[i], b = mine[other];
          if (IsBefore(b, a) == ((i & size) == 0)) mine[i] = b, mine[other] = a;
        }
      }
    __syncthreads();
    const int64 to = line / inner * wanted * inner + line % inner;
    for (int64 i = threadIdx.x; i < wanted; i += blockDim.x) {
      const int64 place = mine[i].place;
      values[to + i * inner] = from[place * inner];
      places[to + i * inner] = place;
    }
  }
}
)";

KernelSource TopSource(DType type, bool largest) {
  return {"FindTop", Cat("#define ELEMENT ", TypeName(type), "\n#define COMPUTE ", ComputeTypeName(type),
                         "\n#define BITS ", BitsOf(type), "\n#define KEY ", BitWidth(type) == 64 ? "uint64" : "uint32",
                         "\n#define WIDTH ", BitWidth(type), "\n#define IS_FLOAT ", IsFloating(type),
                         "\n#define IS_SIGNED ", IsSignedInteger(type), "\n#define IS_LARGEST ", largest, kTopSource)};
}

// How an element that is scattered joins the one that is there: by comparing and swapping whole words.
constexpr char kScatterHelpers[] = R"(
__device__ inline ELEMENT Joined(ELEMENT a, ELEMENT b) { return ELEMENT(JOINED); }
__device__ inline void Put(ELEMENT* place, ELEMENT update) {
  if (IS_PLACED) {
    *place = update;
    return;
  }
  WORD* word = reinterpret_cast<WORD*>(place);
  WORD there = *word, seen;
  do {
    seen = there;
    const ELEMENT joined = Joined(*reinterpret_cast<const ELEMENT*>(&seen), update);
    there = atomicCAS(word, seen, *reinterpret_cast<const WORD*>(&joined));
  } while (there != seen);
}
)";

constexpr char kElementsSource[] = R"(
struct Elements { int64 total; int32 rank, axis; int64 size; int64 dims[8], strides[8]; };
__device__ inline int64 PlaceOf(int64 i, int64 index, const Elements& how, int* fault) {
  if (index < 0) index += how.size;
  if (index < 0 || index >= how.size) {
    *fault = 1;
    index = 0;
  }
  int64 place = 0;
  for (int axis = how.rank - 1; axis >= 0; --axis) {
    place += (axis == how.axis ? index : i % how.dims[axis]) * how.strides[axis];
    i /= how.dims[axis];
  }
  return place;
}
extern "C" __global__ void MoveElements(ELEMENT* x, const INDEX* indices, ELEMENT* y, const Elements how, int* fault) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < how.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 place = PlaceOf(i, indices[i], how, fault);
    if (IS_GATHER)
      y[i] = x[place];
    else
      Put(x + place, y[i]);
  }
}
)";

struct Elements {
  int64_t total;
  int32_t rank, axis;
  int64_t size;
  int64_t dims[kMostAxes], strides[kMostAxes];
};

// `run` elements begin where a tuple of `length` indices says.
constexpr char kPartsSource[] = R"(
struct Parts { int64 total, run, each, batch; int32 length, unused; int64 dims[8], strides[8]; };
extern "C" __global__ void MoveParts(ELEMENT* x, const INDEX* indices, ELEMENT* y, const Parts how, int* fault) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < how.total; i += int64(gridDim.x) * blockDim.x) {
    const int64 tuple = i / how.run;
    int64 place = tuple / how.each * how.batch + i % how.run;
    for (int k = 0; k < how.length; ++k) {
      int64 index = indices[tuple * how.length + k];
      if (index < 0) index += how.dims[k];
      if (index < 0 || index >= how.dims[k]) {
        *fault = 1;
        index = 0;
      }
      place += index * how.strides[k];
    }
    if (IS_GATHER)
      y[i] = x[place];
    else
      Put(x + place, y[i]);
  }
}
)";

struct Parts {
  int64_t total, run, each, batch;
  int32_t length, unused = 0;
  int64_t dims[kMostAxes], strides[kMostAxes];
};

std::string ScatterText(bool is_gather, Scatter how, DType type, DType index) {
  constexpr const char* kJoined[] = {"b", "a + b", "a * b", "a > b || a != a ? a : b", "a < b || a != a ? a : b"};
  const bool is_placed = how == Scatter::kPlace;
  return Cat("#define ELEMENT ", is_placed ? BitsOf(type) : TypeName(type), "\n#define WORD ",
             BitWidth(type) == 64 ? "unsigned long long" : "unsigned int", "\n#define INDEX ", TypeName(index),
             "\n#define IS_GATHER ", is_gather, "\n#define IS_PLACED ", is_placed, "\n#define JOINED ",
             kJoined[static_cast<size_t>(how)], kScatterHelpers);
}

KernelSource ElementsSource(bool is_gather, Scatter how, DType type, DType index) {
  return {"MoveElements", ScatterText(is_gather, how, type, index) + kElementsSource};
}

KernelSource PartsSource(bool is_gather, Scatter how, DType type, DType index) {
  return {"MoveParts", ScatterText(is_gather, how, type, index) + kPartsSource};
}

// Types that are only moved share a kernel with others of their width.
std::string KeyOf(const char* what, bool is_gather, Scatter how, DType type, DType index) {
  return Cat(what, " ", is_gather, static_cast<int>(how), " ",
             how == Scatter::kPlace ? std::string(BitsOf(type)) : ToText(type), " ", index);
}

void MoveOneByOne(const Device& device, bool is_gather, Scatter how, size_t axis, const Tensor& x,
                  const Tensor& indices, const Tensor& y) {
  if (indices.size() == 0) return;
  Elements elements{indices.size(), static_cast<int32_t>(x.rank()), static_cast<int32_t>(axis), x.dim(axis), {}, {}};
  std::copy_n(indices.shape().begin(), indices.rank(), elements.dims);
  const std::vector<int64_t> strides = x.shape().Strides();
  std::copy(strides.begin(), strides.end(), elements.strides);
  const Function function = FindKernel(device, KeyOf("elements", is_gather, how, x.dtype(), indices.dtype()),
                                       [&] { return ElementsSource(is_gather, how, x.dtype(), indices.dtype()); });
  Launch(device, function, GridFor(device, elements.total), x.address(), indices.address(), y.address(), elements,
         device.fault());
}

void MoveParts(const Device& device, bool is_gather, Scatter how, size_t batch_axes, const Tensor& x,
               const Tensor& indices, const Tensor& y) {
  if (y.size() == 0) return;
  const auto length = static_cast<size_t>(indices.shape().back());
  const std::vector<int64_t> strides = x.shape().Strides();
  Parts parts{.total = y.size(),
              .run = x.shape().CountBetween(batch_axes + length, x.rank()),
              .each = std::max<int64_t>(1, indices.shape().CountBetween(batch_axes, indices.rank() - 1)),
              .batch = x.shape().CountBetween(batch_axes, x.rank()),
              .length = static_cast<int32_t>(length)};
  for (size_t i = 0; i < length; ++i) parts.dims[i] = x.dim(batch_axes + i), parts.strides[i] = strides[batch_axes + i];
  const Function function = FindKernel(device, KeyOf("parts", is_gather, how, x.dtype(), indices.dtype()),
                                       [&] { return PartsSource(is_gather, how, x.dtype(), indices.dtype()); });
  Launch(device, function, GridFor(device, parts.total), x.address(), indices.address(), y.address(), parts,
         device.fault());
}

// A warp for each line where there are many or they are short, else a block.
int TeamOf(const Device& device, const LineShape& line) {
  return line.count > 1024 && line.lines() < int64_t{device.facts().multiprocessors} * 16 ? 1024 : 32;
}

Grid GridOfTeams(const Device& device, const LineShape& line, int team) {
  return GridFor(device, line.lines() * team, team > 32 ? static_cast<unsigned>(team) : 256);
}

}  // namespace

bool CanCumulate(DType type) {
  return type == DType::kInt32 || type == DType::kInt64 || type == DType::kUInt32 || type == DType::kUInt64 ||
         type == DType::kFloat || type == DType::kDouble || type == DType::kFloat16 || type == DType::kBFloat16;
}

void Cumulate(const Device& device, const Running& how, const LineShape& line, const Tensor& x, Tensor& y) {
  if (x.size() == 0) return;
  const int team = TeamOf(device, line);
  const Function function = FindKernel(device, Cat("cumulate ", x.dtype(), how.is_product, team),
                                       [&] { return CumulateSource(x.dtype(), how.is_product, team); });
  Launch(device, function, GridOfTeams(device, line, team), x.address(), y.address(), line.lines(), line.count,
         line.inner, int{how.exclusive}, int{how.reverse});
}

void FindBest(const Device& device, const BestElement& how, const LineShape& line, const Tensor& x, Tensor& places) {
  if (places.size() == 0) return;
  const int team = TeamOf(device, line);
  const Function function = FindKernel(device, Cat("best ", x.dtype(), how.is_largest, how.takes_last, team),
                                       [&] { return BestSource(x.dtype(), how, team); });
  Launch(device, function, GridOfTeams(device, line, team), x.address(), places.address(), line.lines(), line.count,
         line.inner);
}

bool CanOrder(DType type) { return TypeName(type) && type != DType::kBool; }

void FindTop(const Device& device, bool largest, int64_t count, const LineShape& line, const Tensor& x, Tensor& values,
             Tensor& places) {
  if (values.size() == 0) return;
  int64_t room = 1;
  while (room < count) room *= 2;
  const unsigned threads = line.count > 256 || room > 256 ? 1024 : 256;
  const auto blocks = static_cast<unsigned>(
      std::min<int64_t>(line.lines(), int64_t{device.facts().multiprocessors} * (2048 / threads)));
  constexpr int64_t kEntryBytes = 16;
  Tensor kept(DType::kUInt8, {blocks * room * kEntryBytes}, device.memory());
  const Function function =
      FindKernel(device, Cat("top ", x.dtype(), largest), [&] { return TopSource(x.dtype(), largest); });
  Launch(device, function, Grid{blocks, threads}, x.address(), values.address(), places.address(), kept.address(),
         line.lines(), line.count, line.inner, count, room);
}

std::optional<Scatter> ScatterNamed(const std::string& reduction) {
  constexpr std::pair<const char*, Scatter> kNames[] = {{"none", Scatter::kPlace},
                                                        {"add", Scatter::kAdd},
                                                        {"mul", Scatter::kMultiply},
                                                        {"max", Scatter::kLargest},
                                                        {"min", Scatter::kSmallest}};
  for (const auto& [name, how] : kNames)
    if (reduction == name) return how;
  return std::nullopt;
}

bool CanScatter(Scatter how, DType type) {
  if (how == Scatter::kPlace) return CanCopy(type);
  return type == DType::kFloat || type == DType::kDouble || type == DType::kInt32 || type == DType::kInt64 ||
         type == DType::kUInt32 || type == DType::kUInt64;
}

void GatherElements(const Device& device, const Tensor& x, size_t axis, const Tensor& indices, Tensor& y) {
  MoveOneByOne(device, true, Scatter::kPlace, axis, x, indices, y);
}

void ScatterElements(const Device& device, Scatter how, size_t axis, const Tensor& indices, const Tensor& updates,
                     Tensor& y) {
  MoveOneByOne(device, false, how, axis, y, indices, updates);
}

void GatherParts(const Device& device, const Tensor& x, size_t batch_axes, const Tensor& indices, Tensor& y) {
  MoveParts(device, true, Scatter::kPlace, batch_axes, x, indices, y);
}

void ScatterParts(const Device& device, Scatter how, const Tensor& indices, const Tensor& updates, Tensor& y) {
  MoveParts(device, false, how, 0, y, indices, updates);
}

std::vector<KernelSource> IndexSources() {
  std::vector<KernelSource> all;
  for (DType type : {DType::kFloat, DType::kFloat16, DType::kInt64}) {
    all.push_back(CumulateSource(type, type == DType::kFloat16, type == DType::kFloat ? 1024 : 32));
    all.push_back(BestSource(type, {type != DType::kInt64, type == DType::kFloat}, type == DType::kFloat ? 1024 : 32));
    all.push_back(TopSource(type, type != DType::kInt64));
  }
  all.push_back(BestSource(DType::kInt8, {}, 32));
  all.push_back(TopSource(DType::kUInt8, true));
  for (Scatter how : {Scatter::kPlace, Scatter::kAdd, Scatter::kMultiply, Scatter::kLargest, Scatter::kSmallest}) {
    all.push_back(ElementsSource(false, how, DType::kFloat, DType::kInt64));
    all.push_back(PartsSource(false, how, DType::kInt64, DType::kInt32));
  }
  all.push_back(ElementsSource(true, Scatter::kPlace, DType::kFloat16, DType::kInt64));
  all.push_back(PartsSource(true, Scatter::kPlace, DType::kDouble, DType::kInt64));
  return all;
}

}  // namespace ferry::cuda
