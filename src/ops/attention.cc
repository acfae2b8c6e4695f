#include "ops/support/attention.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/gemm.h"
#include "ops/operator.h"
#include "ops/support/broadcast.h"
#include "ops/support/cast_tensor.h"
#include "ops/support/dispatch.h"
#include "ops/support/rounding.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

enum Input : size_t { kQuery, kKey, kValue, kMask, kPastKey, kPastValue, kValidLengths };

struct AttentionPlan {
  HeadLayout q, k, v;  // k and v as they come in; with a past they are joined to [batch, heads, total, size]
  int64_t past = 0, total = 0, group = 1;
  bool is_causal;
  int64_t left_window, right_window, output_mode;
  float softcap;
  double scale;
  DType type, softmax_type;
  std::vector<int64_t> valid;  // per image; empty: all
  Shape output;

  explicit AttentionPlan(const OpContext& context)
      : q(context.Input(kQuery).shape(), context.node().Int("q_num_heads", 0), "Q"),
        k(context.Input(kKey).shape(), context.node().Int("kv_num_heads", 0), "K"),
        v(context.Input(kValue).shape(), context.node().Int("kv_num_heads", 0), "V"),
        is_causal(context.node().Int("is_causal", 0) != 0),
        left_window(context.node().Int("left_window_size", -1)),
        right_window(context.node().Int("right_window_size", -1)),
        output_mode(context.node().Int("qk_matmul_output_mode", 0)),
        softcap(context.node().Float("softcap", 0.0f)),
        type(context.Input(kQuery).dtype()) {
    const Shape &q_shape = context.Input(kQuery).shape(), &k_shape = context.Input(kKey).shape(),
                &v_shape = context.Input(kValue).shape();
    Require(q.is_packed == k.is_packed && k.is_packed == v.is_packed, "Q, K and V must have the same rank, have ",
            q_shape, ", ", k_shape, " and ", v_shape);
    Require(q.batch == k.batch && k.batch == v.batch && k.heads == v.heads && k.length == v.length &&
                q.size == k.size && k.heads > 0 && q.heads % k.heads == 0,
            "Q ", q_shape, ", K ", k_shape, " and V ", v_shape, " do not go together");
    Require(left_window >= -1 && right_window >= -1, "window sizes must be -1 or more, are ", left_window, " and ",
            right_window);
    Require(output_mode >= 0 && output_mode <= 3, "qk_matmul_output_mode must be 0 to 3, is ", output_mode);
    group = q.heads / k.heads;
    total = k.length;
    ReadPast(context);
    ReadValidLengths(context);
    double size = static_cast<double>(std::max<int64_t>(q.size, 1));
    scale = context.node().Has("scale") ? double{context.node().Float("scale", 1.0f)} : 1 / std::sqrt(size);
    softmax_type = SoftmaxType(context.node().Int("softmax_precision", 0), type);
    output = q.is_packed ? Shape{q.batch, q.length, CheckedProduct(q.heads, v.size)}
                         : Shape{q.batch, q.heads, q.length, v.size};
  }

  // The absolute position of a query counted in keys.
  int64_t Position(int64_t image, int64_t query) const {
    if (!valid.empty()) return valid[static_cast<size_t>(image)] - q.length + query;
    return past + query;
  }

  // The keys a query may look at by causality, windows and padding: [begin, end).
  std::pair<int64_t, int64_t> Visible(int64_t image, int64_t query) const {
    int64_t position = Position(image, query), begin = 0, end = total;
    if (!valid.empty()) end = std::min(end, valid[static_cast<size_t>(image)]);
    if (is_causal) end = std::min(end, position + 1);
    if (left_window >= 0 && position > left_window) begin = position - left_window;
    if (right_window >= 0 && right_window < end - position) end = position + right_window + 1;
    return {std::clamp<int64_t>(begin, 0, total), std::clamp<int64_t>(end, 0, total)};
  }

