#include "doctor/batch_fix.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "graph/names.h"
#include "measure/difference.h"
#include "measure/random_input.h"

namespace ferry {
namespace {

class Editor {
 public:
  Editor(Model& model, const BatchPlan& plan) : model_(model), plan_(plan), names_(model) {}

  std::string Run() {
    for (const BatchEdit& edit : plan_.edits) Apply(edit);
    auto& nodes = model_.graph.nodes;
    nodes.insert(nodes.begin(), std::make_move_iterator(in_front_.begin()), std::make_move_iterator(in_front_.end()));
    std::string name = ChooseName();
    Describe(name);
    return name;
  }

 private:
  Node& NodeOf(const BatchEdit& edit) {
    for (Node& node : model_.graph.nodes)
      if (!node.outputs.empty() && node.outputs[0] == edit.output) return node;
    Fail(ErrorCode::kUnsupported, ToText(edit.place), ": lies inside a function, whose constants are not changed");
  }

  void Apply(const BatchEdit& edit) {
    Node& node = NodeOf(edit);
    if (node.op_type == "Slice" && node.Has("ends")) {  // before opset 10
      node.Set("ends", ToInt64Vector(edit.constant));
      return;
    }
    if (edit.input >= node.inputs.size() || node.op_type != edit.place.op_type)
      Fail(ErrorCode::kUnsupported, ToText(edit.place), ": has an older form at opset ", model_.OpsetOf(""),
           "; convert the model to a newer one first ('ferry convert --opset 13')");
    switch (edit.kind) {
      case BatchEdit::Kind::kConstant: node.inputs[edit.input] = AddConstant(edit.constant); break;
      case BatchEdit::Kind::kSizes: node.inputs[edit.input] = Sizes(edit); break;
      case BatchEdit::Kind::kExpanded:
        node.inputs[edit.input] = AddNode("Expand", {AddConstant(edit.constant), Sizes(edit)});
        break;
    }
  }

  std::string AddNode(std::string op_type, std::vector<std::string> inputs, std::vector<Attribute> attributes = {}) {
    Node node;
    node.name = names_.Make(Cat("batch_", op_type));
    node.op_type = std::move(op_type);
    node.inputs = std::move(inputs);
    node.outputs = {names_.Make(Cat(node.name, "_output"))};
    node.attributes = std::move(attributes);
    in_front_.push_back(std::move(node));
    return in_front_.back().outputs[0];
  }

  std::string AddConstant(const Tensor& tensor) {
    Attribute value("value", std::make_shared<StoredTensor>(MakeStored("", tensor)));
    return AddNode("Constant", {}, {std::move(value)});
  }

  // The number of samples, as a list of one.
  const std::string& Batch() {
    if (batch_.empty()) {
      std::string shape = AddNode("Shape", {BatchInputs(model_.graph)[0]});
      batch_ = AddNode("Gather", {shape, AddConstant(Tensor::FromVector(std::vector<int64_t>{0}))});
    }
    return batch_;
  }

  std::string Sizes(const BatchEdit& edit) {
    std::string scaled = Batch();
    if (edit.factor != 1)
      scaled = AddNode("Mul", {scaled, AddConstant(Tensor::FromVector(std::vector<int64_t>{edit.factor}))});
    std::vector<std::string> parts;
    auto middle = edit.sizes.begin() + static_cast<std::ptrdiff_t>(edit.axis);
    std::vector<int64_t> before(edit.sizes.begin(), middle), after(middle + 1, edit.sizes.end());
    if (!before.empty()) parts.push_back(AddConstant(Tensor::FromVector(before)));
    parts.push_back(scaled);
    if (!after.empty()) parts.push_back(AddConstant(Tensor::FromVector(after)));
    if (parts.size() == 1) return scaled;
    return AddNode("Concat", parts, {Attribute("axis", int64_t{0})});
  }

