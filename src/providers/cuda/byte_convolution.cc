#include "providers/cuda/byte_convolution.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "providers/cuda/choices.h"
#include "tensor/alignment.h"

namespace ferry::cuda {

namespace {

struct Windows {
  int64_t image_bytes;
  int32_t rows, features, channels, pixel_bytes, tap_bytes, chunks;
  int32_t height, width, made_height, made_width, kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x;
  int32_t top, left;
  uint32_t fill;
};

int64_t RoundUp(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

struct Tile {
  int rows, columns, depth, warps_m, warps_n, warps_k, stages;
  bool warpgroups = false;  // wgmma, which compute capability 9.0 has

  unsigned threads() const { return static_cast<unsigned>(32 * warps_m * warps_n * warps_k); }
  int ahead() const { return warpgroups ? stages - 2 : stages - 1; }
  // What belongs to columns, the other operand, and stages, which later hold what warps exchange.
  int column_bytes() const { return static_cast<int>(RoundUp(columns * 12, 1024)); }
  int other_bytes(bool has_other) const {
    return has_other ? static_cast<int>(RoundUp(rows * (columns + 16), 1024)) : 0;
  }
  unsigned shared_bytes(bool has_other, int chunks) const {
    const int used = std::min(stages, (chunks * 16 + depth - 1) / depth);
    const int finish = warps_k > 1 ? warps_k * rows * (columns + 4) * 4 : rows * (columns + 16);
    return static_cast<unsigned>(column_bytes() + other_bytes(has_other) +
                                 std::max((rows + columns) * depth * used, finish));
  }
};

constexpr Tile kTiles[] = {
    {128, 128, 64, 2, 2, 1, 4},        {128, 64, 64, 2, 2, 1, 4},        {64, 128, 64, 1, 4, 1, 4},
    {64, 64, 64, 2, 2, 1, 4},          {64, 64, 128, 2, 2, 2, 3},        {64, 32, 128, 2, 1, 4, 3},
    {32, 64, 128, 1, 2, 4, 3},         {32, 32, 128, 1, 1, 4, 4},        {32, 32, 256, 1, 1, 8, 3},
    {16, 64, 128, 1, 2, 4, 4},         {16, 32, 256, 1, 1, 8, 3},        {128, 128, 64, 8, 1, 1, 4, true},
    {128, 128, 128, 8, 1, 1, 4, true}, {128, 64, 64, 8, 1, 1, 4, true},  {128, 64, 128, 8, 1, 1, 4, true},
    {128, 64, 64, 4, 1, 1, 4, true},   {64, 128, 64, 4, 1, 1, 4, true},  {64, 64, 64, 4, 1, 1, 4, true},
    {64, 64, 128, 4, 1, 1, 4, true},   {128, 256, 64, 8, 1, 1, 4, true}, {256, 64, 64, 8, 1, 1, 4, true},
};
constexpr int kTileCount = static_cast<int>(std::size(kTiles));

// Fewer channels than this lie together with their neighbours along a row: a tap is then a row of the window.
constexpr int64_t kFewChannels = 4;

bool TakesRuns(const ByteWindows& windows) {
  return windows.channels <= kFewChannels && windows.axes[1].kernel > 1 && windows.axes[1].dilation == 1;
}

// How the image must be padded for the kernel to read it; nothing where it can be read as it is.
std::optional<PaddedBytes> PaddingOf(const ByteWindows& windows, uint8_t fill) {
  const WindowAxis &y = windows.axes[0], &x = windows.axes[1];
  PaddedBytes how{windows.batch, windows.channels, y.input, x.input, 0, y.input, x.input, 0, 0, windows.channels_first,
                  fill};
  if (TakesRuns(windows)) {
    how.made_channels = kFewChannels;
    how.top = y.pad_begin, how.left = x.pad_begin;
    how.made_height = std::max(y.pad_begin + y.input, (y.output - 1) * y.stride + (y.kernel - 1) * y.dilation + 1);
    // A run is read in whole chunks.
    const int64_t reach = (x.output - 1) * x.stride + RoundUp(x.kernel, 4);
    how.made_width = RoundUp(std::max(x.pad_begin + x.input, reach), 4);
    return how;
  }
  if (windows.channels % 4 == 0 && !windows.channels_first) return std::nullopt;
  how.made_channels = RoundUp(windows.channels, 16);
  return how;
}

// The windows over what PadBytes made.
Windows WindowsOf(const ByteWindows& windows, const std::optional<PaddedBytes>& padded, uint8_t fill) {
  const WindowAxis &y = windows.axes[0], &x = windows.axes[1];
  Windows how{};
  how.rows = static_cast<int32_t>(windows.batch * y.output * x.output);
  how.features = static_cast<int32_t>(windows.features);
  how.made_height = static_cast<int32_t>(y.output), how.made_width = static_cast<int32_t>(x.output);
  how.stride_y = static_cast<int32_t>(y.stride), how.stride_x = static_cast<int32_t>(x.stride);
  how.dilation_y = static_cast<int32_t>(y.dilation), how.dilation_x = static_cast<int32_t>(x.dilation);
  how.fill = fill * 0x01010101u;
  const bool runs = TakesRuns(windows);
  const int64_t pixel = padded ? padded->made_channels : windows.channels;
  const int64_t tap = runs ? RoundUp(x.kernel * pixel, 16) : RoundUp(pixel, 16);
  how.height = static_cast<int32_t>(padded ? padded->made_height : y.input);
  how.width = static_cast<int32_t>(padded ? padded->made_width : x.input);
  how.top = static_cast<int32_t>(runs ? 0 : y.pad_begin), how.left = static_cast<int32_t>(runs ? 0 : x.pad_begin);
  how.kernel_y = static_cast<int32_t>(y.kernel), how.kernel_x = static_cast<int32_t>(runs ? 1 : x.kernel);
  how.pixel_bytes = static_cast<int32_t>(pixel);
  how.channels = static_cast<int32_t>(runs ? tap : pixel);
  how.tap_bytes = static_cast<int32_t>(tap);
  how.chunks = static_cast<int32_t>(y.kernel * how.kernel_x * tap / 16);
  how.image_bytes = int64_t{how.height} * how.width * pixel;
  return how;
}

// The widest pieces that every chunk of the image can be read in.
int PieceOf(const ByteWindows& windows, const Windows& how) {
  const int64_t step = TakesRuns(windows) ? int64_t{how.stride_x} * how.pixel_bytes : how.pixel_bytes;
  return step % 16 == 0 ? 16 : step % 8 == 0 ? 8 : 4;
}

// Whether row i of the matrix is pixel i of the image, in whole chunks.
bool IsPlain(const Windows& how) {
  return how.kernel_x == 1 && how.kernel_y == 1 && how.stride_x == 1 && how.stride_y == 1 && how.top == 0 &&
         how.left == 0 && how.made_height == how.height && how.made_width == how.width && how.pixel_bytes % 16 == 0;
}

// What else is compiled into a kernel: `other` is 0 for no other operand, 1 where what the sums became is the first, 2
// the second; `plain` where rows are read as they lie.
struct Variant {
  bool is_signed = false, many_taps = false, plain = false;
  int piece = 16, other = 0;
  bool from_zero = false, odd_zero = false, sum_from_zero = false;

  void SetAfter(const AfterBytes& after) {
    other = !after.has_other ? 0 : after.made_is_second ? 2 : 1;
    from_zero = !after.is_float && after.low == after.y_zero;
    odd_zero = !after.is_float && !after.has_other && after.y_zero % 2 != 0;
    sum_from_zero = after.has_other && after.sum_low == 0;
  }
  std::string Key() const {
    return Cat(piece, " ", other, " ", is_signed, many_taps, plain, from_zero, odd_zero, sum_from_zero);
  }
};

// One instruction of four warps: 64 rows by `columns` sums, two numbers of each pair of columns and rows a thread.
std::string GroupProduct(int columns, const char* kind) {
  const int count = columns / 2;
  std::string places, operands;
  for (int i = 0; i < count; ++i) {
    places += Cat(i > 0 ? ", %" : "%", i);
    operands += Cat(i > 0 ? ", " : "", "\"+r\"(d[", i / 4, "][", i % 4, "])");
  }
  return Cat("__device__ inline void MultiplyGroup(int (&d)[", columns / 8, "][4], uint64 a, uint64 b) {\n",
             "  asm volatile(\"{.reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n", columns,
             "k32.s32.", kind, ".s8 {", places, "}, %", count, ", %", count + 1, ", p;}\" : ", operands,
             " : \"l\"(a), \"l\"(b));\n}\n");
}

KernelSource SourceOf(const Tile& tile, const Variant& variant) {
  const char* kind = variant.is_signed ? "s8" : "u8";
  return {
      "ByteConvolution",
      Cat("#define ROWS ", tile.rows, "\n#define COLUMNS ", tile.columns, "\n#define DEPTH ", tile.depth,
          "\n#define WARPS_M ", tile.warps_m, "\n#define WARPS_N ", tile.warps_n, "\n#define WARPS_K ", tile.warps_k,
          "\n#define STAGES ", tile.stages, "\n#define AHEAD ", tile.ahead(), "\n#define COLUMN_BYTES ",
          tile.column_bytes(), "\n#define OTHER_BYTES ", tile.other_bytes(variant.other != 0), "\n#define WARPGROUPS ",
          tile.warpgroups, "\n#define NEAR_CACHE ", tile.warpgroups && !variant.plain, "\n#define PIECE ",
          variant.piece, "\n#define OTHER ", variant.other, "\n#define MANY_TAPS ", variant.many_taps,
          "\n#define PLAIN ", variant.plain, "\n#define FROM_ZERO ", variant.from_zero, "\n#define ODD_ZERO ",
          variant.odd_zero, "\n#define SUM_FROM_ZERO ", variant.sum_from_zero, "\n#define X_KIND \"", kind, "\"\n",
          kAfterBytesSource, tile.warpgroups ? GroupProduct(tile.columns / tile.warps_n, kind) : std::string(),
          kByteConvolutionSource),
      tile.warpgroups ? 9 : 0};
}

// Those that leave most of the device idle, or cut finely what is large, are not even timed.
bool IsWorthTiming(const Tile& tile, const Windows& how, const DeviceFacts& device) {
  const int multiprocessors = device.multiprocessors;
  if (tile.warpgroups && device.compute_major != 9) return false;
  if (!tile.warpgroups && device.compute_major == 9 && tile.warps_k == 1) return false;
  if (tile.depth == 128 && tile.warpgroups && how.chunks < 16) return false;
  const int64_t down = (how.rows + tile.rows - 1) / tile.rows,
                across = (how.features + tile.columns - 1) / tile.columns;
  if (down > 65535) return false;
  if (tile.rows > 32 && how.rows <= tile.rows / 2) return false;
  if (tile.columns > 64 && how.features <= tile.columns / 2) return false;
  const int64_t blocks = down * across;
  if (tile.warps_k == 1 && tile.rows > 64 && blocks < multiprocessors / 3) return false;
  // Few rows of very many columns have no other tile.
  return tile.warps_k == 1 || down == 1 || blocks <= int64_t{multiprocessors} * 8;
}

void LaunchTile(const Device& device, const Tile& tile, const Windows& how, const Variant& variant,
                const AfterBytes& after, const ByteOperands& operands) {
  const Grid grid{static_cast<unsigned>((how.features + tile.columns - 1) / tile.columns), tile.threads(),
                  tile.shared_bytes(after.has_other, how.chunks),
                  static_cast<unsigned>((how.rows + tile.rows - 1) / tile.rows)};
  const std::string key = Cat("byte convolution ", tile.rows, " ", tile.columns, " ", tile.depth, " ", tile.warps_m,
                              " ", tile.warps_n, " ", tile.warps_k, tile.warpgroups, " ", variant.Key());
  Launch(device, FindKernel(device, key, [&] { return SourceOf(tile, variant); }), grid, operands.x,
         operands.filter->rows.address(), operands.filter->sums.address(), operands.factor, operands.bias,
         operands.shift, operands.other, operands.y, how, after);
}

ByteFilter Uploaded(const Device& device, const Tensor& rows) {
  Tensor sums(DType::kInt32, {rows.dim(0)});
  const auto* from = rows.Data<int8_t>();
  for (int64_t m = 0; m < rows.dim(0); ++m) {
    int32_t sum = 0;
    for (int64_t k = 0; k < rows.dim(1); ++k) sum += from[m * rows.dim(1) + k];
    sums.MutableData<int32_t>()[m] = sum;
  }
  ByteFilter filter{rows.In(device.memory()), sums.In(device.memory())};
  device.Synchronize();  // other threads will read
  return filter;
}

}  // namespace

AfterBytes::AfterBytes(const QuantizedStep& step)
    : x_zero(step.x_zero), y_zero(step.y_zero), low(step.low), high(step.high), is_float(step.is_float()) {}

AfterBytes ReadByteSum(const Node& add) {
  const QuantizedStep step = QuantizedStep::Read(add);
  AfterBytes after(step);
  after.has_other = 1;
  after.sum_low = step.low, after.sum_high = step.high;
  after.first_factor = add.Float("a_factor", 1.0f), after.second_factor = add.Float("b_factor", 1.0f);
  const float second_zero = after.second_factor * static_cast<float>(add.Int("b_zero", 0));
  after.added =
      static_cast<float>(step.y_zero) - std::fma(after.first_factor, static_cast<float>(step.x_zero), second_zero);
  return after;
}

void AfterBytes::AddOther(const Node& add, DType other, bool second) {
  const AfterBytes sum = ReadByteSum(add);
  has_other = 1, other_is_signed = other == DType::kInt8, made_is_second = second;
  sum_low = sum.sum_low, sum_high = sum.sum_high;
  first_factor = sum.first_factor, second_factor = sum.second_factor, added = sum.added;
}

bool CanConvolveBytes(const ByteWindows& windows) {
  constexpr int64_t kMost = int64_t{1} << 31;
  if (windows.batch < 1 || windows.channels < 1 || windows.features < 1) return false;
  for (const WindowAxis& axis : windows.axes)
    for (int64_t number : {axis.input, axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad_begin})
      if (number < 0 || number >= 1 << 20) return false;
  const WindowAxis &y = windows.axes[0], &x = windows.axes[1];
  if (y.output < 1 || x.output < 1 || y.input < 1 || x.input < 1) return false;
  const int64_t channels = RoundUp(windows.channels, 16), taps = y.kernel * x.kernel;
  if (channels >= kMost / 16 || taps >= kMost / 16 / channels || windows.features >= kMost / 2) return false;
  const int64_t made = y.output * x.output, pixels = y.input * x.input;
  constexpr int64_t kMostRows = int64_t{65535} * 64;
  return windows.batch < kMostRows && made < kMostRows / windows.batch && pixels < (int64_t{1} << 40) / channels;
}

ByteFilter PackByteFilter(const Device& device, const ByteWindows& windows, const Tensor& w) {
  const Tensor readable = Readable(w);
  const Windows how = WindowsOf(windows, PaddingOf(windows, 0), 0);
  const int64_t depth = int64_t{how.chunks} * 16, c = windows.channels;
  const int64_t kernel_y = windows.axes[0].kernel, kernel_x = windows.axes[1].kernel, taps = kernel_y * kernel_x;
  Tensor rows(DType::kInt8, {windows.features, depth});
  std::memset(rows.mutable_raw(), 0, rows.bytes());
  const auto* from = readable.Data<int8_t>();
  auto* to = rows.MutableData<int8_t>();
  const int64_t step_y = TakesRuns(windows) ? how.tap_bytes : kernel_x * how.tap_bytes;
  const int64_t step_x = TakesRuns(windows) ? how.pixel_bytes : how.tap_bytes;
  for (int64_t m = 0; m < windows.features; ++m)
    for (int64_t channel = 0; channel < c; ++channel)
      for (int64_t tap = 0; tap < taps; ++tap)
        to[m * depth + tap / kernel_x * step_y + tap % kernel_x * step_x + channel] =
            from[(m * c + channel) * taps + tap];
  return Uploaded(device, rows);
}

ByteFilter PackByteMatrix(const Device& device, const Tensor& w, bool turned) {
  const Tensor readable = Readable(w);
  const int64_t features = w.dim(turned ? 0 : 1), depth = w.dim(turned ? 1 : 0), pitch = RoundUp(depth, 16);
  Tensor rows(DType::kInt8, {features, pitch});
  std::memset(rows.mutable_raw(), 0, rows.bytes());
  for (int64_t m = 0; m < features; ++m)
    for (int64_t k = 0; k < depth; ++k)
      rows.MutableData<int8_t>()[m * pitch + k] = readable.Data<int8_t>()[turned ? m * depth + k : k * features + m];
  return Uploaded(device, rows);
}

void ConvolveBytes(const Device& device, const ByteWindows& windows, DType x_type, const AfterBytes& after,
                   const ByteOperands& operands, std::optional<int> tile) {
  const auto fill = static_cast<uint8_t>(after.x_zero);
  const std::optional<PaddedBytes> padding = PaddingOf(windows, fill);
  const Windows how = WindowsOf(windows, padding, fill);
  Variant variant{x_type == DType::kInt8, how.kernel_y * how.kernel_x > 32, IsPlain(how), PieceOf(windows, how)};
  variant.SetAfter(after);
  Tensor image;
  ByteOperands from = operands;
  if (padding) {
    image = Tensor(DType::kUInt8, {windows.batch * how.image_bytes}, device.memory());
    PadBytes(device, *padding, operands.x, image.address());
    from.x = image.address();
  }
  const std::string key =
      Cat("tiles of bytes ", how.rows, " ", how.features, " ", how.chunks, " ", how.tap_bytes, " ", how.kernel_x, " ",
          how.made_width, " ", how.stride_x, " ", how.dilation_x, " ", after.has_other, after.is_float, " wide");
  if (tile) return LaunchTile(device, kTiles[*tile], how, variant, after, from);
  const int way = Choices::Of(device).Fastest(device, key, kTileCount, [&](int i) {
    if (!IsWorthTiming(kTiles[i], how, device.facts()) ||
        kTiles[i].shared_bytes(after.has_other, how.chunks) >
            static_cast<unsigned>(device.facts().shared_bytes_per_block))
      Fail(ErrorCode::kUnsupported, "not for these sizes");
    LaunchTile(device, kTiles[i], how, variant, after, from);
  });
  LaunchTile(device, kTiles[way], how, variant, after, from);
}

int ByteTiles() { return kTileCount; }

bool HasByteTile(const Device& device, int tile) {
  return !kTiles[tile].warpgroups || device.facts().compute_major == 9;
}

std::vector<KernelSource> ByteConvolutionSources() {
  std::vector<KernelSource> sources;
  for (const Tile& tile : kTiles) {
    Variant variant{.plain = tile.warps_n % 2 == 1, .other = tile.stages % 3};
    variant.from_zero = variant.plain;
    sources.push_back(SourceOf(tile, variant));
  }
  Variant many{.is_signed = true, .many_taps = true, .piece = 8, .other = 1, .sum_from_zero = true};
  sources.push_back(SourceOf(kTiles[3], many));
  sources.push_back(SourceOf(kTiles[8], {.piece = 4, .other = 2}));
  sources.push_back(SourceOf(kTiles[8], {.piece = 8, .odd_zero = true}));
  return sources;
}

}  // namespace ferry::cuda
