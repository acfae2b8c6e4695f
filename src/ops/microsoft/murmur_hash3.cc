// MurmurHash3 (x86, 32 bits) of every element's bytes.
#include <cstring>

#include "ops/operator.h"

namespace ferry {
namespace {

uint32_t RotateLeft(uint32_t x, int by) { return x << by | x >> (32 - by); }

uint32_t Scramble(uint32_t block) { return RotateLeft(block * 0xcc9e2d51u, 15) * 0x1b873593u; }

uint32_t Hash(const unsigned char* bytes, size_t length, uint32_t seed) {
  uint32_t hash = seed;
  size_t whole = length / 4 * 4;
  for (size_t i = 0; i < whole; i += 4) {
    uint32_t block = static_cast<uint32_t>(bytes[i]) | static_cast<uint32_t>(bytes[i + 1]) << 8 |
                     static_cast<uint32_t>(bytes[i + 2]) << 16 | static_cast<uint32_t>(bytes[i + 3]) << 24;
    hash = RotateLeft(hash ^ Scramble(block), 13) * 5 + 0xe6546b64u;
  }
  uint32_t rest = 0;
  for (size_t i = length; i-- > whole;) rest = rest << 8 | bytes[i];
  if (length > whole) hash ^= Scramble(rest);
  hash ^= static_cast<uint32_t>(length);
  hash = (hash ^ hash >> 16) * 0x85ebca6bu;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35u;
  return hash ^ hash >> 16;
}

DType HashType(const Node& node) { return node.Int("positive", 1) == 1 ? DType::kUInt32 : DType::kInt32; }

void ComputeMurmurHash3(OpContext& context) {
  const Tensor& x = context.Input(0);
  auto seed = static_cast<uint32_t>(context.node().Int("seed", 0));
  Tensor& y = context.Output(0, HashType(context.node()), x.shape());
  auto store = [&](int64_t i, uint32_t hash) { std::memcpy(y.mutable_raw() + i * 4, &hash, sizeof hash); };
  if (x.dtype() == DType::kString) {
    for (int64_t i = 0; i < x.size(); ++i) {
      const std::string& text = x.Data<std::string>()[i];
      store(i, Hash(reinterpret_cast<const unsigned char*>(text.data()), text.size(), seed));
    }
    return;
  }
  int bits = BitWidth(x.dtype());
  Require(bits == 32 || bits == 64, "elements of ", x.dtype(), " cannot be hashed");
  auto* bytes = reinterpret_cast<const unsigned char*>(x.raw());
  for (int64_t i = 0; i < x.size(); ++i) store(i, Hash(bytes + i * (bits / 8), static_cast<size_t>(bits / 8), seed));
}

void InferMurmurHash3(InferContext& context) {
  DType type = HashType(context.node());
  if (const SymbolicShape* x = context.InputShape(0)) return context.SetOutput(0, type, *x);
  context.SetOutput(0, type);
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, MurmurHash3, {.compute = ComputeMurmurHash3, .infer = InferMurmurHash3});

}  // namespace ferry