 private:
  void ReadPast(const OpContext& context) {
    const Tensor* key = context.OptionalInput(kPastKey);
    const Tensor* value = context.OptionalInput(kPastValue);
    Require((key != nullptr) == (value != nullptr), "past_key and past_value must be given together");
    if (!key) return;
    Require(key->rank() == 4 && value->rank() == 4, "past_key and past_value must have 4 axes");
    past = key->dim(2);
    Require(key->shape() == Shape{k.batch, k.heads, past, k.size} &&
                value->shape() == Shape{v.batch, v.heads, past, v.size},
            "past_key ", key->shape(), " and past_value ", value->shape(), " do not fit K and V");
    total += past;
  }

  void ReadValidLengths(const OpContext& context) {
    const Tensor* lengths = context.OptionalInput(kValidLengths);
    if (!lengths) return;
    Require(past == 0 && !context.Has(kPastKey), "nonpad_kv_seqlen cannot be used together with past_key");
    Require(lengths->shape() == Shape{q.batch}, "nonpad_kv_seqlen must have shape [", q.batch, "], has ",
            lengths->shape());
    valid = ToInt64Vector(*lengths);
    for (int64_t length : valid)
      Require(length >= 0 && length <= total, "nonpad_kv_seqlen has ", length, ", there are ", total, " keys");
  }
};

// [batch, heads, past + length, size]: what was there before, then the new rows.
void JoinCache(const Tensor* past, const Tensor& fresh, const HeadLayout& layout, int64_t past_length, Tensor& to) {
  size_t element = static_cast<size_t>(BitWidth(fresh.dtype())) / 8, row = static_cast<size_t>(layout.size) * element;
  std::byte* out = to.mutable_raw();
  for (int64_t image = 0; image < layout.batch && row > 0; ++image)
    for (int64_t head = 0; head < layout.heads; ++head) {
      size_t old = static_cast<size_t>(past_length) * row;
      if (old > 0) std::memcpy(out, past->raw() + static_cast<size_t>(image * layout.heads + head) * old, old);
      out += old;
      const std::byte* from = fresh.raw() + static_cast<size_t>(layout.Offset(image, head)) * element;
      for (int64_t i = 0; i < layout.length; ++i, out += row, from += static_cast<size_t>(layout.row()) * element)
        std::memcpy(out, from, row);
    }
}

// The additive mask, read as [batch, heads, queries, keys] by strides. Keys beyond its end are masked.
template <class T>
struct Mask {
  Tensor held;
  const T* data = nullptr;
  int64_t strides[3] = {};  // image, head, query
  int64_t keys = 0, key_stride = 1;

  Mask(const Tensor* mask, const AttentionPlan& plan) {
    if (!mask) return;
    Require(mask->rank() >= 1 && mask->rank() <= 4, "attn_mask must have 1 to 4 axes, its shape is ", mask->shape());
    keys = mask->shape().back();
    Require(keys <= plan.total, "attn_mask ", mask->shape(), " has more keys than the ", plan.total, " there are");
    if (keys == 1 && plan.total > 1) {
      keys = plan.total;
      key_stride = 0;
    }
    Shape lead(mask->shape().dims().first(mask->rank() - 1));
    std::vector<int64_t> lead_strides = BroadcastStrides(lead, Shape{plan.q.batch, plan.q.heads, plan.q.length});
    for (size_t i = 0; i < 3; ++i) strides[i] = lead_strides[i] * mask->shape().back();
    held = mask->dtype() == DType::kBool ? FromBool(*mask) : CastTensor(*mask, kDTypeOf<T>);
    data = held.Data<T>();
  }

  // Adds the mask to a row of scores; false when no key is left that may be looked at.
  bool Add(const AttentionPlan& plan, int64_t image, int64_t head, int64_t query, T* row) const {
    constexpr T kMasked = -std::numeric_limits<T>::infinity();
    auto [begin, end] = plan.Visible(image, query);
    if (data) end = std::min(end, keys);
    begin = std::min(begin, end);
    bool any = begin < end && !data;
    if (data) {
      const T* bias = data + image * strides[0] + head * strides[1] + query * strides[2];
      for (int64_t j = begin; j < end; ++j) {
        T value = bias[j * key_stride];
        any = any || value != kMasked;
        // A masked key has no say, whatever its score.
        row[j] = value == kMasked ? kMasked : row[j] + value;
      }
    }
    std::fill(row, row + begin, kMasked);
    std::fill(row + end, row + plan.total, kMasked);
    return any;
  }

