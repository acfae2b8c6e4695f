#include "convert/quantize/samples.h"

#include <algorithm>
#include <cmath>

#include "base/directory.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "ops/support/cast_tensor.h"
#include "tensor/alignment.h"
#include "tensor/npz_view.h"

namespace ferry::quantize {
namespace {

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::vector<std::string> FindFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!IsDirectory(path)) {
      files.push_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const std::string& name : ListDirectory(path))
      if (EndsWith(name, ".npz")) files.push_back(JoinPath(path, name));
    if (files.size() == before) Fail(ErrorCode::kNotFound, path, ": there is no .npz file in this folder");
  }
  return files;
}

const Tensor* Find(const NamedTensors& arrays, const std::string& name) {
  for (const auto& [key, tensor] : arrays)
    if (key == name) return &tensor;
  return nullptr;
}

// Recordings may say in0, in1 … for the inputs in the model's order.
void NameByPosition(NamedTensors& arrays, const std::vector<ValueInfo>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (Find(arrays, inputs[i].name)) continue;
    for (auto& [key, tensor] : arrays)
      if (key == Cat("in", i)) key = inputs[i].name;
  }
}

// Eight-bit codes with NAME.scale and NAME.shift beside them are numbers.
Tensor Decoded(const NamedTensors& arrays, const std::string& name, const Tensor& rows) {
  const Tensor *scale = Find(arrays, name + ".scale"), *shift = Find(arrays, name + ".shift");
  if (!scale || !shift) return rows;
  const Tensor factor = CastTensor(Readable(*scale), DType::kFloat),
               addend = CastTensor(Readable(*shift), DType::kFloat);
  Tensor values = CastTensor(rows, DType::kFloat).Clone();
  auto along = [&](const Tensor& of, int64_t i) {
    if (of.size() == 1) return of.Data<float>()[0];
    // One for each channel, as numpy broadcasts them: [C, 1, 1] or the whole shape of a row.
    const int64_t inner = values.size() / std::max<int64_t>(1, values.dim(0));
    return of.Data<float>()[i % inner * of.size() / inner];
  };
  float* out = values.MutableData<float>();
  for (int64_t i = 0; i < values.size(); ++i) out[i] = out[i] * along(factor, i) + along(addend, i);
  return values;
}

// `place` says where the first row stands.
template <class Place>
void RequireFinite(const Tensor& tensor, const std::string& name, int64_t rows, const Place& place) {
  if (tensor.dtype() != DType::kFloat) return;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const float value = tensor.Data<float>()[i];
    if (std::isfinite(value)) continue;
    Fail(ErrorCode::kInvalidArgument, place(i * rows / tensor.size()), ": input '", Printable(name), "' has ",
         std::isnan(value) ? "NaN" : "an infinity", ", which no range can hold; leave the sample out");
  }
}

}  // namespace

Samples::Samples(const std::vector<std::string>& paths, const Session& session, int64_t batch)
    : inputs_(session.inputs()), files_(FindFiles(paths)) {
  for (size_t i = 0; i < files_.size(); ++i) AddFile(i, batch);
  if (!files_.empty()) Require(!places_.empty(), files_[0], ": there are no samples in it");
}

void Samples::AddFile(size_t file, int64_t batch) {
  const NamedTensors& arrays = Open(file);
  int64_t rows = -1, fixed = -1;
  bool batched = true;
  for (const ValueInfo& input : inputs_) {
    const Tensor* array = Find(arrays, input.name);
    if (!array) {
      std::vector<std::string> there;
      for (const auto& [key, tensor] : arrays) there.push_back(Printable(key));
      Fail(ErrorCode::kInvalidArgument, files_[file], ": has no array for input '", Printable(input.name),
           "'; it has: ", Join(there, ", "));
    }
    const auto& shape = input.type.shape;
    if (shape && shape->size() != array->rank())
      Fail(ErrorCode::kInvalidArgument, files_[file], ": array '", Printable(input.name), "' ", array->shape(),
           " does not fit the model's input ", input.type);
    for (size_t axis = 1; shape && axis < shape->size(); ++axis)
      if ((*shape)[axis].known() && *(*shape)[axis].value != array->dim(axis))
        Fail(ErrorCode::kInvalidArgument, files_[file], ": array '", Printable(input.name), "' ", array->shape(),
             " does not fit the model's input ", input.type);
    if (array->rank() == 0 || array->dtype() == DType::kString || IsPacked(array->dtype())) {
      batched = false;
      continue;
    }
    if (rows >= 0 && rows != array->dim(0)) batched = false;
    rows = array->dim(0);
    if (shape && (*shape)[0].known()) fixed = *(*shape)[0].value;
  }
  const bool is_whole = !batched || rows < 0;
  LookAtLabels(file, is_whole ? -1 : rows);
  if (is_whole) return places_.push_back({file, 0, 0, met_++ % 4 == 3});
  if (fixed >= 0) {
    if (fixed == 0 || rows % fixed != 0)
      Fail(ErrorCode::kInvalidArgument, files_[file], ": ", rows, " rows cannot be cut into the model's batches of ",
           fixed);
    batch = fixed;
    is_fixed_ = true;
  }
  const int64_t unit = is_fixed_ ? batch : 1, block = 4 * batch;
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t end = std::min(rows, begin + block), before = met_ / 4;
    met_ += (end - begin) / unit;
    const int64_t proof = std::max(begin, end - (met_ / 4 - before) * unit);
    AddRows(file, begin, proof, batch, false);
    AddRows(file, proof, end, batch, true);
  }
}

