#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "convert/quantize/quantize.h"

namespace ferry::quantize {
namespace {

std::string Digits(double value, int digits = 3) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}
std::string Fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}
std::string Megabytes(size_t bytes) {
  return Cat(Fixed(static_cast<double>(bytes) / 1e6, bytes < 10000000 ? 3 : 1), " MB");
}

// "static ×52, dynamic ×3".
std::string WaysText(const QuantizeReport& report) {
  std::vector<std::string> parts;
  for (Way way : {Way::kStatic, Way::kDynamic, Way::kWeights, Way::kHalfWeights, Way::kFloat}) {
    const auto count = std::count_if(report.layers.begin(), report.layers.end(),
                                     [&](const LayerReport& layer) { return layer.way == way; });
    if (count > 0) parts.push_back(Cat(Name(way), " ×", count));
  }
  return Join(parts, ", ");
}

void AddProof(const QuantizeReport& report, std::vector<std::pair<std::string, std::string>>& rows) {
  if (report.proof_samples == 0) return;
  const Faithfulness& proof = report.proof;
  rows.emplace_back("proof", Cat("on ", report.proof_samples,
                                 report.proof_is_apart ? " rows that were not used to choose"
                                                       : " rows that were used to choose, too"));
  if (proof.numbers) {
    rows.emplace_back("  signal to noise", Cat(Fixed(proof.snr, 1), " dB"));
    rows.emplace_back("  cosine", Cat("1 - ", Digits(1 - proof.cosine)));
    rows.emplace_back("  largest difference", Cat(Digits(proof.max_rel), " of the largest answer"));
  }
  if (proof.rows > 0) rows.emplace_back("  same answer", Cat(Fixed(proof.agree, 2), " % of ", proof.rows));
  if (proof.top1) rows.emplace_back("  top-1", Cat(Fixed(*proof.float_top1, 2), " % → ", Fixed(*proof.top1, 2), " %"));
  if (!report.budget) return;
  std::string said = Cat(ToText(*report.budget), report.holds ? ": holds" : ": does not hold");
  if (report.assured)
    said += Cat("; samples of this kind keep ", MeasuredText(*report.budget, *report.assured), ", 19 times in 20");
  else
    said += report.is_float ? ": it is the float model again" : " as measured; the rows are too few to speak of others";
  rows.emplace_back("budget", said);
}

std::vector<std::pair<std::string, std::string>> Rows(const QuantizeReport& report) {
  std::vector<std::pair<std::string, std::string>> rows;
  rows.emplace_back("form", Cat(report.form, " for ", report.target));
  if (!report.layers.empty()) rows.emplace_back("layers", WaysText(report));
  if (report.samples > 0 && !report.ranges.empty())
    rows.emplace_back("ranges", Cat(report.ranges, " over ", report.samples, " rows"));
  rows.emplace_back("size", Cat(Megabytes(report.bytes_before), " → ", Megabytes(report.bytes_after)));
  if (report.ms_before > 0)
    rows.emplace_back("one sample", Cat(Digits(report.ms_before), " ms → ", Digits(report.ms_after), " ms (",
                                        Digits(report.ms_before / std::max(1e-9, report.ms_after), 2), " ×)"));
  AddProof(report, rows);
  return rows;
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

std::string Bars(const LayerReport& layer) {
  double most = 0;
  for (double part : layer.histogram) most = std::max(most, part);
  if (!(most > 0)) return {};
  std::string svg = "<svg width=128 height=28 viewBox='0 0 128 28'>";
  for (size_t i = 0; i < layer.histogram.size(); ++i) {
    const double height = 26 * std::sqrt(layer.histogram[i] / most);
    const double centre = layer.low + (static_cast<double>(i) + 0.5) / static_cast<double>(layer.histogram.size()) *
                                          (layer.high - layer.low);
    const bool cut = layer.coded_high > layer.coded_low && (centre < layer.coded_low || centre > layer.coded_high);
    svg += Cat("<rect x=", i * 4, " y=", Fixed(28 - height, 1), " width=3 height=", Fixed(height, 1),
               cut ? " class=cut" : "", "/>");
  }
  return svg + "</svg>";
}

}  // namespace

std::string ToText(const QuantizeReport& report) {
  std::string text;
  for (const auto& [name, value] : Rows(report))
    text += Cat(name, std::string(std::max<size_t>(1, 20 - std::min<size_t>(19, name.size())), ' '), value, "\n");
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const LayerReport& layer : report.layers)
    if (!layer.why.empty()) by_reason[Cat(Name(layer.way), ", ", layer.why)].push_back(Printable(layer.name, 60));
  for (auto& [why, names] : by_reason) {
    const size_t count = names.size();
    if (count > 3) names.resize(3), names.push_back(Cat("and ", count - 3, " more"));
    text += Cat("  ", why, ": ", Join(names, ", "), "\n");
  }
  for (const std::string& note : report.notes) text += Cat("  ", note, "\n");
  if (!report.worst.empty() && report.proof.snr < 199) {
    text += "worst samples       ";
    for (size_t i = 0; i < report.worst.size(); ++i)
      text += Cat(i ? ", " : "", Printable(report.worst[i].first, 60), " (", Fixed(report.worst[i].second, 1), " dB)");
    text += "\n";
  }
  for (const std::string& warning : report.warnings) text += Cat("warning: ", warning, "\n");
  return text;
}