 private:
  static Tensor FromBool(const Tensor& mask) {
    Tensor out(kDTypeOf<T>, mask.shape());
    const bool* from = mask.Data<bool>();
    T* to = out.template MutableData<T>();
    for (int64_t i = 0; i < mask.size(); ++i) to[i] = from[i] ? T{0} : -std::numeric_limits<T>::infinity();
    return out;
  }
};

// Keys or values where a task finds them: one head's rows, `row` elements apart.
template <class T>
struct HeadRows {
  Tensor held;
  HeadLayout layout;

  const T* At(int64_t image, int64_t head) const { return held.Data<T>() + layout.Offset(image, head); }
};

template <class T>
class AttentionRun {
 public:
  AttentionRun(const OpContext& context, const AttentionPlan& plan, Tensor q, HeadRows<T> k, HeadRows<T> v)
      : context_(context),
        plan_(plan),
        q_(std::move(q)),
        k_(std::move(k)),
        v_(std::move(v)),
        mask_(context.OptionalInput(kMask), plan) {
    // Small floats are scaled on both sides, as the standard writes it; the others in one go.
    bool is_small = IsSmallFloat(plan.type);
    T root = static_cast<T>(std::sqrt(plan.scale));
    RoundTo(plan.type, &root, 1);
    q_scale_ = is_small ? root : static_cast<T>(plan.scale);
    if (is_small) ScaleKeys(root);
  }

  // `y` as [batch, heads, queries, size] or packed; `scores` [batch, heads, queries, keys] may be null.
  void Run(T* y, T* scores) {
    int64_t rows = plan_.group * plan_.q.length;
    int64_t blocks = (rows + kRows - 1) / kRows;
    int64_t work = std::max<int64_t>(std::min(rows, kRows) * plan_.total * (plan_.q.size + plan_.v.size), 1);
    context_.ParallelFor(plan_.q.batch * plan_.k.heads * blocks, 1 + 65536 / work, [&](int64_t begin, int64_t end) {
      int64_t most = std::min(rows, kRows);
      std::vector<T> q(static_cast<size_t>(most * plan_.q.size)), s(static_cast<size_t>(most * plan_.total)),
          out(static_cast<size_t>(most * plan_.v.size));
      for (int64_t task = begin; task < end; ++task) {
        int64_t head = task / blocks, first = task % blocks * kRows;
        RunBlock(head / plan_.k.heads, head % plan_.k.heads, first, std::min(kRows, rows - first), q.data(), s.data(),
                 out.data(), y, scores);
      }
    });
  }

 private:
  static constexpr int64_t kRows = 64;  // queries that share one pass over keys and values

  struct Place {
    int64_t head, query;
  };
  Place PlaceOf(int64_t kv_head, int64_t row) const {
    return {kv_head * plan_.group + row / plan_.q.length, row % plan_.q.length};
  }

  void ScaleKeys(T root) {
    Tensor scaled = k_.held.Clone();
    T* values = scaled.MutableData<T>();
    for (int64_t i = 0; i < scaled.size(); ++i) values[i] *= root;
    RoundTo(plan_.type, values, scaled.size());
    k_.held = std::move(scaled);
  }

