// Attention with a cache of keys and values for a decoder: new rows are turned by their positions, appended to what
// each sequence has in the cache, and looked at from the newest queries back. The cache may hold bytes or nibbles (a
// scale for all, or one for each channel of each head), and it may be a window that drops its oldest rows.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ops/operator.h"
#include "ops/support/cached_attention.h"
#include "ops/support/compose_attention.h"
#include "ops/support/scalar.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

enum Input : size_t {
  kPastKey = 3,
  kPastValue,
  kLengths,
  kTotal,
  kCosines,
  kSines,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
};

// How a number of the cache is stored.
struct CacheForm {
  DType type;        // of the cache's elements
  int64_t bits = 0;  // 8 or 4 when quantised
  bool per_channel = false;

  // A past of halves stays one, whatever queries are.
  CacheForm(const Node& node, DType input, DType past) : type(IsFloating(past) ? past : input) {
    std::string key = node.String("k_quant_type", "NONE"), value = node.String("v_quant_type", "NONE");
    bits = node.Int("kv_cache_bit_width", 0);
    Require(key == value, "k_quant_type and v_quant_type must be the same, are \"", Printable(key), "\" and \"",
            Printable(value), "\"");
    Require(key == "NONE" || key == "PER_TENSOR" || key == "PER_CHANNEL",
            "k_quant_type must be NONE, PER_TENSOR or PER_CHANNEL, is \"", Printable(key), "\"");
    bool quantizes = key != "NONE";
    Require(quantizes ? bits == 4 || bits == 8 : bits == 0, "kv_cache_bit_width must be ",
            quantizes ? "4 or 8" : "0 without quantisation", ", is ", bits);
    per_channel = key == "PER_CHANNEL";
    if (quantizes) type = bits == 8 ? DType::kInt8 : DType::kUInt8;
  }

  int64_t Width(int64_t size) const { return bits == 4 ? (size + 1) / 2 : size; }

  // One row of numbers into the cache.
  void Store(const float* from, int64_t size, const float* scales, std::byte* to) const {
    if (bits == 0) {
      if (type == DType::kFloat)
        std::memcpy(to, from, static_cast<size_t>(size) * sizeof(float));
      else
        NarrowRun(type, from, to, size);
      return;
    }
    int most = bits == 8 ? 127 : 7;
    auto* bytes = reinterpret_cast<uint8_t*>(to);
    if (bits == 4) std::memset(bytes, 0x80, static_cast<size_t>(Width(size)));  // the last nibble may have no number
    for (int64_t i = 0; i < size; ++i) {
      float scale = scales[per_channel ? i : 0];
      float value = std::nearbyint(from[i] * (scale != 0 ? 1 / scale : 1.0f));
      // Written so that NaN becomes a number too.
      int number = value > static_cast<float>(most)         ? most
                   : value >= static_cast<float>(-most - 1) ? static_cast<int>(value)
                                                            : -most - 1;
      if (bits == 8)
        bytes[i] = static_cast<uint8_t>(number);
      else if (i % 2 == 0)
        bytes[i / 2] = static_cast<uint8_t>((bytes[i / 2] & 0xf0) | (number + 8));
      else
        bytes[i / 2] = static_cast<uint8_t>((bytes[i / 2] & 0x0f) | ((number + 8) << 4));
    }
  }

  void Load(const std::byte* from, int64_t size, const float* scales, float* to) const {
    auto* bytes = reinterpret_cast<const uint8_t*>(from);
    if (bits == 0 && type == DType::kFloat) {
      std::memcpy(to, from, static_cast<size_t>(size) * sizeof(float));
      return;
    }
    if (bits == 0) return WidenRun(type, from, to, size);
    for (int64_t i = 0; i < size; ++i) {
      int number = bits == 8 ? static_cast<int8_t>(bytes[i]) : (bytes[i / 2] >> (i % 2 * 4) & 15) - 8;
      to[i] = static_cast<float>(number) * scales[per_channel ? i : 0];
    }
  }
};

// Where the rows of one sequence go.
struct SequencePlan {
  int64_t from_past = 0;  // rows of the past that are looked at
  int64_t total = 0;      // with the new ones
  int64_t causal = 0;     // rows in front of the first query
  int64_t position = 0;   // of the first query
  int64_t dropped = 0;    // rows at the front that the window does not keep
};

