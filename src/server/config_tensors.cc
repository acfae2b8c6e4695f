#include "server/config_tensors.h"

#include <algorithm>

#include "server/datatype.h"
#include "server/refusal.h"

namespace ferry::server {
namespace {

// The dims that the model declares; nothing where it does not say its rank.
std::optional<std::vector<int64_t>> DimsOf(const Type& type) {
  if (!type.has_rank()) return std::nullopt;
  std::vector<int64_t> dims;
  for (const Dim& dim : *type.shape) dims.push_back(dim.known() && *dim.value >= 0 ? *dim.value : -1);
  return dims;
}

// Elements of each run of dims between those that are free.
std::vector<double> Trunks(const std::vector<int64_t>& dims) {
  std::vector<double> counts = {1};
  for (int64_t dim : dims)
    if (dim < 0)
      counts.push_back(1);
    else
      counts.back() *= static_cast<double>(dim);
  return counts;
}

const Json* ReshapeOf(const Json& io) {
  const Json* reshape = io.Find("reshape");
  return reshape && !reshape->is_null() ? reshape : nullptr;
}

}  // namespace

std::vector<int64_t> ListOfIntegers(const Json* list) {
  std::vector<int64_t> out;
  if (list)
    for (const Json& item : list->AsArray()) out.push_back(item.AsInt());
  return out;
}

void ReplaceField(Json& object, std::string_view key, Json value) {
  Json out = Json::Object{};
  for (const auto& [name, held] : object.AsObject())
    if (name != key) out.Set(name, held);
  out.Set(key, std::move(value));
  object = std::move(out);
}

Json TensorCompletion::FromModel(const ValueInfo& info) const {
  if (!info.type.is_tensor() || DatatypeName(info.type.dtype).empty())
    Refuse(Code::kUnimplemented, is_input_ ? "input '" : "output '", Printable(info.name), "' of model '", model_,
           "' is ", info.type, ", which the protocol cannot carry");
  std::vector<int64_t> dims = DimsOf(info.type).value_or(std::vector<int64_t>{-1});
  if (max_batch_size_ > 0 && !dims.empty()) dims.erase(dims.begin());
  Json made = Json().Set("name", info.name).Set("data_type", ConfigTypeName(info.type.dtype));
  // Clients know no scalars: they see one element, and with a batch the model is given none.
  if (!dims.empty()) return made.Set("dims", Json::List(dims));
  made.Set("dims", Json(Json::Array{1}));
  if (max_batch_size_ > 0) made.Set("reshape", Json().Set("shape", Json(Json::Array{})));
  return made;
}

Json TensorCompletion::Complete(const Json& given, const ValueInfo& info) const {
  const Json own = FromModel(info);
  Json full = given;
  if (!given.Find("data_type"))
    full.Set("data_type", own.At("data_type"));
  else if (given.At("data_type").AsString() != own.At("data_type").AsString())
    Refuse(Code::kInvalidArgument, "model '", model_, "', tensor '", info.name, "': the model expects data type ",
           own.At("data_type").AsString(), " but the model configuration specifies ", given.At("data_type").AsString());
  if (const Json* dims = given.Find("dims"); !dims || dims->AsArray().empty()) {
    ReplaceField(full, "dims", own.At("dims"));
    if (!ReshapeOf(given) && own.Find("reshape")) full.Set("reshape", own.At("reshape"));
  }
  CheckShape(full, info.name);
  CheckAgainst(full, info);
  return full;
}

// As Triton's ValidateIOShape.
void TensorCompletion::CheckShape(const Json& io, const std::string& name) const {
  const std::string prefix = Cat("model ", is_input_ ? "input '" : "output '", Printable(name), "' ");
  auto check_dims = [&](const std::vector<int64_t>& dims, const char* what) {
    for (int64_t dim : dims)
      if (dim < 1 && dim != -1)
        Refuse(Code::kInvalidArgument, prefix, what, " must be integer >= 1, or -1 to indicate a variable-size ",
               "dimension for ", model_);
  };
  const std::vector<int64_t> dims = ListOfIntegers(io.Find("dims"));
  check_dims(dims, "dimension");
  const Json* given = ReshapeOf(io);
  if (!given) return;
  const std::vector<int64_t> reshape = ListOfIntegers(given->Find("shape"));
  if (reshape.empty() && max_batch_size_ == 0)
    Refuse(Code::kInvalidArgument, prefix,
           "cannot have empty reshape for non-batching model as scalar tensors are not supported for ", model_);
  check_dims(reshape, "reshape dimensions");
  CheckReshape(prefix, dims, reshape);
}

void TensorCompletion::CheckReshape(const std::string& prefix, const std::vector<int64_t>& dims,
                                    const std::vector<int64_t>& reshape) const {
  const std::vector<double> from = Trunks(dims), to = Trunks(reshape);
  const bool both_free = from.size() > 1 && to.size() > 1;
  if (both_free && from.size() != to.size())
    Refuse(Code::kInvalidArgument, prefix, "has different number of variable-size dimensions for dims and reshape for ",
           model_);
  if (from != to) Refuse(Code::kInvalidArgument, prefix, "has different size for dims and reshape for ", model_);
}

void TensorCompletion::CheckAgainst(const Json& io, const ValueInfo& info) const {
  const Json* reshape = ReshapeOf(io);
  std::vector<int64_t> said = ListOfIntegers(reshape ? reshape->Find("shape") : io.Find("dims"));
  const std::optional<std::vector<int64_t>> has = DimsOf(info.type);
  if (!has) return;
  if (has->empty() && max_batch_size_ == 0) {
    if (std::any_of(said.begin(), said.end(), [](int64_t dim) { return dim != 1; }))
      Refuse(Code::kInvalidArgument, "unable to load model '", model_, "', scalar tensor '", Printable(info.name),
             "', should only provide 1 in the model configuration when the model doesn't support batching. Model ",
             "configuration provided: ", DimsText(said), ".");
    return;
  }
  if (max_batch_size_ > 0) said.insert(said.begin(), -1);
  bool fits = said.size() == has->size();
  for (size_t i = 0; i < said.size() && fits; ++i) fits = said[i] == (*has)[i] || said[i] == -1 || (*has)[i] == -1;
  // A batch that the model fixes cannot be free.
  if (fits && max_batch_size_ > 0 && !has->empty() && (*has)[0] != -1) fits = false;
  if (!fits)
    Refuse(Code::kInvalidArgument, "model '", model_, "', tensor '", info.name, "': the model expects ", has->size(),
           " dimensions (shape ", DimsText(*has), ") but the model configuration specifies ", said.size(),
           " dimensions (",
           max_batch_size_ > 0 ? "an initial batch dimension because max_batch_size > 0 followed by the explicit "
                                 "tensor shape, making complete shape "
                               : "shape ",
           DimsText(said), ")");
}

TensorConfig TensorCompletion::Read(const Json& json, const ValueInfo& info) const {
  TensorConfig tensor;
  tensor.name = json.At("name").AsString();
  tensor.dtype = DTypeFromConfigName(json.At("data_type").AsString());
  tensor.dims = ListOfIntegers(json.Find("dims"));
  if (const Json* reshape = ReshapeOf(json)) tensor.reshape = ListOfIntegers(reshape->Find("shape"));
  if (const Json* optional = json.Find("optional")) tensor.optional = optional->AsBool();
  if (info.type.has_rank() && info.type.shape->empty()) tensor.reshape = std::vector<int64_t>();
  return tensor;
}

}  // namespace ferry::server