  void RunBlock(int64_t image, int64_t kv_head, int64_t first, int64_t rows, T* q, T* s, T* out, T* y,
                T* scores) const {
    for (int64_t i = 0; i < rows; ++i) {
      Place place = PlaceOf(kv_head, first + i);
      const T* from = q_.Data<T>() + plan_.q.Offset(image, place.head) + place.query * plan_.q.row();
      for (int64_t d = 0; d < plan_.q.size; ++d) q[i * plan_.q.size + d] = from[d] * q_scale_;
    }
    RoundTo(plan_.type, q, rows * plan_.q.size);
    Gemm<T>({.m = rows,
             .n = plan_.total,
             .k = plan_.q.size,
             .a = q,
             .a_row = plan_.q.size,
             .b = k_.At(image, kv_head),
             .b_row = 1,
             .b_col = k_.layout.row(),
             .c = s,
             .c_row = plan_.total},
            nullptr);
    RoundTo(plan_.type, s, rows * plan_.total);
    for (int64_t i = 0; i < rows; ++i) {
      Place place = PlaceOf(kv_head, first + i);
      T* kept = scores ? scores + ((image * plan_.q.heads + place.head) * plan_.q.length + place.query) * plan_.total
                       : nullptr;
      FinishRow(image, place, s + i * plan_.total, kept);
    }
    Gemm<T>({.m = rows,
             .n = plan_.v.size,
             .k = plan_.total,
             .a = s,
             .a_row = plan_.total,
             .b = v_.At(image, kv_head),
             .b_row = v_.layout.row(),
             .c = out,
             .c_row = plan_.v.size},
            nullptr);
    for (int64_t i = 0; i < rows; ++i) {
      Place place = PlaceOf(kv_head, first + i);
      int64_t at = plan_.q.is_packed
                       ? ((image * plan_.q.length + place.query) * plan_.q.heads + place.head) * plan_.v.size
                       : ((image * plan_.q.heads + place.head) * plan_.q.length + place.query) * plan_.v.size;
      std::copy_n(out + i * plan_.v.size, plan_.v.size, y + at);
    }
  }

  // Scores of one query become probabilities; `kept` takes the stage that the node asks for.
  void FinishRow(int64_t image, Place place, T* row, T* kept) const {
    auto keep = [&](int64_t mode) {
      if (kept && plan_.output_mode == mode) std::copy_n(row, plan_.total, kept);
    };
    keep(0);
    if (plan_.softcap != 0) SoftCap(row);
    keep(1);
    bool any = mask_.Add(plan_, image, place.head, place.query, row);
    RoundTo(plan_.type, row, plan_.total);
    keep(2);
    if (any) {
      SoftmaxRow(plan_.softmax_type, row, plan_.total);
      RoundTo(plan_.type, row, plan_.total);
    } else {
      std::fill_n(row, plan_.total, T{0});
    }
    keep(3);
  }

  void SoftCap(T* row) const {
    T cap = static_cast<T>(plan_.softcap);
    RoundTo(plan_.type, &cap, 1);
    for (int64_t j = 0; j < plan_.total; ++j) row[j] /= cap;
    RoundTo(plan_.type, row, plan_.total);
    for (int64_t j = 0; j < plan_.total; ++j) row[j] = std::tanh(row[j]);
    RoundTo(plan_.type, row, plan_.total);
    for (int64_t j = 0; j < plan_.total; ++j) row[j] *= cap;
    RoundTo(plan_.type, row, plan_.total);
  }

  const OpContext& context_;
  const AttentionPlan& plan_;
  Tensor q_;
  HeadRows<T> k_, v_;
  Mask<T> mask_;
  T q_scale_;
};