class GroupQueryAttention {
 public:
  explicit GroupQueryAttention(OpContext& context)
      : context_(context),
        node_(context.node()),
        heads_(HeadsAttribute(node_)),
        kv_heads_(HeadsAttribute(node_, "kv_num_heads")),
        rows_(context, heads_, kv_heads_, node_.Int("do_rotary", 0) == 1),
        form_(node_, context.Input(0).dtype(),
              context.Has(kPastKey) ? context.Input(kPastKey).dtype() : DType::kUndefined),
        is_causal_(node_.Int("causal", 1) != 0),
        window_(node_.Int("local_window_size", -1)),
        is_sliding_(node_.Int("sliding_window_cache", 0) == 1) {
    Require(!context.Has(kQueryNorm) && !context.Has(kKeyNorm),
            "q_norm_weight and k_norm_weight are not supported here, nor by ONNX Runtime on a CPU");
    Require(window_ >= -1 && (is_causal_ || window_ == -1),
            "local_window_size must be -1 or more, and -1 unless causal");
    ReadCaches();
    ReadLengths();
    ReadBias();
    ReadScales();
  }

  void Run() {
    Turn();
    Tensor key = MakeCache(1, kPastKey, rows_.k, k_scales_), value = MakeCache(2, kPastValue, rows_.v, v_scales_);
    DType type = context_.Input(0).dtype();
    Tensor& y = context_.Output(0, type, Shape{rows_.batch, rows_.queries, heads_ * rows_.size});
    Tensor wide = type == DType::kFloat ? y : Tensor(DType::kFloat, y.shape());
    auto visible = [this](int64_t image, int64_t head, int64_t query) { return Visible(image, head, query); };
    CachedAttention attention{.batch = rows_.batch,
                              .heads = heads_,
                              .kv_heads = kv_heads_,
                              .queries = rows_.queries,
                              .size = rows_.size,
                              .room = room_,
                              .scale = node_.Float("scale", 0),
                              .softcap = node_.Float("softcap", 0),
                              .q = rows_.q.Data<float>(),
                              .q_row = heads_ * rows_.size,
                              .keys = key.raw(),
                              .values = value.raw(),
                              .type = key.dtype(),
                              .sinks = nullptr,
                              .visible = visible,
                              .y = wide.MutableData<float>()};
    if (attention.scale == 0) attention.scale = 1 / std::sqrt(static_cast<float>(rows_.size));
    Tensor sinks = Sinks();
    if (sinks.defined()) attention.sinks = sinks.Data<float>();
    Tensor scores = KeptScores(attention);
    RunCachedAttention(context_, attention);
    NarrowInto(wide, y);
    if (scores.defined()) NarrowInto(scores, context_.Output(3, type, scores.shape()));
  }

 private:
  void ReadCaches() {
    const Tensor* key = context_.OptionalInput(kPastKey);
    const Tensor* value = context_.OptionalInput(kPastValue);
    Require((key != nullptr) == (value != nullptr), "past_key and past_value must be given together");
    if (key) {
      past_room_ = key->rank() == 4 ? key->dim(2) : 0;
      Shape wanted{rows_.batch, kv_heads_, past_room_, form_.Width(rows_.size)};
      Require(key->shape() == wanted && value->shape() == wanted, "past_key ", key->shape(), " and past_value ",
              value->shape(), " should both have shape ", wanted);
      Require(key->dtype() == form_.type && value->dtype() == form_.type, "the cache must be ", form_.type, ", is ",
              key->dtype());
    }
    total_ = ScalarInt(context_.Input(kTotal), "total_sequence_length");
    Require(total_ > 0 && total_ < std::numeric_limits<int32_t>::max(), "total_sequence_length must be positive, is ",
            total_);
    if (is_sliding_) {
      Require(key && rows_.length > 0, "sliding_window_cache needs past_key, past_value and new keys");
      Require(window_ > 0 && past_room_ >= window_, "a cache of ", past_room_, " rows cannot hold a window of ",
              window_);
    }
    present_room_ = is_sliding_ ? past_room_ : std::max(total_, past_room_);
    Require(rows_.length == rows_.queries || (rows_.length == 0 && key), "there are ", rows_.length, " new keys for ",
            rows_.queries, " queries");
  }