void Samples::AddRows(size_t file, int64_t begin, int64_t end, int64_t batch, bool is_proof) {
  for (; begin < end; begin += batch) places_.push_back({file, begin, std::min(batch, end - begin), is_proof});
}

int64_t Samples::all_rows() const {
  int64_t all = 0;
  for (const Place& place : places_) all += std::max<int64_t>(1, place.count);
  return all;
}

void Samples::LookAtLabels(size_t file, int64_t rows) {
  const Tensor* labels = Find(Open(file), "labels");
  if (!labels) return;
  has_labels_ = true;
  if (rows >= 0 && labels->rank() > 0 && labels->dim(0) != rows)
    Fail(ErrorCode::kInvalidArgument, files_[file], ": there are ", labels->dim(0), " labels for ", rows,
         " rows; one for each row is needed");
  if (labels->rank() == 0 || !IsInteger(labels->dtype()))
    wrong_labels_ = Cat(files_[file], ": 'labels' are ", labels->dtype(), " ", labels->shape());
}

const NamedTensors& Samples::Open(size_t file) const {
  if (opened_ != file) {
    arrays_ = ViewNpz(files_[file]);
    NameByPosition(arrays_, inputs_);
    opened_ = file;
    // Reading looked at every byte; only samples in use are to be in memory.
    for (const auto& [name, tensor] : arrays_) DropPages(tensor.raw(), tensor.bytes());
  }
  return arrays_;
}

std::string Samples::name(size_t sample) const {
  const Place& place = places_[sample];
  std::string name(LastPart(files_[place.file]));
  if (place.count > 0)
    name += Cat(" row ", place.begin, place.count > 1 ? Cat("–", place.begin + place.count - 1) : "");
  return name;
}

std::vector<NamedValue> Samples::Inputs(size_t sample) const { return At(sample, places_[sample]); }

std::vector<NamedValue> Samples::OneRow() const {
  Place place = places_[0];
  if (!is_fixed_ && place.count > 1) place.count = 1;
  return At(0, place);
}

std::vector<NamedValue> Samples::At(size_t sample, const Place& place) const {
  const NamedTensors& arrays = Open(place.file);
  std::vector<NamedValue> inputs;
  for (const ValueInfo& input : inputs_) {
    const Tensor& whole = *Find(arrays, input.name);
    const Tensor stored = place.count > 0 ? whole.Rows(place.begin, place.count) : whole;
    Tensor rows = Decoded(arrays, input.name, stored.Clone());
    DropPages(stored.raw(), stored.bytes());
    const DType wanted = input.type.dtype;
    if (wanted != DType::kUndefined && wanted != rows.dtype()) {
      const bool both_numbers = IsFloating(wanted) == IsFloating(rows.dtype()) && rows.dtype() != DType::kString;
      if (!both_numbers)
        Fail(ErrorCode::kInvalidArgument, name(sample), ": array '", Printable(input.name), "' is ", rows.dtype(),
             ", the model takes ", wanted);
      rows = CastTensor(rows, wanted);
    }
    RequireFinite(rows, input.name, std::max<int64_t>(1, place.count), [&](int64_t row) {
      return place.count > 0 ? Cat(LastPart(files_[place.file]), " row ", place.begin + row) : name(sample);
    });
    inputs.emplace_back(input.name, rows);
  }
  return inputs;
}

std::vector<int64_t> Samples::Labels(size_t sample) const {
  const Place& place = places_[sample];
  const Tensor* labels = Find(Open(place.file), "labels");
  if (!labels || labels->rank() == 0 || !IsInteger(labels->dtype())) return {};
  if (place.count == 0) return ToInt64Vector(Readable(*labels));
  return ToInt64Vector(Readable(labels->Rows(place.begin, place.count)));
}

}  // namespace ferry::quantize