void ComputeAttention(OpContext& context) {
  AttentionPlan plan(context);
  const Tensor& q = context.Input(kQuery);
  Tensor k = context.Input(kKey), v = context.Input(kValue);
  Require(k.dtype() == plan.type, "Q is ", plan.type, ", K is ", k.dtype());
  HeadLayout k_layout = plan.k, v_layout = plan.v;
  if (context.Has(kPastKey) || context.Wants(1) || context.Wants(2)) {
    Tensor& present_key = context.Output(1, k.dtype(), Shape{plan.k.batch, plan.k.heads, plan.total, plan.k.size});
    Tensor& present_value = context.Output(2, v.dtype(), Shape{plan.v.batch, plan.v.heads, plan.total, plan.v.size});
    const Tensor* past_key = context.OptionalInput(kPastKey);
    const Tensor* past_value = context.OptionalInput(kPastValue);
    if (past_key)
      Require(past_key->dtype() == k.dtype() && past_value->dtype() == v.dtype(),
              "the past must have the types of K and V");
    JoinCache(past_key, k, plan.k, plan.past, present_key);
    JoinCache(past_value, v, plan.v, plan.past, present_value);
    k = present_key;
    v = present_value;
    k_layout = HeadLayout(k.shape(), 0, "present_key");
    v_layout = HeadLayout(v.shape(), 0, "present_value");
  }
  Tensor& y = context.Output(0, plan.type, plan.output);
  Tensor* kept = context.Wants(3)
                     ? &context.Output(3, plan.type, Shape{plan.q.batch, plan.q.heads, plan.q.length, plan.total})
                     : nullptr;
  bool is_small = IsSmallFloat(plan.type);
  Tensor result = is_small ? Tensor(DType::kFloat, y.shape()) : y;
  Tensor wide_kept = kept ? (is_small ? Tensor(DType::kFloat, kept->shape()) : *kept) : Tensor();
  Dispatch(FloatTypes{}, result.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    AttentionRun<T> run(context, plan, WidenToFloat(q), {WidenToFloat(k), k_layout},
                        {CastTensor(WidenToFloat(v), kDTypeOf<T>), v_layout});
    run.Run(result.MutableData<T>(), kept ? wide_kept.MutableData<T>() : nullptr);
  });
  NarrowInto(result, y);
  if (kept) NarrowInto(wide_kept, *kept);
}

// [batch, heads, length, size] of an input that may be packed; dims stay unknown where they cannot be told.
struct SymbolicHeads {
  Dim batch, heads, length, size;

  SymbolicHeads(const SymbolicShape* shape, int64_t packed_heads) {
    if (!shape) return;
    Require(shape->size() == 3 || shape->size() == 4, "Q, K and V must have 3 or 4 axes, one has shape ", *shape);
    batch = (*shape)[0];
    if (shape->size() == 4) {
      heads = (*shape)[1];
      length = (*shape)[2];
      size = (*shape)[3];
      return;
    }
    Require(packed_heads >= 1, "q_num_heads and kv_num_heads must be given for inputs of shape ", *shape);
    heads = Dim(packed_heads);
    length = (*shape)[1];
    size = FloorDivide((*shape)[2], heads);
  }
};

Dim FirstKnown(const Dim& a, const Dim& b) { return a.known() || b.unknown() ? a : (b.known() || a.unknown() ? b : a); }

void InferAttention(InferContext& context) {
  const Node& node = context.node();
  DType type = context.InputDType(kQuery);
  const SymbolicShape* q_shape = context.InputShape(kQuery);
  SymbolicHeads q(q_shape, node.Int("q_num_heads", 0)), k(context.InputShape(kKey), node.Int("kv_num_heads", 0)),
      v(context.InputShape(kValue), node.Int("kv_num_heads", 0));
  Dim batch = FirstKnown(q.batch, FirstKnown(k.batch, v.batch));
  Dim kv_heads = FirstKnown(k.heads, v.heads), total = FirstKnown(k.length, v.length);
  Dim size = FirstKnown(k.size, q.size), v_size = v.size;
  if (context.Has(kPastKey)) {
    const SymbolicShape* past = context.InputShape(kPastKey);
    const SymbolicShape* past_value = context.InputShape(kPastValue);
    Dim past_length = past && past->size() == 4 ? (*past)[2] : Dim();
    if (!past_length.known() && past_value && past_value->size() == 4) past_length = (*past_value)[2];
    total = total + past_length;
  }
  if (!q_shape)
    context.SetOutput(0, type);
  else if (q_shape->size() == 3)
    context.SetOutput(0, type, {batch, q.length, q.heads * v_size});
  else
    context.SetOutput(0, type, {batch, q.heads, q.length, v_size});
  context.SetOutput(1, context.InputDType(kKey), {batch, kv_heads, total, size});
  context.SetOutput(2, context.InputDType(kValue), {batch, kv_heads, total, v_size});
  context.SetOutput(3, type, {batch, q.heads, q.length, total});
}

}  // namespace

FERRY_OPERATOR(Attention, {.compute = ComputeAttention, .infer = InferAttention});

}  // namespace ferry
