#include "server/served_model.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/confined_file.h"
#include "base/directory.h"
#include "base/error.h"
#include "server/datatype.h"
#include "server/tensor_json.h"

namespace ferry::server {
namespace {

constexpr size_t kMostLabelBytes = size_t{64} << 20;

// The tensor of shape `from` under the shape `to`; free sizes of the one are those of the other, in order.
Tensor Reshape(const Tensor& tensor, bool batch, const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  const size_t first = batch && tensor.rank() > 0 ? 1 : 0;
  Shape shape;
  if (first > 0) shape.push_back(tensor.dim(0));
  std::vector<int64_t> free;
  for (size_t i = 0; i < from.size() && first + i < tensor.rank(); ++i)
    if (from[i] < 0) free.push_back(tensor.dim(static_cast<int64_t>(first + i)));
  size_t next = 0;
  for (int64_t dim : to) {
    if (dim < 0 && next >= free.size()) return tensor;
    shape.push_back(dim < 0 ? free[next++] : dim);
  }
  return shape.ElementCount() == tensor.size() ? tensor.Reshaped(shape) : tensor;
}

}  // namespace

ServedModel::ServedModel(const std::string& name, int64_t version, const std::string& folder, const std::string& file,
                         const Json& given_config, ModelHost& host)
    : name_(name), version_(version), version_text_(Cat(version)) {
  const Clock::time_point begun = Clock::now();
  SessionOptions options;
  options.provider = host.provider;
  options.cache_folder = host.cache_folder;
  options.runtime = host.wide;
  wide_ = Session::Open(file, options);
  options.runtime = host.narrow;
  narrow_ = Session::Open(file, options);
  config_ =
      CompleteConfig(given_config, name, wide_->inputs(), wide_->overridable_inputs(), wide_->outputs(), host.defaults);
  ReadLabels(folder);
  for (const auto* side : {&config_.inputs, &config_.outputs})
    for (const TensorConfig& tensor : *side) has_reshapes_ |= tensor.reshape.has_value();
  for (const TensorConfig& output : config_.outputs) all_outputs_.push_back(output.name);
  Log* log = host.log;
  scheduler_ =
      std::make_unique<Scheduler>(config_, wide_, narrow_, stats_, host.policy, [log](const std::string& text) {
        if (log) log->Write(LogLevel::kWarning, text);
      });
  RunWarmups(folder);
  load_seconds_ = std::chrono::duration<double>(Clock::now() - begun).count();
  if (host.log)
    host.log->Write(LogLevel::kInfo,
                    Cat("loaded model '", name_, "' version ", version_text_, ": ",
                        config_.dynamic_batching ? Cat("requests are joined up to ", config_.max_batch_size, " rows")
                                                 : Cat("requests are not joined (", config_.no_batching_reason, ")"),
                        ", ", config_.instances, " instances"));
}

void ServedModel::ReadLabels(const std::string& folder) {
  const Json* outputs = config_.json.Find("output");
  for (size_t i = 0; outputs && i < config_.outputs.size(); ++i) {
    const Json* file = outputs->AsArray()[i].Find("label_filename");
    if (!file || file->AsString().empty()) continue;
    const std::shared_ptr<MappedFile> mapped = MapConfinedFile(folder, file->AsString(), "the model's folder");
    if (mapped->size() > kMostLabelBytes)
      Refuse(Code::kInvalidArgument, "the labels in ", file->AsString(), " are too large");
    for (std::string& label : SplitText(mapped->text(), '\n')) {
      if (!label.empty() && label.back() == '\r') label.pop_back();
      config_.outputs[i].labels.push_back(std::move(label));
    }
    if (!config_.outputs[i].labels.empty() && config_.outputs[i].labels.back().empty())
      config_.outputs[i].labels.pop_back();
  }
}

namespace {

// A sample repeated for every row.
Tensor Repeated(const Tensor& sample, int64_t rows) {
  Shape shape = sample.shape();
  shape[0] = rows;
  Tensor out(sample.dtype(), shape);
  for (int64_t row = 0; row < rows; ++row)
    if (sample.dtype() == DType::kString)
      std::copy_n(sample.Data<std::string>(), sample.size(), out.MutableData<std::string>() + row * sample.size());
    else if (sample.bytes() > 0)
      std::memcpy(out.mutable_raw() + static_cast<size_t>(row) * sample.bytes(), sample.raw(), sample.bytes());
  return out;
}

}  // namespace

Tensor ServedModel::WarmupSample(const WarmupInput& input, const TensorConfig& config, const Shape& shape,
                                 const std::string& folder) const {
  if (input.data == WarmupInput::Data::kNone)
    Refuse(Code::kInvalidArgument, "warmup setting expects input '", Printable(input.name),
           "' to have input_data_type set");
  if (input.data == WarmupInput::Data::kFile) {
    const std::shared_ptr<MappedFile> data =
        MapConfinedFile(JoinPath(folder, "warmup"), input.file, "the folder warmup");
    if (config.dtype == DType::kString) return StringsFromBytes(data->text(), shape, input.name, name_);
    Tensor tensor(config.dtype, shape);
    if (data->size() < tensor.bytes())
      Refuse(Code::kInvalidArgument, "warmup setting expects ", tensor.bytes(), " bytes, but the data provided from ",
             Printable(input.file), " only has ", data->size(), " bytes");
    if (tensor.bytes() > 0) std::memcpy(tensor.mutable_raw(), data->data(), tensor.bytes());
    return tensor;
  }
  Tensor tensor = Tensor::Zeros(config.dtype, shape);
  if (input.data == WarmupInput::Data::kRandom && config.dtype == DType::kFloat) {
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> uniform(0, 1);
    for (int64_t i = 0; i < tensor.size(); ++i) tensor.MutableData<float>()[i] = uniform(generator);
  }
  return tensor;
}

NamedValue ServedModel::WarmupValue(const Warmup& warmup, const WarmupInput& input, const std::string& folder) const {
  const TensorConfig* config = config_.FindInput(input.name);
  if (!config)
    Refuse(Code::kInvalidArgument, "warm-up '", warmup.name, "' has the unknown input '", Printable(input.name), "'");
  const bool batch = config_.max_batch_size > 0;
  constexpr int64_t kMostRows = 65536;  // where the configuration sets no limit
  if (batch && warmup.batch_size > (config_.is_batch_assumed ? kMostRows : config_.max_batch_size))
    Refuse(Code::kInvalidArgument, "warm-up '", warmup.name, "': batch_size ", warmup.batch_size, " is too large");
  Shape shape;
  if (batch) shape.push_back(1);
  for (int64_t dim : input.dims) {
    if (dim < 0)
      Refuse(Code::kInvalidArgument, "warmup setting expects all variable-size dimensions are specified for input '",
             Printable(input.name), "'");
    shape.push_back(dim);
  }
  const Tensor sample = WarmupSample(input, *config, shape, folder);
  return {input.name, batch ? Repeated(sample, warmup.batch_size) : sample};
}

void ServedModel::RunWarmups(const std::string& folder) {
  for (const Warmup& warmup : config_.warmups) {
    if (warmup.batch_size == 0) continue;
    InferRequest request;
    for (const WarmupInput& input : warmup.inputs) request.inputs.push_back(WarmupValue(warmup, input, folder));
    const std::unique_ptr<Job> job = MakeJob(std::move(request));
    for (int64_t i = 0; i < warmup.count; ++i) narrow_->Run(job->request.inputs, job->output_names);
  }
}

bool ServedModel::WarmUp() {
  InferRequest request;
  for (const TensorConfig& input : config_.inputs) {
    if (input.optional) continue;
    Shape shape;
    if (config_.max_batch_size > 0) shape.push_back(1);
    for (int64_t dim : input.dims) {
      if (dim < 0 || !input.has_dims) return false;
      shape.push_back(dim);
    }
    request.inputs.emplace_back(input.name, Tensor::Zeros(input.dtype, shape));
  }
  try {
    const std::unique_ptr<Job> job = MakeJob(std::move(request));
    for (int i = 0; i < 2; ++i) narrow_->Run(job->request.inputs, job->output_names);
    return true;
  } catch (const std::exception&) {
    return false;  // zeros are no input of this model
  }
}

Json ServedModel::Metadata() const {
  auto describe = [&](const std::vector<TensorConfig>& tensors) {
    Json list = Json::Array{};
    for (const TensorConfig& tensor : tensors) {
      std::vector<int64_t> shape = tensor.dims;
      if (config_.max_batch_size > 0) shape.insert(shape.begin(), -1);
      list.Add(
          Json().Set("name", tensor.name).Set("datatype", DatatypeName(tensor.dtype)).Set("shape", Json::List(shape)));
    }
    return list;
  };
  return Json()
      .Set("name", name_)
      .Set("versions", Json(Json::Array{}))
      .Set("platform", config_.json.At("platform"))
      .Set("inputs", describe(config_.inputs))
      .Set("outputs", describe(config_.outputs));
}

void ServedModel::FailMissing(const InferRequest& request) const {
  std::vector<std::string> given, missing;
  for (const NamedValue& input : request.inputs) given.push_back(Cat("'", Printable(input.first), "'"));
  for (const TensorConfig& config : config_.inputs) {
    const bool has = std::any_of(request.inputs.begin(), request.inputs.end(),
                                 [&](const NamedValue& input) { return input.first == config.name; });
    if (!has && !config.optional) missing.push_back(Cat("'", config.name, "'"));
  }
  const auto required = std::count_if(config_.inputs.begin(), config_.inputs.end(),
                                      [](const TensorConfig& input) { return !input.optional; });
  const bool has_optional = static_cast<size_t>(required) < config_.inputs.size();
  Refuse(Code::kInvalidArgument,
         has_optional ? Cat("expected number of inputs between ", required, " and ", config_.inputs.size(), " but got ")
                      : Cat("expected ", config_.inputs.size(), " inputs but got "),
         request.inputs.size(), " inputs for model '", name_, "'. Got input(s) [", Join(given, ","),
         "], but missing required input(s) [", Join(missing, ","), "]. Please provide all required input(s).");
}

void ServedModel::CheckInputs(const InferRequest& request) const {
  size_t required = 0, found = 0;
  for (const TensorConfig& config : config_.inputs) required += config.optional ? 0 : 1;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const std::string& input = request.inputs[i].first;
    const TensorConfig* config = config_.FindInput(input);
    if (!config)
      Refuse(Code::kInvalidArgument, "unexpected inference input '", Printable(input), "' for model '", name_, "'",
             request.inputs.size() > config_.inputs.size()
                 ? Cat(": expected ", config_.inputs.size(), " inputs but got ", request.inputs.size(),
                       " inputs for model '", name_, "'")
                 : std::string());
    for (size_t j = 0; j < i; ++j)
      if (request.inputs[j].first == input)
        Refuse(Code::kInvalidArgument, "input '", Printable(input), "' already exists in request");
    found += config->optional ? 0 : 1;
  }
  if (found < required) FailMissing(request);
}

