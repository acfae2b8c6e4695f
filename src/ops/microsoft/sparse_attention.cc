// Attention with a cache in which blocks of queries look at some blocks of keys only: a table per layout in compressed
// rows (block_row_indices, block_col_indices), layouts dealt to heads in turns. A layout with as many blocks as causal
// attention has is causal attention.
#include <cmath>
#include <cstring>

#include "ops/operator.h"
#include "ops/support/cached_attention.h"
#include "ops/support/compose_attention.h"
#include "ops/support/scalar.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

enum Input : size_t { kPastKey = 3, kPastValue, kRows, kColumns, kTotal, kLengths, kCosines, kSines };

class BlockLayouts {
 public:
  BlockLayouts(const Tensor& rows, const Tensor& columns, int64_t block) : block_(block) {
    Require(block > 0 && block < (1 << 20), "sparse_block_size must be positive, is ", block);
    Require(
        rows.rank() == 2 && columns.rank() == 2 && rows.dim(0) > 0 && rows.dim(0) == columns.dim(0) && rows.dim(1) >= 2,
        "block_row_indices ", rows.shape(), " and block_col_indices ", columns.shape(), " do not go together");
    layouts_ = rows.dim(0);
    blocks_ = rows.dim(1) - 1;
    columns_ = columns.dim(1);
    starts_ = ToInt64Vector(rows);
    places_ = ToInt64Vector(columns);
    for (int64_t layout = 0; layout < layouts_; ++layout) {
      const int64_t* start = starts_.data() + layout * (blocks_ + 1);
      Require(start[0] == 0, "block_row_indices must begin with 0, has ", start[0]);
      for (int64_t i = 0; i < blocks_; ++i)
        Require(start[i] <= start[i + 1] && start[i + 1] <= columns_, "block_row_indices must grow up to ", columns_,
                ", has ", start[i], " and ", start[i + 1]);
      for (int64_t i = 0; i < start[blocks_]; ++i) {
        int64_t place = places_[static_cast<size_t>(layout * columns_ + i)];
        Require(place >= 0 && place < blocks_, "block_col_indices has ", place, ", there are ", blocks_, " blocks");
      }
    }
  }

  int64_t keys() const { return blocks_ * block_; }

  // Which keys a query at `position` of a head sees; null when all in front of it.
  const uint8_t* Seen(int64_t head, int64_t position) const {
    int64_t layout = head % layouts_, row = position / block_;
    return masks_[static_cast<size_t>(layout * blocks_ + row)].empty()
               ? nullptr
               : masks_[static_cast<size_t>(layout * blocks_ + row)].data();
  }

  // For the first `room` keys.
  void MakeMasks(int64_t room) {
    masks_.resize(static_cast<size_t>(layouts_ * blocks_));
    for (int64_t layout = 0; layout < layouts_; ++layout) {
      const int64_t* start = starts_.data() + layout * (blocks_ + 1);
      if (start[blocks_] >= (blocks_ + 1) * blocks_ / 2) continue;  // dense
      for (int64_t row = 0; row < blocks_; ++row) {
        if (start[row + 1] - start[row] == row + 1) continue;
        std::vector<uint8_t>& mask = masks_[static_cast<size_t>(layout * blocks_ + row)];
        mask.resize(static_cast<size_t>(std::min(room, keys())));
        for (int64_t i = start[row]; i < start[row + 1]; ++i) {
          int64_t first = places_[static_cast<size_t>(layout * columns_ + i)] * block_;
          for (int64_t key = first; key < std::min(first + block_, room); ++key) mask[static_cast<size_t>(key)] = 1;
        }
      }
    }
  }

 private:
  int64_t layouts_ = 0, blocks_ = 0, columns_ = 0, block_;
  std::vector<int64_t> starts_, places_;
  std::vector<std::vector<uint8_t>> masks_;
};

// The past with new rows of one kind put in from each sequence's first position on.
Tensor Append(OpContext& context, size_t output, const Tensor& past, const Tensor& fresh, int64_t length,
              const std::vector<int64_t>& firsts) {
  Tensor& present = context.Output(output, past.dtype(), past.shape());
  if (present.raw() != past.raw()) std::memcpy(present.mutable_raw(), past.raw(), past.bytes());
  int64_t heads = past.dim(1), room = past.dim(2), size = past.dim(3);
  auto element = static_cast<size_t>(BitWidth(past.dtype()) / 8);
  for (int64_t image = 0; image < past.dim(0); ++image)
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t i = 0; i < length; ++i) {
        const float* from = fresh.Data<float>() + ((image * length + i) * heads + head) * size;
        int64_t to = ((image * heads + head) * room + firsts[static_cast<size_t>(image)] + i) * size;
        std::byte* out = present.mutable_raw() + static_cast<size_t>(to) * element;
        if (past.dtype() == DType::kFloat)
          std::memcpy(out, from, static_cast<size_t>(size) * element);
        else
          NarrowRun(past.dtype(), from, out, size);
      }
  return WidenToFloat(present);
}

