#include "graph/equal.h"

#include <bit>

namespace ferry {
namespace {

bool SameUnknown(const std::shared_ptr<const std::string>& a, const std::shared_ptr<const std::string>& b) {
  return a && b ? *a == *b : !a && !b;
}

bool SameUnknown(const std::shared_ptr<const Type::Unknown>& a, const std::shared_ptr<const Type::Unknown>& b) {
  return a && b ? a->type == b->type && a->kind == b->kind && a->shape == b->shape : !a && !b;
}

bool EqualDims(const Dim& a, const Dim& b) {
  return a.value == b.value && a.symbol == b.symbol && a.denotation == b.denotation &&
         SameUnknown(a.unknown_fields, b.unknown_fields);
}

// Zeros of both signs differ, NaNs of the same bits do not.
bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

// Compares part by part and remembers where the first difference is.
class Comparison {
 public:
  const std::string& difference() const { return difference_; }

  bool Models(const Model& a, const Model& b) {
    return Same("ir_version", a.ir_version, b.ir_version) &&
           List("opset_import", a.opsets, b.opsets, &Comparison::Opsets) &&
           Same("producer_name", a.producer_name, b.producer_name) &&
           Same("producer_version", a.producer_version, b.producer_version) && Same("domain", a.domain, b.domain) &&
           Same("model_version", a.model_version, b.model_version) && Same("doc", a.doc, b.doc) &&
           Same("has_graph", a.has_graph, b.has_graph) && Part("graph", a.graph, b.graph, &Comparison::Graphs) &&
           Pairs("metadata", a.metadata, b.metadata) &&
           List("training", a.training, b.training, &Comparison::Trainings) &&
           List("functions", a.functions, b.functions, &Comparison::Functions) &&
           Same("configuration", a.device_configurations, b.device_configurations) && Unknown(a.unknown, b.unknown);
  }

 private:
  template <class T>
  using Compare = bool (Comparison::*)(const T&, const T&);

  bool Opsets(const OpsetImport& a, const OpsetImport& b) {
    return Same("domain", a.domain, b.domain) && Same("version", a.version, b.version) && Unknown(a.unknown, b.unknown);
  }

  bool Graphs(const Graph& a, const Graph& b) {
    return Same("name", a.name, b.name) && Same("doc", a.doc, b.doc) &&
           List("node", a.nodes, b.nodes, &Comparison::Nodes) &&
           List("initializer", a.initializers, b.initializers, &Comparison::Tensors) &&
           List("sparse_initializer", a.sparse_initializers, b.sparse_initializers, &Comparison::Sparses) &&
           List("input", a.inputs, b.inputs, &Comparison::Infos) &&
           List("output", a.outputs, b.outputs, &Comparison::Infos) &&
           List("value_info", a.value_infos, b.value_infos, &Comparison::Infos) &&
           List("quantization", a.quantization, b.quantization, &Comparison::Annotations) &&
           Pairs("metadata", a.metadata, b.metadata) && Unknown(a.unknown, b.unknown);
  }

  bool Annotations(const QuantizationAnnotation& a, const QuantizationAnnotation& b) {
    return Same("tensor_name", a.tensor_name, b.tensor_name) && Pairs("parameters", a.parameters, b.parameters) &&
           Unknown(a.unknown, b.unknown);
  }

  bool Nodes(const Node& a, const Node& b) {
    return Same("name", a.name, b.name) && Same("op_type", a.op_type, b.op_type) &&
           Same("domain", a.domain, b.domain) && Same("overload", a.overload, b.overload) &&
           Same("input", a.inputs, b.inputs) && Same("output", a.outputs, b.outputs) &&
           List("attribute", a.attributes, b.attributes, &Comparison::Attributes) && Same("doc", a.doc, b.doc) &&
           Pairs("metadata", a.metadata, b.metadata) &&
           Same("device_configurations", a.device_configurations, b.device_configurations) &&
           Unknown(a.unknown, b.unknown);
  }

