#include "measure/compare/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace ferry {
namespace {

Json ToJson(const std::optional<Decisions>& decisions) {
  return decisions ? Json().Set("rows", decisions->rows).Set("same", decisions->same) : Json();
}

Json ToJson(const ErrorHistogram& histogram) {
  Json json, bins = Json::Array{};
  for (size_t i = 0; i < histogram.bins.size(); ++i)
    bins.Add(Json()
                 .Set("from", std::pow(10.0, ErrorHistogram::kLowest + static_cast<int>(i)))
                 .Set("count", histogram.bins[i]));
  json.Set("equal", histogram.equal).Set("not_finite", histogram.not_finite).Set("bins", std::move(bins));
  return json;
}

Json ToJson(const ComparedOutput& output, bool with_histogram) {
  const Difference& d = output.difference;
  Json json;
  json.Set("name", output.name).Set("type", output.type).Set("within", d.within());
  json.Set("max_abs", d.max_abs).Set("mean_abs", d.mean_abs).Set("max_rel", d.max_rel).Set("mean_rel", d.mean_rel);
  json.Set("elements", d.elements).Set("outside", d.outside);
  if (!d.within()) json.Set("reason", d.Explain());
  if (!output.agreement) return json;
  const Agreement& a = *output.agreement;
  json.Set("cosine", a.cosine ? Json(*a.cosine) : Json()).Set("max_ulp", a.max_ulp).Set("mean_ulp", a.mean_ulp);
  json.Set("argmax", ToJson(a.argmax)).Set("top_k", ToJson(a.top_k));
  if (with_histogram) json.Set("histogram", ToJson(a.histogram));
  return json;
}

Json ToJson(const ComparedSample& sample) {
  Json json, outputs = Json::Array{};
  json.Set("name", sample.name).Set("kind", Name(sample.kind)).Set("within", sample.within());
  if (!sample.refused.empty()) json.Set("refused", sample.refused);
  if (!sample.only_one.empty()) json.Set("only_one", sample.only_one);
  for (const ComparedOutput& output : sample.outputs) outputs.Add(ToJson(output, false));
  return json.Set("outputs", std::move(outputs));
}

Json ToJson(const ValueRange& range) {
  Json json;
  json.Set("name", range.name).Set("type", range.type).Set("is_weight", range.is_weight);
  json.Set("least", range.least).Set("largest", range.largest).Set("mean_abs", range.mean_abs);
  json.Set("not_finite", range.not_finite);
  return json.Set("error", range.error ? Json(*range.error) : Json());
}

Json ToJson(const FaultyLayer& layer) {
  Json json, inputs = Json::Array{};
  json.Set("node", layer.name).Set("op", layer.op).Set("value", layer.value);
  json.Set("other_node", layer.other_name).Set("other_op", layer.other_op);
  json.Set("error", layer.error).Set("input_error", layer.input_error);
  json.Set("own_error", layer.own_error ? Json(*layer.own_error) : Json());
  if (!layer.mismatch.empty()) json.Set("mismatch", layer.mismatch);
  json.Set("differences", Json::List(layer.differences));
  for (const ValueRange& range : layer.inputs) inputs.Add(ToJson(range));
  json.Set("inputs", std::move(inputs)).Set("output", ToJson(layer.output)).Set("expected", ToJson(layer.expected));
  return json;
}

Json ToJson(const LayerTrace& trace) {
  Json json, layers = Json::Array{}, path = Json::Array{};
  for (const TracedLayer& layer : trace.layers) {
    Json entry;
    entry.Set("node", layer.name).Set("op", layer.op).Set("value", layer.value);
    entry.Set("error", layer.error).Set("input_error", layer.input_error);
    if (!layer.mismatch.empty()) entry.Set("mismatch", layer.mismatch);
    layers.Add(std::move(entry));
  }
  for (size_t place : trace.path) path.Add(trace.layers[place].value);
  json.Set("sample", trace.sample).Set("nodes", trace.nodes);
  json.Set("first", trace.first ? ToJson(*trace.first) : Json());
  return json.Set("path", std::move(path)).Set("layers", std::move(layers));
}

const char* CauseName(RecordedCause cause) {
  switch (cause) {
    case RecordedCause::kPrecision: return "precision";
    case RecordedCause::kOtherNetwork: return "other network";
    case RecordedCause::kUnknown: return "unknown";
    default: return "";
  }
}

}  // namespace