void ComputeSparseAttention(OpContext& context) {
  const Node& node = context.node();
  int64_t heads = HeadsAttribute(node), kv_heads = HeadsAttribute(node, "kv_num_heads");
  bool turns = node.Int("do_rotary", 0) == 1;
  HeadRowsInput rows(context, heads, kv_heads, turns);
  const Tensor &past_key = context.Input(kPastKey), &past_value = context.Input(kPastValue);
  int64_t room = past_key.rank() == 4 ? past_key.dim(2) : 0;
  Shape wanted{rows.batch, kv_heads, room, rows.size};
  Require(past_key.shape() == wanted && past_value.shape() == wanted && rows.length == rows.queries, "past_key ",
          past_key.shape(), " and past_value ", past_value.shape(), " do not fit query ", context.Input(0).shape());
  Require(past_key.dtype() == context.Input(0).dtype() && past_value.dtype() == past_key.dtype(),
          "the cache must have the type of the query");
  BlockLayouts layouts(context.Input(kRows), context.Input(kColumns), node.Int("sparse_block_size", 0));
  int64_t total = ScalarInt(context.Input(kTotal), "total_sequence_length");
  Require(total > 0 && total <= room && total <= layouts.keys(), "total_sequence_length is ", total,
          ", the cache has room for ", room, " and the layouts for ", layouts.keys());
  bool is_prompt = total == rows.queries;
  std::vector<int64_t> lengths = ToInt64Vector(context.Input(kLengths)), firsts;
  Require(static_cast<int64_t>(lengths.size()) == rows.batch, "key_total_sequence_lengths must have ", rows.batch,
          " numbers, has ", lengths.size());
  for (int64_t length : lengths) {
    Require(length >= (is_prompt ? 1 : rows.queries) && length <= total, "key_total_sequence_lengths has ", length,
            ", there are ", rows.queries, " queries and ", total, " keys");
    firsts.push_back(is_prompt ? 0 : length - rows.queries);
    Require(firsts.back() + rows.queries <= room, "a cache of ", room, " rows is too short");
  }
  if (turns) {
    RotaryCaches caches(context.Input(kCosines), context.Input(kSines), rows.size,
                        node.Int("rotary_interleaved", 0) == 1);
    for (int64_t row = 0; row < rows.batch * rows.queries; ++row) {
      int64_t position = firsts[static_cast<size_t>(row / rows.queries)] + row % rows.queries;
      caches.Turn(rows.q.MutableData<float>() + row * heads * rows.size, heads, rows.size, position);
      caches.Turn(rows.k.MutableData<float>() + row * kv_heads * rows.size, kv_heads, rows.size, position);
    }
  }
  layouts.MakeMasks(room);
  Tensor key = Append(context, 1, past_key, rows.k, rows.length, firsts);
  Tensor value = Append(context, 2, past_value, rows.v, rows.length, firsts);
  Tensor& y = context.Output(0, context.Input(0).dtype(), Shape{rows.batch, rows.queries, heads * rows.size});
  Tensor wide = y.dtype() == DType::kFloat ? y : Tensor(DType::kFloat, y.shape());
  float scale = node.Float("scale", 0);
  auto visible = [&](int64_t image, int64_t head, int64_t query) {
    int64_t position = firsts[static_cast<size_t>(image)] + query;
    VisibleKeys keys{.end = std::min(position + 1, room)};
    keys.seen = layouts.Seen(head, position);
    return keys;
  };
  RunCachedAttention(context, {.batch = rows.batch,
                               .heads = heads,
                               .kv_heads = kv_heads,
                               .queries = rows.queries,
                               .size = rows.size,
                               .room = room,
                               .scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<float>(rows.size)),
                               .q = rows.q.Data<float>(),
                               .q_row = heads * rows.size,
                               .keys = key.Data<float>(),
                               .values = value.Data<float>(),
                               .visible = visible,
                               .y = wide.MutableData<float>()});
  NarrowInto(wide, y);
}

void InferSparseAttention(InferContext& context) {
  DType type = context.InputDType(0);
  context.SetOutput(0, type);
  if (const SymbolicShape* query = context.InputShape(0); query && query->size() == 3) {
    SymbolicShape shape = *query;
    int64_t heads = HeadsAttribute(context.node()), all = heads + 2 * HeadsAttribute(context.node(), "kv_num_heads");
    if (!context.Has(1)) shape[2] = shape[2].known() ? Dim(*shape[2].value / all * heads) : Dim();
    context.SetOutput(0, type, std::move(shape));
  }
  for (size_t i = 1; i < 3 && i < context.output_count(); ++i)
    context.SetOutput(i, context.InputType(kPastKey + i - 1));
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, SparseAttention, {.compute = ComputeSparseAttention, .infer = InferSparseAttention});

}  // namespace ferry
