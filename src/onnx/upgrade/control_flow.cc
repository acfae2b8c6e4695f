#include "base/error.h"
#include "onnx/upgrade/rules.h"

namespace ferry {
namespace {

Type WithoutShape(const Type& type) { return type.is_tensor() ? Type::Tensor(type.dtype) : type; }

// Scan of opset 8 ran over a batch (axis 0) of sequences (axis 1), each perhaps of its own length. That is a scan over
// the batch whose body is the scan of one sequence.
class BatchedScan {
 public:
  explicit BatchedScan(NodeRewrite& r) : r_(r), inner_body_(r.node.Subgraph("body")) {
    scans_ = r.node.Int("num_scan_inputs", 0);
    int64_t values = static_cast<int64_t>(r.node.inputs.size()) - 1;
    Require(scans_ >= 1 && scans_ <= values, "num_scan_inputs is ", scans_, " with ", values, " states and inputs");
    states_ = values - scans_;
    Require(static_cast<int64_t>(inner_body_->inputs.size()) == values, "the body has ", inner_body_->inputs.size(),
            " inputs, the node gives ", values);
    Require(static_cast<int64_t>(inner_body_->outputs.size()) >= states_, "the body gives fewer outputs than states");
  }

  void Rewrite() {
    outer_.name = r_.Name("sequence");
    bool has_lengths = r_.node.HasInput(0);
    std::vector<std::string> elements = DeclareInputs();
    std::string length;
    if (has_lengths) {
      length = Fresh("length");
      outer_.inputs.push_back({.name = length, .type = Type::Tensor(DType::kInt64)});
    }
    std::vector<std::string> results = ScanOneSequence(elements, length);
    for (const std::string& result : results) outer_.outputs.push_back({.name = result});

    std::vector<std::string> inputs(r_.node.inputs.begin() + 1, r_.node.inputs.end());
    if (has_lengths) inputs.push_back(r_.node.inputs[0]);
    r_.node.attributes = {Attribute("num_scan_inputs", static_cast<int64_t>(inputs.size())),
                          Attribute("body", std::make_shared<Graph>(std::move(outer_)))};
    r_.node.inputs = std::move(inputs);
  }

 private:
  std::string Fresh(std::string_view what) { return r_.Name(what); }
  std::string Emit(std::string_view op, std::vector<std::string> inputs, std::string_view what,
                   std::vector<Attribute> attributes = {}) {
    std::string output = Fresh(what);
    outer_.nodes.push_back(MakeNode(op, std::move(inputs), {output}, std::move(attributes)));
    return output;
  }
  std::string Ints(std::vector<int64_t> values, std::string_view what) {
    auto stored = std::make_shared<StoredTensor>(MakeStored("", Tensor::FromVector(values)));
    return Emit("Constant", {}, what, {Attribute("value", stored)});
  }

  std::vector<std::string> DeclareInputs() {
    std::vector<std::string> names;
    for (const ValueInfo& input : inner_body_->inputs) {
      names.push_back(Fresh(input.name));
      outer_.inputs.push_back({.name = names.back(), .type = WithoutShape(input.type)});
    }
    return names;
  }

  std::vector<std::string> ScanOneSequence(std::vector<std::string> values, const std::string& length) {
    std::string full_length, own_length, zero;
    if (!length.empty()) {
      zero = Ints({0}, "zero");
      full_length =
          Emit("Shape", {values.back()}, "full_length", {Attribute("start", int64_t{0}), Attribute("end", int64_t{1})});
      own_length = Emit("Reshape", {length, Ints({1}, "one")}, "own_length");
      for (size_t i = static_cast<size_t>(states_); i < values.size(); ++i)
        values[i] = Emit("Slice", {values[i], zero, own_length, zero}, "own_part");
    }
    std::vector<std::string> results;
    for (const ValueInfo& output : inner_body_->outputs) results.push_back(Fresh(output.name));
    std::vector<Attribute> attributes = {Attribute("body", inner_body_), Attribute("num_scan_inputs", scans_)};
    if (auto directions = r_.Take("directions", "scan_input_directions")) attributes.push_back(*directions);
    outer_.nodes.push_back(MakeNode("Scan", values, results, std::move(attributes)));
    if (length.empty()) return results;
    std::string pads = Emit("Concat", {zero, Emit("Sub", {full_length, own_length}, "missing")}, "pads",
                            {Attribute("axis", int64_t{0})});
    for (size_t i = static_cast<size_t>(states_); i < results.size(); ++i)
      results[i] = Emit("Pad", {results[i], pads, "", zero}, "padded");
    return results;
  }

  NodeRewrite& r_;
  std::shared_ptr<Graph> inner_body_;
  int64_t scans_ = 0, states_ = 0;
  Graph outer_;
};

void UpgradeScan(NodeRewrite& r) {
  Require(!r.node.inputs.empty(), "needs inputs");
  BatchedScan(r).Rewrite();
}

constexpr UpgradeRule kRules[] = {{"Scan", 9, UpgradeScan}};

}  // namespace

std::span<const UpgradeRule> ControlFlowUpgrades() { return kRules; }

}  // namespace ferry