  bool Attributes(const Attribute& a, const Attribute& b) {
    return Same("name", a.name, b.name) && Same("type", Name(a.type), Name(b.type)) &&
           Same("ref_name", a.ref_name, b.ref_name) && Same("doc", a.doc, b.doc) &&
           Same("problem", !a.problem.empty(), !b.problem.empty()) && Unknown(a.unknown, b.unknown) &&
           Held(a.held, b.held);
  }

  bool Held(const Attribute::Held& a, const Attribute::Held& b) {
    if (a.index() != b.index()) return Report("value", Cat("alternative ", a.index()), Cat(b.index()));
    return std::visit(
        [&](const auto& left) {
          using T = std::decay_t<decltype(left)>;
          return HeldValues(left, std::get<T>(b));
        },
        a);
  }
  bool HeldValues(std::monostate, std::monostate) { return true; }
  bool HeldValues(float a, float b) { return SameBits(a, b) || Report("value", Cat(double{a}), Cat(double{b})); }
  bool HeldValues(int64_t a, int64_t b) { return Same("value", a, b); }
  bool HeldValues(const std::string& a, const std::string& b) { return Same("value", a, b); }
  bool HeldValues(const std::vector<int64_t>& a, const std::vector<int64_t>& b) { return Same("value", a, b); }
  bool HeldValues(const std::vector<std::string>& a, const std::vector<std::string>& b) { return Same("value", a, b); }
  bool HeldValues(const std::vector<float>& a, const std::vector<float>& b) {
    return (a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), SameBits)) ||
           Report("value", "floats", "others");
  }
  bool HeldValues(const Type& a, const Type& b) { return Types(a, b); }
  bool HeldValues(const StoredTensor& a, const StoredTensor& b) { return Tensors(a, b); }
  bool HeldValues(const StoredSparseTensor& a, const StoredSparseTensor& b) { return Sparses(a, b); }
  bool HeldValues(const Graph& a, const Graph& b) { return Graphs(a, b); }
  template <class T>
  bool HeldValues(const std::shared_ptr<T>& a, const std::shared_ptr<T>& b) {
    if (!a || !b) return Same("value", a != nullptr, b != nullptr);
    return HeldValues(*a, *b);
  }
  template <class T>
  bool HeldValues(const std::vector<T>& a, const std::vector<T>& b) {
    if (!Same("count", a.size(), b.size())) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (!HeldValues(a[i], b[i])) return At("value", i);
    return true;
  }

  bool Infos(const ValueInfo& a, const ValueInfo& b) {
    return Same("name", a.name, b.name) && Part("type", a.type, b.type, &Comparison::Types) &&
           Same("doc", a.doc, b.doc) && Pairs("metadata", a.metadata, b.metadata) && Unknown(a.unknown, b.unknown);
  }

  bool Types(const Type& a, const Type& b) { return EqualTypes(a, b) || Report("type", ToText(a), ToText(b)); }

  bool Tensors(const StoredTensor& a, const StoredTensor& b) {
    return Same("name", a.name, b.name) && Same("data_type", a.dtype_number, b.dtype_number) &&
           Same("dims", a.dims, b.dims) && Same("doc", a.doc, b.doc) && Pairs("metadata", a.metadata, b.metadata) &&
           Same("has_segment", a.segment.has_value(), b.segment.has_value()) &&
           (!a.segment || (Same("segment.begin", a.segment->begin, b.segment->begin) &&
                           Same("segment.end", a.segment->end, b.segment->end))) &&
           Same("problem", !a.problem.empty(), !b.problem.empty()) &&
           Same("loaded", a.tensor.defined(), b.tensor.defined()) &&
           (a.tensor.defined() || Pairs("external_data", a.external.entries, b.external.entries)) &&
           (Identical(a.tensor, b.tensor) || Report("elements", "some", "others")) && Unknown(a.unknown, b.unknown);
  }

  bool Sparses(const StoredSparseTensor& a, const StoredSparseTensor& b) {
    return Part("values", a.values, b.values, &Comparison::Tensors) &&
           Part("indices", a.indices, b.indices, &Comparison::Tensors) && Same("dims", a.dims, b.dims) &&
           Unknown(a.unknown, b.unknown);
  }