  // The name that inputs have already, or "batch" when it is free.
  std::string ChooseName() const {
    const Graph& graph = model_.graph;
    const Dim& first = graph.FindInput(BatchInputs(graph)[0])->type.shape->front();
    if (first.named()) return first.symbol;
    auto is_taken = [&](const std::string& name) {
      for (const auto* list : {&graph.inputs, &graph.outputs})
        for (const ValueInfo& value : *list)
          for (const Dim& dim : value.type.shape.value_or(SymbolicShape{}))
            if (dim.named() && dim.symbol == name) return true;
      return false;
    };
    for (const char* name : {"batch", "batch_size", "samples"})
      if (!is_taken(name)) return name;
    return "free_batch";
  }

  void Describe(const std::string& name) {
    Graph& graph = model_.graph;
    for (const std::string& input : BatchInputs(graph))
      for (ValueInfo& value : graph.inputs)
        if (value.name == input) Free(value.type.shape->front(), name);
    for (auto* list : {&graph.outputs, &graph.value_infos})
      for (ValueInfo& value : *list) {
        auto position = plan_.positions.find(value.name);
        auto type = plan_.types.find(value.name);
        if (position == plan_.positions.end() || type == plan_.types.end() || !value.type.has_rank()) continue;
        size_t axis = position->second.axis;
        if (axis >= value.type.shape->size() || axis >= type->second.shape->size()) continue;
        const Dim& dim = (*type->second.shape)[axis];
        Free((*value.type.shape)[axis], dim.named() && dim.symbol == BatchPlan::kBatchName ? name : "");
      }
  }

  static void Free(Dim& dim, const std::string& name) {
    dim.value.reset();
    dim.symbol = name;
  }

  Model& model_;
  const BatchPlan& plan_;
  NameMaker names_;
  std::vector<Node> in_front_;
  std::string batch_;
};

// Tensors one behind the other along an axis. Elements narrower than a byte come out unpacked.
Tensor Stack(std::vector<Tensor> parts, size_t axis) {
  for (Tensor& part : parts)
    if (IsPacked(part.dtype())) part = part.Unpacked();
  std::vector<int64_t> sizes(parts[0].shape().begin(), parts[0].shape().end());
  size_t outer = 1, inner = static_cast<size_t>(std::max(1, BitWidth(parts[0].dtype()) / 8));
  for (size_t i = 0; i < axis; ++i) outer *= static_cast<size_t>(sizes[i]);
  for (size_t i = axis + 1; i < sizes.size(); ++i) inner *= static_cast<size_t>(sizes[i]);
  sizes[axis] = 0;
  for (const Tensor& part : parts) sizes[axis] += part.dim(axis);
  Tensor stacked(parts[0].dtype(), Shape(sizes));
  if (stacked.dtype() == DType::kString) {
    std::string* to = stacked.MutableData<std::string>();
    for (size_t o = 0; o < outer; ++o)
      for (const Tensor& part : parts) {
        size_t count = static_cast<size_t>(part.dim(axis)) * inner;
        to = std::copy_n(part.Data<std::string>() + o * count, count, to);
      }
    return stacked;
  }
  std::byte* to = stacked.mutable_raw();
  for (size_t o = 0; o < outer; ++o)
    for (const Tensor& part : parts) {
      size_t bytes = static_cast<size_t>(part.dim(axis)) * inner;
      if (bytes) std::memcpy(to, part.raw() + o * bytes, bytes);
      to += bytes;
    }
  return stacked;
}

bool CanStack(const Value& a, const Value& b, size_t axis) {
  if (!a.is_tensor() || !b.is_tensor() || a.tensor().dtype() != b.tensor().dtype()) return false;
  const Shape &left = a.tensor().shape(), &right = b.tensor().shape();
  if (left.rank() != right.rank() || axis >= left.rank()) return false;
  for (size_t i = 0; i < left.rank(); ++i)
    if (i != axis && left[i] != right[i]) return false;
  return true;
}

class SampleProof {
 public:
  SampleProof(const Model& mended, const BatchPlan& plan, const std::string& dimension)
      : plan_(plan),
        session_(Session::FromModel(CopyDeep(mended), {.optimize = false})),
        inputs_(MakeRandomInputs(*session_, {.seed = 7, .dimensions = {{dimension, kSamples}}})) {
    for (const ValueInfo& output : session_->outputs()) outputs_.push_back(output.name);
  }

