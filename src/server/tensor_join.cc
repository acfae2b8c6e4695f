#include "server/tensor_join.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace ferry::server {

bool CanJoin(const Job& a, const Job& b) {
  if (&a == &b) return true;
  if (a.output_names != b.output_names || a.request.inputs.size() != b.request.inputs.size()) return false;
  for (size_t i = 0; i < a.request.inputs.size(); ++i) {
    const auto& [name, value] = a.request.inputs[i];
    const auto& [other_name, other] = b.request.inputs[i];
    if (name != other_name || value.tensor().dtype() != other.tensor().dtype()) return false;
    const auto shape = value.tensor().shape().dims(), other_shape = other.tensor().shape().dims();
    if (shape.size() != other_shape.size() || shape.empty() ||
        !std::equal(shape.begin() + 1, shape.end(), other_shape.begin() + 1))
      return false;
  }
  return true;
}

std::vector<NamedValue> JoinInputs(const std::vector<std::unique_ptr<Job>>& jobs) {
  int64_t rows = 0;
  for (const auto& job : jobs) rows += job->rows;
  std::vector<NamedValue> joined;
  const std::vector<NamedValue>& first = jobs.front()->request.inputs;
  for (size_t i = 0; i < first.size(); ++i) {
    Shape shape = first[i].second.tensor().shape();
    shape[0] = rows;
    Tensor all(first[i].second.tensor().dtype(), shape);
    size_t at = 0;
    for (const auto& job : jobs) {
      const Tensor& part = job->request.inputs[i].second.tensor();
      if (part.dtype() == DType::kString) {
        std::copy_n(part.Data<std::string>(), part.size(), all.MutableData<std::string>() + at);
        at += static_cast<size_t>(part.size());
      } else if (part.bytes() > 0) {
        std::memcpy(all.mutable_raw() + at, part.raw(), part.bytes());
        at += part.bytes();
      }
    }
    joined.emplace_back(first[i].first, std::move(all));
  }
  return joined;
}

bool HaveRows(const std::vector<Value>& outputs, int64_t rows) {
  return std::all_of(outputs.begin(), outputs.end(), [&](const Value& output) {
    return output.is_tensor() && output.tensor().rank() > 0 && output.tensor().dim(0) == rows;
  });
}

std::vector<Value> RowsOf(const std::vector<Value>& outputs, int64_t begin, int64_t count) {
  std::vector<Value> rows;
  for (const Value& output : outputs) rows.emplace_back(output.tensor().Rows(begin, count));
  return rows;
}

namespace {

template <class T>
bool Close(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (T x : a.Span<T>()) largest = std::max(largest, std::isfinite(x) ? std::fabs(static_cast<double>(x)) : 0);
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.Data<T>()[i], y = b.Data<T>()[i];
    if (std::isnan(x) && std::isnan(y)) continue;
    if (x != y && !(std::fabs(x - y) <= 1e-3 * std::fabs(y) + 1e-4 * largest + 1e-6)) return false;
  }
  return true;
}

bool Close(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  if (a.dtype() == DType::kFloat) return Close<float>(a, b);
  if (a.dtype() == DType::kDouble) return Close<double>(a, b);
  if (IsSmallFloat(a.dtype())) return true;  // coarser than the rounding
  return Identical(a, b);
}

}  // namespace

bool AreClose(const std::vector<Value>& a, const std::vector<Value>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const Value& x, const Value& y) {
           return x.is_tensor() && y.is_tensor() && Close(x.tensor(), y.tensor());
         });
}

}  // namespace ferry::server