  void ReadLengths() {
    const Tensor& lengths = context_.Input(kLengths);
    Require(lengths.size() == rows_.batch, "seqlens_k must have one number for each of ", rows_.batch,
            " sequences, has shape ", lengths.shape());
    bool is_prompt = !is_sliding_ && rows_.queries == total_;
    Require(is_prompt || is_sliding_ || rows_.queries <= 1 || rows_.batch == 1,
            "several queries with a past need a batch of 1, not ", rows_.batch);
    for (int64_t last : ToInt64Vector(lengths)) {
      Require(last >= 0 && (is_sliding_ || last < present_room_), "seqlens_k has ", last, ", must be 0 to ",
              present_room_ - 1);
      Require(is_prompt || last + 1 >= rows_.queries, "seqlens_k has ", last, ", too little for ", rows_.queries,
              " queries");
      SequencePlan plan{.total = last + 1};
      if (!is_prompt) plan.position = plan.causal = last + 1 - rows_.queries;
      plan.from_past = rows_.length == 0 ? last + 1 : plan.causal;
      if (is_sliding_)
        Slide(plan);
      else
        Require(plan.from_past <= past_room_, "seqlens_k has ", last, ", which needs ", plan.from_past,
                " rows of a past that has room for ", past_room_);
      room_ = std::max(room_, plan.from_past + rows_.length);
      plans_.push_back(plan);
    }
    if (!is_sliding_) room_ = present_room_;
    for (const SequencePlan& plan : plans_)
      Require(plan.from_past + rows_.length <= room_, "a cache of ", room_, " rows is too short for ",
              plan.from_past + rows_.length);
  }

  // The window drops rows in steps, so that it does not move with every token.
  void Slide(SequencePlan& plan) const {
    int64_t step = past_room_ - window_ + 1;
    auto end = [&](int64_t length) {
      if (length <= past_room_) return length;
      return length - step * ((length - past_room_ + step - 1) / step);
    };
    int64_t before = end(plan.position), after = end(plan.position + rows_.queries);
    plan.from_past = plan.causal = before;
    plan.total = before + rows_.queries;
    plan.dropped = before + rows_.queries - after;
  }

  void ReadBias() {
    const Tensor* bias = context_.OptionalInput(kBias);
    if (!bias) return;
    Require(bias->rank() == 4 && (bias->dim(0) == 1 || bias->dim(0) == rows_.batch) &&
                (bias->dim(1) == 1 || bias->dim(1) == heads_) && bias->dim(2) == rows_.queries,
            "attention_bias ", bias->shape(), " does not fit [", rows_.batch, ", ", heads_, ", ", rows_.queries, ", ",
            total_, "]");
    for (const SequencePlan& plan : plans_)
      Require(bias->dim(3) >= plan.total, "attention_bias has ", bias->dim(3), " keys, a sequence has ", plan.total);
    bias_ = WidenToFloat(*bias);
  }

  void ReadScales() {
    if (form_.bits == 0) return;
    int64_t count = form_.per_channel ? kv_heads_ * rows_.size : 1;
    for (size_t i : {kKeyScale, kValueScale}) {
      const Tensor& scale = context_.Input(i);
      Require(scale.size() == count && scale.dtype() == DType::kFloat, "a scale of ", count, " floats is needed, is ",
              scale.dtype(), scale.shape());
    }
    k_scales_ = context_.Input(kKeyScale).Data<float>();
    v_scales_ = context_.Input(kValueScale).Data<float>();
  }

