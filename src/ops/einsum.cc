#include <algorithm>
#include <type_traits>

#include "kernels/gemm.h"
#include "ops/operator.h"
#include "ops/support/dispatch.h"
#include "ops/support/einsum_equation.h"
#include "ops/support/widen.h"

namespace ferry {
namespace {

using Labels = std::vector<size_t>;

bool Contains(const Labels& labels, size_t label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// Elements addressed by labels; a label may have stride 0 where the operand is stretched.
template <class T>
struct View {
  Tensor held;  // keeps the elements alive
  const T* data = nullptr;
  Labels labels;
  std::vector<int64_t> strides;

  int64_t StrideOf(size_t label) const {
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] == label) return strides[i];
    return 0;
  }
};

// Several labels walked as one: possible where each stride is the next one's times its size.
struct Merged {
  int64_t size = 1, stride = 0;
  bool possible = true;
};

template <class T>
class Contraction {
 public:
  Contraction(const OpContext& context, std::vector<int64_t> sizes) : context_(context), sizes_(std::move(sizes)) {}

  // A repeated label walks the diagonal.
  View<T> Operand(const Tensor& tensor, const Labels& term) const {
    View<T> view{tensor, reinterpret_cast<const T*>(tensor.raw()), {}, {}};
    std::vector<int64_t> strides = tensor.shape().Strides();
    for (size_t axis = 0; axis < term.size(); ++axis) {
      int64_t stride = tensor.dim(axis) == 1 ? 0 : strides[axis];
      auto at = std::find(view.labels.begin(), view.labels.end(), term[axis]);
      if (at == view.labels.end()) {
        view.labels.push_back(term[axis]);
        view.strides.push_back(stride);
      } else {
        view.strides[static_cast<size_t>(at - view.labels.begin())] += stride;
      }
    }
    return view;
  }

  // Sums over `summed` and lays the rest out densely in the order `kept`.
  void Reduce(const View<T>& view, const Labels& kept, const Labels& summed, T* out) const {
    int64_t count = Count(kept);
    std::fill_n(out, count, T{0});
    if (count == 0) return;
    Walk(view, summed, [&](int64_t base) {
      int64_t at = 0;
      Walk(view, kept, [&](int64_t offset) { out[at++] += view.data[base + offset]; });
    });
  }

  View<T> Dense(const View<T>& view, const Labels& kept, const Labels& summed) const {
    Tensor out(kDTypeOf<T>, Shape{Count(kept)});
    Reduce(view, kept, summed, out.template MutableData<T>());
    return DenseView(std::move(out), kept);
  }

  // Multiplies two operands and sums over every label that `needed` does not have.
  View<T> Multiply(View<T> a, View<T> b, const Labels& needed) const {
    a = SumAlone(std::move(a), b.labels, needed);
    b = SumAlone(std::move(b), a.labels, needed);
    Labels batch, contracted, a_only, b_only;
    for (size_t label : a.labels) {
      if (!Contains(b.labels, label))
        a_only.push_back(label);
      else
        (Contains(needed, label) ? batch : contracted).push_back(label);
    }
    for (size_t label : b.labels)
      if (!Contains(a.labels, label)) b_only.push_back(label);

    Arrange(a, batch, a_only, contracted);
    Arrange(b, batch, contracted, b_only);
    Merged a_row = Merge(a, a_only), a_col = Merge(a, contracted), b_row = Merge(b, contracted),
           b_col = Merge(b, b_only);
    std::vector<GemmBatch> batches;
    std::vector<int64_t> b_offsets;
    Walk(a, batch, [&](int64_t offset) { batches.push_back({offset, 0}); });
    Walk(b, batch, [&](int64_t offset) { b_offsets.push_back(offset); });
    for (size_t i = 0; i < batches.size(); ++i) batches[i].b = b_offsets[i];

    Labels result = batch;
    result.insert(result.end(), a_only.begin(), a_only.end());
    result.insert(result.end(), b_only.begin(), b_only.end());
    Tensor out(kDTypeOf<T>, Shape{Count(result)});
    if (out.size() > 0)
      Gemm<T>({.m = a_row.size,
               .n = b_col.size,
               .k = a_col.size,
               .a = a.data,
               .a_row = a_row.stride,
               .a_col = a_col.stride,
               .b = b.data,
               .b_row = b_row.stride,
               .b_col = b_col.stride,
               .c = out.template MutableData<T>(),
               .c_row = b_col.size,
               .c_batch = a_row.size * b_col.size,
               .batches = batches},
              context_.services().pool);
    return DenseView(std::move(out), result);
  }