  bool Functions(const Function& a, const Function& b) {
    return Same("name", a.name, b.name) && Same("domain", a.domain, b.domain) &&
           Same("overload", a.overload, b.overload) && Same("input", a.inputs, b.inputs) &&
           Same("output", a.outputs, b.outputs) && Same("attribute", a.attributes, b.attributes) &&
           List("attribute_proto", a.attribute_defaults, b.attribute_defaults, &Comparison::Attributes) &&
           List("node", a.nodes, b.nodes, &Comparison::Nodes) &&
           List("opset_import", a.opsets, b.opsets, &Comparison::Opsets) &&
           List("value_info", a.value_infos, b.value_infos, &Comparison::Infos) && Same("doc", a.doc, b.doc) &&
           Pairs("metadata", a.metadata, b.metadata) && Unknown(a.unknown, b.unknown);
  }

  bool Trainings(const TrainingInfo& a, const TrainingInfo& b) {
    auto graphs = [&](const char* field, const std::optional<Graph>& x, const std::optional<Graph>& y) {
      return Same(field, x.has_value(), y.has_value()) && (!x || Part(field, *x, *y, &Comparison::Graphs));
    };
    return graphs("initialization", a.initialization, b.initialization) &&
           graphs("algorithm", a.algorithm, b.algorithm) &&
           Pairs("initialization_binding", a.initialization_binding, b.initialization_binding) &&
           Pairs("update_binding", a.update_binding, b.update_binding) && Unknown(a.unknown, b.unknown);
  }

  template <class T>
  bool Same(const char* field, const T& a, const T& b) {
    return a == b || Report(field, Shown(a), Shown(b));
  }
  bool Same(const char* field, const char* a, const char* b) { return Same(field, std::string(a), std::string(b)); }
  bool Unknown(const UnknownFields& a, const UnknownFields& b) { return Same("unknown fields", a, b); }
  bool Pairs(const char* field, const Metadata& a, const Metadata& b) {
    return a == b || Report(field, Cat(a.size(), " entries"), Cat(b.size(), " others"));
  }

  template <class T>
  bool Part(const char* field, const T& a, const T& b, Compare<T> compare) {
    if ((this->*compare)(a, b)) return true;
    difference_ = Cat(field, '.', difference_);
    return false;
  }
  template <class T>
  bool List(const char* field, const std::vector<T>& a, const std::vector<T>& b, Compare<T> compare) {
    if (a.size() != b.size()) return Report(field, Cat(a.size(), " of them"), Cat(b.size()));
    for (size_t i = 0; i < a.size(); ++i)
      if (!(this->*compare)(a[i], b[i])) return At(field, i);
    return true;
  }
  bool At(const char* field, size_t index) {
    difference_ = Cat(field, '[', index, "].", difference_);
    return false;
  }

  static std::string Shown(const std::string& text) { return Cat("'", Printable(text), "'"); }
  template <class T>
  requires(std::is_integral_v<T>) static std::string Shown(T number) { return Cat(number); }
  template <class T>
  static std::string Shown(const std::vector<T>& list) {
    return Printable(Cat('[', Join(list, ", "), ']'));
  }

  bool Report(std::string_view field, std::string_view a, std::string_view b) {
    difference_ = Cat(field, ": ", a, " against ", b);
    return false;
  }

  std::string difference_;
};

}  // namespace

bool EqualTypes(const Type& a, const Type& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.denotation != b.denotation || a.opaque_domain != b.opaque_domain ||
      a.opaque_name != b.opaque_name || a.bad_dtype_number != b.bad_dtype_number ||
      !SameUnknown(a.unknown_fields, b.unknown_fields) || a.shape.has_value() != b.shape.has_value())
    return false;
  if (a.shape && !std::equal(a.shape->begin(), a.shape->end(), b.shape->begin(), b.shape->end(), EqualDims))
    return false;
  return a.element && b.element ? EqualTypes(*a.element, *b.element) : !a.element && !b.element;
}

bool EqualModels(const Model& a, const Model& b, std::string* difference) {
  Comparison comparison;
  if (comparison.Models(a, b)) return true;
  if (difference) *difference = comparison.difference();
  return false;
}

}  // namespace ferry