  void Turn() {
    if (node_.Int("do_rotary", 0) != 1) return;
    Require(context_.Has(kCosines) && context_.Has(kSines), "do_rotary needs cos_cache and sin_cache");
    RotaryCaches caches(context_.Input(kCosines), context_.Input(kSines), rows_.size,
                        node_.Int("rotary_interleaved", 0) == 1);
    std::vector<int64_t> positions;
    bool is_prompt = rows_.queries == total_;
    if (const Tensor* given = context_.OptionalInput(kPositions)) {
      positions = ToInt64Vector(*given);
      // A prompt begins where its first position says.
      Require(!positions.empty() && (is_prompt || given->size() == rows_.batch * rows_.queries),
              "position_ids must have shape [", rows_.batch, ", ", rows_.queries, "], has ", given->shape());
    }
    for (int64_t image = 0; image < rows_.batch; ++image)
      for (int64_t i = 0; i < rows_.queries; ++i) {
        int64_t row = image * rows_.queries + i, position = plans_[static_cast<size_t>(image)].position + i;
        if (!positions.empty()) position = is_prompt ? positions[0] + i : positions[static_cast<size_t>(row)];
        caches.Turn(rows_.q.MutableData<float>() + row * heads_ * rows_.size, heads_, rows_.size, position);
        if (rows_.length > 0)
          caches.Turn(rows_.k.MutableData<float>() + row * kv_heads_ * rows_.size, kv_heads_, rows_.size, position);
      }
  }

  // Writes output `output` and gives all rows that are looked at, [batch, kv_heads, room, size]: as floats, or as the
  // cache has them.
  Tensor MakeCache(size_t output, size_t input, const Tensor& fresh, const float* scales) {
    const Tensor* past = context_.OptionalInput(input);
    int64_t width = form_.Width(rows_.size);
    auto row_bytes = static_cast<size_t>(width * BitWidth(form_.type) / 8);
    Tensor& present = context_.Output(output, form_.type, Shape{rows_.batch, kv_heads_, present_room_, width});
    bool is_plain = form_.bits == 0 && !is_sliding_;
    Tensor wide = is_plain ? present : Tensor(DType::kFloat, Shape{rows_.batch, kv_heads_, room_, rows_.size});
    // A cache that the caller has bound as past and present grows where it lies.
    const bool is_shared = past && past->raw() == present.raw();
    context_.ParallelFor(rows_.batch * kv_heads_, 1, [&](int64_t begin, int64_t end) {
      std::vector<std::byte> joined(static_cast<size_t>(room_) * row_bytes);
      for (int64_t head = begin; head < end; ++head) {
        const SequencePlan& plan = plans_[static_cast<size_t>(head / kv_heads_)];
        std::byte* out = present.mutable_raw() + static_cast<size_t>(head * present_room_) * row_bytes;
        std::byte* to = is_sliding_ ? joined.data() : out;
        auto kept = static_cast<size_t>(plan.from_past);
        if (past && kept > 0 && (!is_shared || is_sliding_))
          std::memmove(to, past->raw() + static_cast<size_t>(head * past_room_) * row_bytes, kept * row_bytes);
        const float* scale = form_.per_channel ? scales + head % kv_heads_ * rows_.size : scales;
        for (int64_t i = 0; i < rows_.length; ++i) {
          int64_t row = head / kv_heads_ * rows_.length + i;
          form_.Store(fresh.Data<float>() + (row * kv_heads_ + head % kv_heads_) * rows_.size, rows_.size, scale,
                      to + (kept + static_cast<size_t>(i)) * row_bytes);
        }
        size_t used = kept + static_cast<size_t>(rows_.length), dropped = static_cast<size_t>(plan.dropped);
        if (is_sliding_) std::memcpy(out, joined.data() + dropped * row_bytes, (used - dropped) * row_bytes);
        size_t held = used - dropped, room = static_cast<size_t>(present_room_);
        if (held < room && !is_shared) std::memset(out + held * row_bytes, 0, (room - held) * row_bytes);
        if (is_plain) continue;
        for (size_t i = 0; i < used; ++i)
          form_.Load(to + i * row_bytes, rows_.size, scale,
                     wide.MutableData<float>() + (head * room_ + static_cast<int64_t>(i)) * rows_.size);
      }
    });
    return wide;
  }

  Tensor Sinks() const {
    if (const Tensor* given = context_.OptionalInput(kSink)) {
      Require(given->size() == heads_, "head_sink must have ", heads_, " numbers, has shape ", given->shape());
      return WidenToFloat(*given);
    }
    return node_.Int("smooth_softmax", 0) == 1 ? Tensor::Zeros(DType::kFloat, Shape{heads_}) : Tensor();
  }