int64_t ServedModel::CheckBatch(const InferRequest& request) const {
  if (config_.max_batch_size == 0 || request.inputs.empty()) return 1;
  int64_t rows = -1;
  for (const auto& [input, value] : request.inputs) {
    if (value.tensor().rank() == 0)
      Refuse(Code::kInvalidArgument, "input '", input, "' has no shape but model requires batch dimension for '", name_,
             "'");
    if (rows >= 0 && value.tensor().dim(0) != rows)
      Refuse(Code::kInvalidArgument, "input '", input, "' batch size does not match other inputs for '", name_, "'");
    rows = value.tensor().dim(0);
  }
  if (rows > config_.max_batch_size && !config_.is_batch_assumed)
    Refuse(Code::kInvalidArgument, "inference request batch-size must be <= ", config_.max_batch_size, " for '", name_,
           "'");
  return rows;
}

void ServedModel::CheckShape(const TensorConfig& config, const Tensor& tensor) const {
  if (!config.has_dims) return;
  const bool batch = config_.max_batch_size > 0;
  const auto shape = tensor.shape().dims();
  bool fits = shape.size() == config.dims.size() + (batch ? 1 : 0);
  for (size_t i = 0; i < config.dims.size() && fits; ++i)
    fits = config.dims[i] < 0 || config.dims[i] == shape[i + (batch ? 1 : 0)];
  // A scalar may come without the dimension that clients see it with.
  fits |= config.reshape && config.reshape->empty() && shape.size() == (batch ? 1U : 0U);
  if (fits) return;
  std::vector<int64_t> expected = config.dims;
  if (batch) expected.insert(expected.begin(), -1);
  Refuse(Code::kInvalidArgument, "unexpected shape for input '", config.name, "' for model '", name_, "'. Expected ",
         DimsText(expected), ", got ", DimsText({shape.begin(), shape.end()}), ". ",
         batch ? "NOTE: max_batch_size is above zero, so that each shape begins with a batch dimension." : "");
}

