// Matrices and tables of 2, 4 or 8 bits in blocks with a scale each: MatMulNBits, GatherBlockQuantized.
#include <algorithm>

#include "convert/c/kernels.h"

namespace ferry::c {
namespace {

// Number `at` of those that lie in bytes from `from` on, low bits first.
std::string BitsAt(const std::string& from, const std::string& at, int64_t bits) {
  if (bits == 8) return Cat(from, "[", at, "]");
  const int64_t each = 8 / bits;
  return Cat("(", from, "[(", at, ") / ", each, "] >> ((", at, ") % ", each, " * ", bits, ") & ", (1 << bits) - 1, ")");
}

void RequireForm(int64_t bits, int64_t block) {
  Require(bits == 2 || bits == 4 || bits == 8, "numbers of ", bits, " bits are not supported");
  Require(block >= 16 && block <= (1 << 20) && (block & (block - 1)) == 0, "blocks of ", block, " are not supported");
}

// scale · (Σ a · code − zero · Σ a) for every block; the second sum is that of the row, taken once.
void WriteMatMulNBits(StepWriter& w) {
  const Node& node = w.node;
  const Operand &a = w.in[0], &b = w.in[1], &scales = w.in[2], &y = w.out[0];
  const int64_t columns = node.Int("N", 0), depth = node.Int("K", 0), bits = node.Int("bits", 4),
                block = node.Int("block_size", 0);
  RequireForm(bits, block);
  Require(columns > 0 && depth > 0 && a.shape.rank() >= 1 && a.shape.back() == depth &&
              node.Int("weight_prepacked", 0) == 0,
          "N, K or the form of its weights do not fit");
  const int64_t blocks = (depth + block - 1) / block, rows = a.size() / depth, row_bytes = blocks * block * bits / 8,
                zero_bytes = (blocks * bits + 7) / 8;
  Require(b.size() == columns * row_bytes && scales.size() == columns * blocks, "B or scales have another size");
  const bool grouped = w.Has(4);
  w.multiply_adds += rows * columns * depth;
  auto zero = [&](const std::string& at) {
    if (!w.Has(3)) return Literal(static_cast<double>(1 << (bits - 1)), DType::kFloat);
    if (w.in[3].type != DType::kUInt8) return Cat("(float)", w.Load(w.in[3], Cat("n * ", blocks, " + ", at)));
    return Cat("(float)", BitsAt(Cat("(", w.in[3].c, " + n * ", zero_bytes, ")"), at, bits));
  };
  auto scale = [&](const std::string& at) { return Cat("(float)", w.Load(scales, Cat("n * ", blocks, " + ", at))); };
  const std::string x = w.Scratch(DType::kFloat, depth), whole = grouped ? "" : w.Scratch(DType::kFloat, blocks);
  w.For("r", rows);
  w.Line("for (int k = 0; k < ", depth, "; k++) ", x, "[k] = (float)", w.Load(a, Cat("r * ", depth, " + k")), ";");
  if (!grouped) {
    w.For("g", blocks);
    w.Line("const int end = g * ", block, " + ", block, " < ", depth, " ? g * ", block, " + ", block, " : ", depth,
           ";");
    w.Line("float sum = 0;");
    w.Line("for (int k = g * ", block, "; k < end; k++) sum += ", x, "[k];");
    w.Line(whole, "[g] = sum;");
    w.Close();
  }
  w.For("n", columns);
  w.Line("const uint8_t *const codes = ", b.c, " + (size_t)n * ", row_bytes, ";");
  w.Line("float sum = ", w.Has(5) ? Cat("(float)", w.Load(w.in[5], "n")) : "0.0f", ";");
  if (grouped) {
    w.For("k", depth);
    w.Line("const int named = (int)", w.Load(w.in[4], "k"), ", g = named < 0 || named >= ", blocks, " ? 0 : named;");
    w.Line("sum += ", x, "[k] * ((float)", BitsAt("codes", "k", bits), " - ", zero("g"), ") * ", scale("g"), ";");
    w.Close();
  } else {
    w.For("g", blocks);
    w.Line("const int end = g * ", block, " + ", block, " < ", depth, " ? g * ", block, " + ", block, " : ", depth,
           ";");
    w.Line("float part = 0;");
    w.Line("int k = g * ", block, ";");
    if (bits == 4) {
      w.Open("for (; k + 2 <= end; k += 2)");
      w.Line("const int two = codes[k / 2];");
      w.Line("part += ", x, "[k] * (float)(two & 15) + ", x, "[k + 1] * (float)(two >> 4);");
      w.Close();
    }
    w.Line("for (; k < end; k++) part += ", x, "[k] * (float)", BitsAt("codes", "k", bits), ";");
    w.Line("sum += ", scale("g"), " * (part - ", zero("g"), " * ", whole, "[g]);");
    w.Close();
  }
  w.Line(w.Store(y, Cat("r * ", columns, " + n"), "sum"));
  w.Close(2);
}

void WriteGatherBlockQuantized(StepWriter& w) {
  const Node& node = w.node;
  const Operand &data = w.in[0], &indices = w.in[1], &scales = w.in[2], &y = w.out[0];
  const bool is_packed = data.type == DType::kUInt8;
  const int64_t bits = node.Int("bits", 4), block = node.Int("block_size", 128);
  RequireForm(bits, block);
  Shape numbers = data.shape;
  const size_t gather = NormalizeAxis(node.Int("gather_axis", 0), numbers.rank()),
               quantize = NormalizeAxis(node.Int("quantize_axis", 1), numbers.rank());
  if (is_packed) numbers.back() *= 8 / bits;
  const int64_t length = numbers[gather], outer = numbers.CountBetween(0, gather),
                inner = numbers.CountBetween(gather + 1, numbers.rank()),
                after = numbers.CountBetween(quantize + 1, numbers.rank()), depth = numbers[quantize],
                blocks = (depth + block - 1) / block, count = indices.size(), zero_bytes = (blocks * bits + 7) / 8;
  Require(length > 0 && depth > 0, "its table is empty");
  w.For("o", outer);
  w.For("j", count);
  w.Line("int64_t named = ", w.Load(indices, "j"), ";");
  w.Line("if (named < 0) named += ", length, ";");
  w.Line("if (named < 0 || named >= ", length, ") named = 0;");
  w.For("i", inner);
  w.Line("const int at = (o * ", length, " + (int)named) * ", inner, " + i;");
  w.Line("const int row = at / ", after * depth, ", g = at / ", after, " % ", depth, " / ", block, ";");
  w.Line("const int s = (row * ", blocks, " + g) * ", after, " + at % ", after, ";");
  const std::string code = is_packed ? BitsAt(data.c, "at", bits) : w.Load(data, "at");
  std::string zero = is_packed ? Cat(1 << (bits - 1)) : "0";
  if (w.Has(3))
    zero = is_packed ? BitsAt(Cat("(", w.in[3].c, " + row * ", zero_bytes, ")"), "g", bits) : w.Load(w.in[3], "s");
  w.Line(w.Store(y, Cat("(o * ", count, " + j) * ", inner, " + i"),
                 Cat("(float)(", code, " - ", zero, ") * (float)", w.Load(scales, "s"))));
  w.Close(3);
}

}  // namespace

const std::vector<KernelEntry>& BlockedKernels() {
  static const std::vector<KernelEntry> kernels = {
      {"com.microsoft.MatMulNBits", WriteMatMulNBits},
      {"com.microsoft.GatherBlockQuantized", WriteGatherBlockQuantized},
  };
  return kernels;
}

}  // namespace ferry::c