  Tensor KeptScores(CachedAttention& attention) const {
    int64_t kind = node_.Int("qk_output", 0);
    Require(kind >= 0 && kind <= 2, "qk_output must be 0, 1 or 2, is ", kind);
    if (!context_.Wants(3) || kind == 0) return {};
    Require(!is_sliding_, "qk_output cannot be used together with sliding_window_cache");
    Tensor scores = Tensor::Zeros(DType::kFloat, Shape{rows_.batch, heads_, rows_.queries, total_});
    for (const SequencePlan& plan : plans_)
      Require(plan.total <= total_, "a sequence has ", plan.total, " keys, total_sequence_length is ", total_);
    attention.kept = kind == 1 ? CachedAttention::Scores::kBeforeSoftmax : CachedAttention::Scores::kAfterSoftmax;
    attention.scores = scores.MutableData<float>();
    attention.score_row = total_;
    return scores;
  }

  VisibleKeys Visible(int64_t image, int64_t head, int64_t query) const {
    const SequencePlan& plan = plans_[static_cast<size_t>(image)];
    VisibleKeys keys{.end = is_causal_ ? std::min(plan.causal + query + 1, plan.total) : plan.total};
    if (window_ >= 0) keys.begin = std::max<int64_t>(0, keys.end - window_);
    if (bias_.defined()) {
      int64_t at = bias_.dim(0) == 1 ? 0 : image;
      at = at * bias_.dim(1) + (bias_.dim(1) == 1 ? 0 : head);
      keys.bias = bias_.Data<float>() + (at * rows_.queries + query) * bias_.dim(3);
    }
    return keys;
  }

  OpContext& context_;
  const Node& node_;
  const int64_t heads_, kv_heads_;
  HeadRowsInput rows_;
  const CacheForm form_;
  const bool is_causal_;
  const int64_t window_;
  const bool is_sliding_;
  int64_t total_ = 0, past_room_ = 0, present_room_ = 0, room_ = 0;
  std::vector<SequencePlan> plans_;
  Tensor bias_;
  const float *k_scales_ = nullptr, *v_scales_ = nullptr;
};

void ComputeGroupQueryAttention(OpContext& context) { GroupQueryAttention(context).Run(); }

void InferGroupQueryAttention(InferContext& context) {
  const Node& node = context.node();
  DType type = context.InputDType(0);
  CacheForm form(node, type, context.Has(kPastKey) ? context.InputDType(kPastKey) : DType::kUndefined);
  int64_t heads = HeadsAttribute(node), kv_heads = HeadsAttribute(node, "kv_num_heads");
  const SymbolicShape* query = context.InputShape(0);
  context.SetOutput(0, type);
  context.SetOutput(1, form.type);
  context.SetOutput(2, form.type);
  if (context.output_count() > 3) context.SetOutput(3, type);
  if (!query || query->size() != 3) return;
  Dim width = (*query)[2];
  if (!context.Has(1) && width.known())
    width = *width.value / (heads + 2 * kv_heads) * heads;
  else if (!context.Has(1))
    width = Dim();
  context.SetOutput(0, type, {(*query)[0], (*query)[1], width});
  Dim size = width.known() ? Dim(form.Width(*width.value / heads)) : Dim();
  Dim total = KnownScalar(context, kTotal), room;
  const SymbolicShape* past = context.InputShape(kPastKey);
  bool has_past = past && past->size() == 4;
  if (has_past) size = (*past)[3];
  if (has_past && node.Int("sliding_window_cache", 0) == 1)
    room = (*past)[2];
  else if (total.known() && !context.Has(kPastKey))
    room = total;
  else if (total.known() && has_past && (*past)[2].known())
    room = std::max(*total.value, *(*past)[2].value);
  for (size_t i = 1; i < 3; ++i) context.SetOutput(i, form.type, {(*query)[0], Dim(kv_heads), room, size});
  if (context.output_count() > 3) context.SetOutput(3, type, {(*query)[0], Dim(heads), (*query)[1], total});
}

}  // namespace

FERRY_OPERATOR_IN(microsoft, GroupQueryAttention,
                  {.compute = ComputeGroupQueryAttention, .infer = InferGroupQueryAttention});

}  // namespace ferry