Json ToJson(const QuantizeReport& report) {
  Json layers = Json::Array{}, worst = Json::Array{};
  for (const LayerReport& layer : report.layers) {
    Json one = Json()
                   .Set("name", layer.name)
                   .Set("op", layer.op)
                   .Set("way", Name(layer.way))
                   .Set("why", layer.why)
                   .Set("weight_snr_db", layer.weight_snr)
                   .Set("input_snr_db", layer.input_snr)
                   .Set("range", Json::List(std::vector<double>{layer.low, layer.high}))
                   .Set("coded_range", Json::List(std::vector<double>{layer.coded_low, layer.coded_high}))
                   .Set("saturated", layer.saturated)
                   .Set("histogram", Json::List(layer.histogram));
    if (layer.alone) one.Set("alone_snr_db", *layer.alone);
    layers.Add(std::move(one));
  }
  for (const auto& [name, snr] : report.worst) worst.Add(Json().Set("sample", name).Set("snr_db", snr));
  Json proof;
  if (report.proof_samples > 0) {
    proof.Set("rows", report.proof_samples).Set("apart", report.proof_is_apart).Set("finite", report.proof.finite);
    if (report.proof.numbers)
      proof.Set("snr_db", report.proof.snr).Set("cosine", report.proof.cosine).Set("max_rel", report.proof.max_rel);
    if (report.proof.rows > 0) proof.Set("agree_pct", report.proof.agree);
    if (report.proof.top1) proof.Set("top1_pct", *report.proof.top1).Set("float_top1_pct", *report.proof.float_top1);
  }
  Json json = Json()
                  .Set("form", report.form)
                  .Set("target", report.target)
                  .Set("ranges", report.ranges)
                  .Set("calibration_rows", report.samples)
                  .Set("bytes_before", report.bytes_before)
                  .Set("bytes_after", report.bytes_after)
                  .Set("ms_before", report.ms_before)
                  .Set("ms_after", report.ms_after)
                  .Set("proof", std::move(proof))
                  .Set("holds", report.holds);
  if (report.budget) json.Set("budget", ToText(*report.budget));
  if (report.budget && report.assured) json.Set("assured", MeasuredText(*report.budget, *report.assured));
  return json.Set("layers", std::move(layers))
      .Set("worst", std::move(worst))
      .Set("notes", Json::List(report.notes))
      .Set("warnings", Json::List(report.warnings));
}

std::string ToHtml(const QuantizeReport& report) {
  std::string page =
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
      "<title>Quantised model</title><style>body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:1100px;"
      "padding:0 1em;color:#222}table{border-collapse:collapse}td,th{padding:.2em .8em .2em 0;text-align:left;"
      "border-bottom:1px solid #ddd;vertical-align:top}td.n{text-align:right;font-variant-numeric:tabular-nums}"
      "rect{fill:#59a}rect.cut{fill:#c44}.warn{color:#a30}"
      "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}td,th{border-color:#444}}</style>"
      "<h1>Quantised model</h1><table>";
  for (const auto& [name, value] : Rows(report)) page += Cat("<tr><th>", Escaped(name), "<td>", Escaped(value));
  page += "</table>";
  for (const std::string& warning : report.warnings) page += Cat("<p class=warn>", Escaped(warning));
  for (const std::string& note : report.notes) page += Cat("<p>", Escaped(note));
  if (!report.worst.empty()) {
    page += "<h2>Samples whose answers moved most</h2><table>";
    for (const auto& [name, snr] : report.worst)
      page += Cat("<tr><td>", Escaped(name), "<td class=n>", Fixed(snr, 1), " dB");
    page += "</table>";
  }
  page +=
      "<h2>Layers</h2><table><tr><th>layer<th>operator<th>form<th>weights dB<th>input dB<th>alone dB<th>range "
      "seen<th>range "
      "coded<th>cut off<th>input<th>why";
  for (const LayerReport& layer : report.layers) {
    const bool coded = layer.coded_high > layer.coded_low;
    page += Cat(
        "<tr><td>", Escaped(layer.name), "<td>", Escaped(layer.op), "<td>", Name(layer.way), "<td class=n>",
        layer.weight_snr > 0 ? Fixed(layer.weight_snr, 1) : "", "<td class=n>",
        layer.input_snr > 0 ? Fixed(layer.input_snr, 1) : "", "<td class=n>", layer.alone ? Fixed(*layer.alone, 1) : "",
        "<td>", layer.high > layer.low ? Cat(Digits(layer.low), " … ", Digits(layer.high)) : "", "<td>",
        coded ? Cat(Digits(layer.coded_low), " … ", Digits(layer.coded_high)) : "", "<td class=n>",
        coded ? Cat(Digits(layer.saturated * 100, 2), " %") : "", "<td>", Bars(layer), "<td>", Escaped(layer.why));
  }
  return page + "</table></html>\n";
}

}  // namespace ferry::quantize