void ServedModel::ReshapeOutputs(Job& job) const {
  if (!has_reshapes_) return;
  for (size_t i = 0; i < job.outputs.size(); ++i) {
    const TensorConfig* config = config_.FindOutput(job.output_names[i]);
    if (config && config->reshape)
      job.outputs[i] = Reshape(job.outputs[i].tensor(), config_.max_batch_size > 0, *config->reshape, config->dims);
  }
}

std::unique_ptr<Job> ServedModel::MakeJob(InferRequest request) const {
  CheckInputs(request);
  auto job = std::make_unique<Job>();
  job->received = Clock::now();
  for (const RequestedOutput& output : request.outputs) {
    if (!config_.FindOutput(output.name))
      Refuse(Code::kInvalidArgument, "unexpected inference output '", Printable(output.name), "' for model '", name_,
             "'");
    if (std::count_if(request.outputs.begin(), request.outputs.end(),
                      [&](const RequestedOutput& other) { return other.name == output.name; }) > 1)
      Refuse(Code::kInvalidArgument, "output '", Printable(output.name), "' already exists in request");
    job->output_names.push_back(output.name);
  }
  if (job->output_names.empty()) job->output_names = all_outputs_;
  job->rows = CheckBatch(request);
  for (auto& [input, value] : request.inputs) {
    const TensorConfig& config = *config_.FindInput(input);
    if (value.tensor().dtype() != config.dtype)
      Refuse(Code::kInvalidArgument, "inference input '", input, "' data-type is '",
             DatatypeName(value.tensor().dtype()), "', but model '", name_, "' expects '", DatatypeName(config.dtype),
             "'");
    CheckShape(config, value.tensor());
    if (config.reshape) value = Reshape(value.tensor(), config_.max_batch_size > 0, config.dims, *config.reshape);
  }
  job->request = std::move(request);
  return job;
}

}  // namespace ferry::server