std::string ShortNumber(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

std::string CosineText(double cosine) {
  double short_of_one = 1 - cosine;
  if (short_of_one <= 0x1p-52) return "1";
  return short_of_one < 1e-3 ? Cat("1 - ", ShortNumber(short_of_one)) : ShortNumber(cosine);
}

std::string AgreementText(const std::optional<Decisions>& decisions) {
  return decisions ? Cat(decisions->same, "/", decisions->rows) : "";
}

Json ToJson(const Comparison& comparison) {
  Json json, outputs = Json::Array{}, samples = Json::Array{}, findings = Json::Array{};
  json.Set("format", "ferry-compare-1").Set("within", comparison.within());
  json.Set("actual", comparison.actual).Set("expected", comparison.expected);
  json.Set("rtol", comparison.tolerance.rtol).Set("atol", comparison.tolerance.atol).Set("k", comparison.k);
  json.Set("max_abs", comparison.max_abs());
  for (const ComparedOutput& output : comparison.totals) outputs.Add(ToJson(output, true));
  for (const ComparedSample& sample : comparison.samples) samples.Add(ToJson(sample));
  json.Set("outputs", std::move(outputs)).Set("samples", std::move(samples));
  json.Set("worst", comparison.worst ? Json(comparison.samples[*comparison.worst].name) : Json());
  if (comparison.cause != RecordedCause::kNotAsked) json.Set("cause", CauseName(comparison.cause));
  json.Set("trace", comparison.trace ? ToJson(*comparison.trace) : Json());
  for (const Finding& finding : comparison.findings) findings.Add(ToJson(finding));
  return json.Set("notes", Json::List(comparison.notes)).Set("findings", std::move(findings));
}

std::string CauseText(const Comparison& comparison) {
  switch (comparison.cause) {
    case RecordedCause::kPrecision:
      return "A float64 run of the model answers as recorded: the difference is rounding, and the layer where most of "
             "it "
             "arises is named below.";
    case RecordedCause::kOtherNetwork:
      return "A float64 run of the model answers like the model, not like the recording: rounding is not the cause. "
             "The "
             "recording comes from other weights, other inputs or an operator that means something else. With the "
             "model "
             "it was made with ('ferry compare MODEL OTHER'), the layer can be named.";
    case RecordedCause::kUnknown:
      return "A float64 run of the model answers neither like the model nor like the recording.";
    default: return {};
  }
}

std::string VerdictText(const Comparison& comparison) {
  size_t outside = 0, given = 0, compared = 0;
  for (const ComparedSample& sample : comparison.samples) {
    compared += sample.refused.empty();
    outside += !sample.within();
    given += !sample.within() && sample.kind == Sample::Kind::kRecorded;
  }
  std::string text =
      Cat("largest difference ", ShortNumber(comparison.max_abs()), ": ", comparison.within() ? "within" : "NOT within",
          " tolerance (rtol ", comparison.tolerance.rtol, ", atol ", comparison.tolerance.atol, ")");
  if (outside > 0 && compared > 1)
    text += Cat(" in ", outside, " of ", compared, " samples", given == 0 ? ", none of them recorded" : "");
  double relative = 0;
  for (const ComparedOutput& output : comparison.totals) relative = std::max(relative, output.difference.mean_rel);
  if (comparison.within() && relative > comparison.tolerance.rtol / 2)
    text += Cat("; answers are so small that atol decides: they differ by ", ShortNumber(relative),
                " of their size on average, and a smaller --atol would tell");
  return text;
}

std::string FaultText(const FaultyLayer& layer) {
  std::string who =
      layer.name.empty() ? Cat("the ", layer.op) : Cat("node '", Printable(layer.name), "' (", layer.op, ")");
  std::string error = layer.mismatch.empty() ? Cat("is off by ", ShortNumber(layer.error), " of its largest element")
                                             : Cat("has ", layer.mismatch);
  std::string before =
      layer.input_error == 0 ? "are equal on both sides" : Cat("are off by at most ", ShortNumber(layer.input_error));
  return Cat(who, ": its result '", Printable(layer.value), "' ", error, ", its inputs ", before);
}

std::string NoFaultText(const Comparison& comparison) {
  if (!comparison.trace || comparison.trace->first || comparison.within()) return {};
  double largest = 0;
  for (const TracedLayer& layer : comparison.trace->layers) largest = std::max(largest, layer.error);
  return Cat("No single layer is to blame: none is off by more than ", ShortNumber(largest),
             " of its largest element, and none by much more than its inputs are.");
}

}  // namespace ferry