 private:
  int64_t Count(const Labels& labels) const {
    int64_t count = 1;
    for (size_t label : labels) count = CheckedProduct(count, sizes_[label]);
    return count;
  }

  View<T> DenseView(Tensor tensor, const Labels& labels) const {
    View<T> view{tensor, tensor.Data<T>(), labels, std::vector<int64_t>(labels.size())};
    int64_t stride = 1;
    for (size_t i = labels.size(); i-- > 0; stride *= std::max<int64_t>(sizes_[labels[i]], 1)) view.strides[i] = stride;
    return view;
  }

  // Calls visit(offset) for every combination of the labels' indices, the last one fastest.
  template <class Visit>
  void Walk(const View<T>& view, const Labels& labels, const Visit& visit) const {
    std::vector<int64_t> strides, index(labels.size());
    for (size_t label : labels) {
      if (sizes_[label] == 0) return;
      strides.push_back(view.StrideOf(label));
    }
    int64_t offset = 0;
    for (;;) {
      visit(offset);
      size_t i = labels.size();
      for (;;) {
        if (i-- == 0) return;
        offset += strides[i];
        if (++index[i] < sizes_[labels[i]]) break;
        offset -= strides[i] * sizes_[labels[i]];
        index[i] = 0;
      }
    }
  }

  View<T> SumAlone(View<T> view, const Labels& other, const Labels& needed) const {
    Labels kept, summed;
    for (size_t label : view.labels)
      (Contains(other, label) || Contains(needed, label) ? kept : summed).push_back(label);
    return summed.empty() ? view : Dense(view, kept, summed);
  }

  Merged Merge(const View<T>& view, const Labels& labels) const {
    Merged merged;
    for (size_t i = labels.size(); i-- > 0;) {
      int64_t size = sizes_[labels[i]], stride = view.StrideOf(labels[i]);
      if (size == 1) continue;
      if (merged.size == 1) {
        merged.stride = stride;
      } else if (stride != merged.stride * merged.size) {
        merged.possible = false;
      }
      merged.size = CheckedProduct(merged.size, size);
    }
    return merged;
  }

  // Copies the operand where its rows or columns cannot be walked with one stride.
  void Arrange(View<T>& view, const Labels& batch, const Labels& rows, const Labels& columns) const {
    if (Merge(view, rows).possible && Merge(view, columns).possible) return;
    Labels order = batch;
    order.insert(order.end(), rows.begin(), rows.end());
    order.insert(order.end(), columns.begin(), columns.end());
    view = Dense(view, order, {});
  }

  const OpContext& context_;
  std::vector<int64_t> sizes_;
};

std::vector<int64_t> LabelSizes(const EinsumEquation& equation, const std::vector<Tensor>& operands) {
  std::vector<int64_t> sizes(equation.label_count, 1);
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t axis = 0; axis < operands[i].rank(); ++axis) {
      int64_t& size = sizes[equation.terms[i][axis]];
      int64_t dim = operands[i].dim(axis);
      Require(size == 1 || dim == 1 || size == dim, "operand ", i, " of shape ", operands[i].shape(), " has size ", dim,
              " where another has ", size);
      if (dim != 1) size = dim;
    }
  return sizes;
}

template <class T>
void RunEinsum(const OpContext& context, const EinsumEquation& equation, const std::vector<Tensor>& operands,
               Tensor& y) {
  Contraction<T> contraction(context, LabelSizes(equation, operands));
  View<T> result = contraction.Operand(operands[0], equation.terms[0]);
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels needed = equation.output;
    for (size_t later = i + 1; later < operands.size(); ++later)
      needed.insert(needed.end(), equation.terms[later].begin(), equation.terms[later].end());
    result = contraction.Multiply(std::move(result), contraction.Operand(operands[i], equation.terms[i]), needed);
  }
  Labels summed;
  for (size_t label : result.labels)
    if (!Contains(equation.output, label)) summed.push_back(label);
  contraction.Reduce(result, equation.output, summed, reinterpret_cast<T*>(y.mutable_raw()));
}