  void Run(Proof& proof) {
    for (int64_t i = 0; i < kSamples; ++i) singles_.push_back(session_->Run(Rows(i, 1), outputs_));
    for (int64_t size : {1, 2, 3, 5}) {
      ProofStep step = CompareBatch(size);
      if (!step.holds && size > 1) step.detail += WhereSamplesMeet(size);
      proof.push_back(std::move(step));
      if (!proof.back().holds) return;
    }
  }

 private:
  static constexpr int64_t kSamples = 5;

  std::vector<NamedValue> Rows(int64_t begin, int64_t count) const {
    std::vector<NamedValue> rows = inputs_;
    for (NamedValue& input : rows)
      if (plan_.positions.count(input.first)) input.second = input.second.tensor().Rows(begin, count);
    return rows;
  }

  // What a batch must give for one value: the single results in a row, or any one of them when it has no samples in it.
  Value Expected(const std::string& name, const std::vector<Value>& singles) const {
    auto position = plan_.positions.find(name);
    if (position == plan_.positions.end() || position->second.outer != 1 || !singles[0].is_tensor()) return singles[0];
    std::vector<Tensor> parts;
    for (const Value& single : singles) {
      if (!CanStack(singles[0], single, position->second.axis)) return singles[0];
      parts.push_back(single.tensor());
    }
    DType type = parts[0].dtype();
    Tensor stacked = Stack(std::move(parts), position->second.axis);
    return IsPacked(type) ? Tensor::Pack(type, stacked) : stacked;
  }

  ProofStep CompareBatch(int64_t size) const {
    ProofStep step{.what = Cat("a batch of ", size, " gives what its samples give one by one"), .holds = true};
    try {
      std::vector<Value> results = session_->Run(Rows(0, size), outputs_);
      for (size_t k = 0; k < outputs_.size(); ++k) {
        std::vector<Value> singles;
        for (int64_t i = 0; i < size; ++i) singles.push_back(singles_[static_cast<size_t>(i)][k]);
        Difference difference = Compare(results[k], Expected(outputs_[k], singles), Tolerance{});
        step.max_abs = std::max(step.max_abs, difference.max_abs);
        if (difference.within() || !step.holds) continue;
        step.holds = false;
        step.detail = Cat("output '", Printable(outputs_[k]), "': ", difference.Explain());
      }
    } catch (const Error& error) {
      step.holds = false;
      step.detail = error.message();
    }
    return step;
  }

  // The first node whose result for a sample depends on the others.
  std::string WhereSamplesMeet(int64_t size) const {
    std::vector<std::string> names;
    std::vector<const Node*> nodes;
    for (const Node& node : session_->model().graph.nodes)
      for (const std::string& output : node.outputs)
        if (auto at = plan_.positions.find(output); at != plan_.positions.end() && at->second.outer == 1) {
          names.push_back(output);
          nodes.push_back(&node);
        }
    try {
      std::vector<Value> together = session_->Run(Rows(0, size), names);
      std::vector<std::vector<Value>> alone;
      for (int64_t i = 0; i < size; ++i) alone.push_back(session_->Run(Rows(i, 1), names));
      for (size_t k = 0; k < names.size(); ++k) {
        std::vector<Value> singles;
        for (const auto& run : alone) singles.push_back(run[k]);
        if (!Compare(together[k], Expected(names[k], singles), Tolerance{}).within())
          return Cat("; the network mixes samples at ", ferry::Describe(*nodes[k]));
      }
    } catch (const Error&) {  // the first failure has said enough
    }
    return {};
  }

  const BatchPlan& plan_;
  std::shared_ptr<Session> session_;
  std::vector<NamedValue> inputs_;
  std::vector<std::string> outputs_;
  std::vector<std::vector<Value>> singles_;
};

}  // namespace

std::string FreeBatch(Model& model, const BatchPlan& plan) { return Editor(model, plan).Run(); }

void ProveSamplesApart(const Model& mended, const BatchPlan& plan, const std::string& dimension, Proof& proof) {
  SampleProof(mended, plan, dimension).Run(proof);
}

}  // namespace ferry