// Integers are multiplied as unsigned words, where overflow wraps; only the low bits of narrow types are kept.
template <class Word, class Narrow>
Tensor WidenIntegers(const Tensor& tensor) {
  Tensor out(kDTypeOf<Word>, tensor.shape());
  const Narrow* from = tensor.Data<Narrow>();
  Word* to = out.template MutableData<Word>();
  for (int64_t i = 0; i < tensor.size(); ++i) to[i] = static_cast<Word>(from[i]);
  return out;
}

void RunNarrowIntegers(const OpContext& context, const EinsumEquation& equation, std::vector<Tensor> operands,
                       Tensor& y) {
  Dispatch(TypeList<int8_t, int16_t, uint8_t, uint16_t>{}, y.dtype(), [&](auto tag) {
    using Narrow = typename decltype(tag)::type;
    for (Tensor& operand : operands) operand = WidenIntegers<uint32_t, Narrow>(operand);
    Tensor wide(DType::kUInt32, y.shape());
    RunEinsum<uint32_t>(context, equation, operands, wide);
    const uint32_t* from = wide.Data<uint32_t>();
    Narrow* to = y.MutableData<Narrow>();
    for (int64_t i = 0; i < y.size(); ++i) to[i] = static_cast<Narrow>(from[i]);
  });
}

void ComputeEinsum(OpContext& context) {
  std::vector<Tensor> operands;
  std::vector<size_t> ranks;
  for (size_t i = 0; i < context.input_count(); ++i) {
    operands.push_back(context.Input(i));
    ranks.push_back(operands.back().rank());
    Require(operands[i].dtype() == operands[0].dtype(), "the operands have different types");
  }
  Require(!operands.empty(), "needs at least one operand");
  EinsumEquation equation = EinsumEquation::Parse(context.node().String("equation", ""), ranks);
  std::vector<int64_t> sizes = LabelSizes(equation, operands);
  Shape shape;
  for (size_t label : equation.output) shape.push_back(sizes[label]);
  DType type = operands[0].dtype();
  Tensor& y = context.Output(0, type, shape);
  if (IsFloating(type)) {
    for (Tensor& operand : operands) operand = WidenToFloat(operand);
    Tensor result = IsSmallFloat(type) ? Tensor(DType::kFloat, shape) : y;
    Dispatch(FloatTypes{}, result.dtype(),
             [&](auto tag) { RunEinsum<typename decltype(tag)::type>(context, equation, operands, result); });
    NarrowInto(result, y);
  } else if (type == DType::kInt32 || type == DType::kUInt32) {
    RunEinsum<uint32_t>(context, equation, operands, y);
  } else if (type == DType::kInt64 || type == DType::kUInt64) {
    RunEinsum<uint64_t>(context, equation, operands, y);
  } else {
    RunNarrowIntegers(context, equation, std::move(operands), y);
  }
}

void InferEinsum(InferContext& context) {
  DType type = context.InputDType(0);
  std::vector<size_t> ranks;
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (!context.InputShape(i)) return context.SetOutput(0, type);
    ranks.push_back(context.InputShape(i)->size());
  }
  EinsumEquation equation = EinsumEquation::Parse(context.node().String("equation", ""), ranks);
  std::vector<Dim> sizes(equation.label_count, Dim(1));
  for (size_t i = 0; i < ranks.size(); ++i)
    for (size_t axis = 0; axis < ranks[i]; ++axis) {
      Dim& size = sizes[equation.terms[i][axis]];
      const Dim& dim = (*context.InputShape(i))[axis];
      bool size_is_one = size.known() && *size.value == 1, dim_is_one = dim.known() && *dim.value == 1;
      if (dim_is_one || SameDim(size, dim)) continue;
      Require(size_is_one || !size.known() || !dim.known(), "operand ", i, " has size ", dim, " where another has ",
              size);
      if (size_is_one || dim.known())
        size = dim;
      else if (!size.known())
        size = Dim();
    }
  SymbolicShape out;
  for (size_t label : equation.output) out.push_back(sizes[label]);
  context.SetOutput(0, type, std::move(out));
}

}  // namespace

FERRY_OPERATOR(Einsum, {.compute = ComputeEinsum, .infer = InferEinsum});

}  // namespace ferry
