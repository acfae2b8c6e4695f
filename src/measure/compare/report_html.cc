#include <algorithm>
#include <cmath>

#include "base/directory.h"
#include "measure/compare/report.h"

namespace ferry {
namespace {

// Colours follow the reader's choice of light or dark; tables scroll sideways on a narrow screen, the page never does.
constexpr std::string_view kStyle = R"(
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--paper:#fff;--card:#f6f8fa;--line:#d1d9e0;--good:#1a7f37;
--bad:#c5221f;--bar:#2f6fd6;--mark:#b35900}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9198a1;--paper:#0d1117;--card:#161b22;--line:#3d444d;
--good:#3fb950;--bad:#ff7b72;--bar:#6ea8fe;--mark:#ffa657}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:64rem;padding:1rem;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:1.3rem;margin:.2rem 0 0;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:2rem 0 .5rem}
p,li{margin:.4rem 0;overflow-wrap:anywhere}
.soft{color:var(--soft)}
.verdict{border:1px solid var(--line);border-left:.5rem solid var(--good);background:var(--card);border-radius:.4rem;
padding:.8rem 1rem;margin:1rem 0}
.verdict.no{border-left-color:var(--bad)}
.verdict b{font-size:1.15rem;color:var(--good)}
.verdict.no b{color:var(--bad)}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:.4rem}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.35rem .6rem;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
tr:last-child td{border-bottom:0}
th{background:var(--card);font-weight:600}
td.n,th.n{text-align:right}
.no td,.why{color:var(--bad)}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
svg{display:block;width:100%;max-width:32rem;height:auto;background:var(--card);
border:1px solid var(--line);border-radius:.4rem}
svg text{fill:var(--soft);font:11px system-ui,sans-serif}
svg .bar{fill:var(--bar)}
svg .bad{fill:var(--bad)}
svg .line{fill:none;stroke:var(--bar);stroke-width:1.5}
svg .grid{stroke:var(--line);stroke-width:1}
svg .mark{stroke:var(--mark);stroke-width:2;stroke-dasharray:4 3}
ul{margin:.3rem 0;padding-left:1.2rem}
)";

std::string Escaped(std::string_view text) {
  std::string out;
  for (char c : Printable(text, 2000)) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

std::string Code(std::string_view text) { return Cat("<code>", Escaped(text), "</code>"); }

// One decimal is enough for a place on the page, and keeps pages of large networks small.
std::string Place(double x) { return Cat(std::round(x * 10) / 10); }

class TableWriter {
 public:
  TableWriter(std::string& out, const std::vector<std::string>& heads, size_t words) : out_(out), words_(words) {
    out_ += "<div class=\"scroll\"><table><thead><tr>";
    for (size_t i = 0; i < heads.size(); ++i) out_ += Cat(i < words ? "<th>" : "<th class=\"n\">", heads[i], "</th>");
    out_ += "</tr></thead><tbody>\n";
  }
  // The first cells are words, the others numbers; `why` is a sentence that stands below the table.
  void Row(const std::vector<std::string>& cells, bool good, const std::string& why = {}) {
    out_ += good ? "<tr>" : "<tr class=\"no\">";
    for (size_t i = 0; i < cells.size(); ++i)
      out_ += Cat(i < words_ ? "<td>" : "<td class=\"n\">", Escaped(cells[i]), "</td>");
    out_ += "</tr>\n";
    if (!why.empty())
      reasons_ += Cat(good ? "<li>" : "<li class=\"why\">", Escaped(cells[0]), ": ", Escaped(why), "</li>\n");
  }
  ~TableWriter() {
    out_ += "</tbody></table></div>\n";
    if (!reasons_.empty()) out_ += Cat("<ul>", reasons_, "</ul>\n");
  }

 private:
  std::string& out_;
  size_t words_;
  std::string reasons_;
};

// Decisions are of rows of scores: images and sequences of vectors have none.
bool HasDecisions(const Comparison& comparison) {
  return std::any_of(comparison.totals.begin(), comparison.totals.end(), [](const ComparedOutput& output) {
    return output.agreement && (output.agreement->argmax || output.agreement->top_k);
  });
}

std::vector<std::string> Numbers(const ComparedOutput& output, bool decisions) {
  const Difference& d = output.difference;
  std::vector<std::string> cells{ShortNumber(d.max_abs), ShortNumber(d.mean_abs), ShortNumber(d.max_rel),
                                 ShortNumber(d.mean_rel)};
  if (!output.agreement) {
    cells.insert(cells.end(), decisions ? 4 : 2, "");
    return cells;
  }
  const Agreement& a = *output.agreement;
  cells.push_back(a.cosine ? CosineText(*a.cosine) : "");
  cells.push_back(ShortNumber(a.max_ulp));
  if (!decisions) return cells;
  cells.push_back(AgreementText(a.argmax));
  cells.push_back(AgreementText(a.top_k));
  return cells;
}

std::vector<std::string> Heads(std::vector<std::string> words, const Comparison& comparison) {
  for (const char* head : {"max abs", "mean abs", "max rel", "mean rel", "cosine", "max ulp"}) words.emplace_back(head);
  if (!HasDecisions(comparison)) return words;
  words.emplace_back("argmax");
  words.push_back(Cat("top ", comparison.k));
  return words;
}

void WriteVerdict(std::string& out, const Comparison& comparison) {
  bool within = comparison.within();
  out += Cat("<div class=\"verdict", within ? "" : " no", "\"><b>", within ? "The answers agree" : "The answers differ",
             "</b><p>", Escaped(VerdictText(comparison)), "</p>");
  if (comparison.trace && comparison.trace->first)
    out += Cat("<p>First layer that goes wrong: ", Escaped(FaultText(*comparison.trace->first)), ".</p>");
  for (const std::string& text : {CauseText(comparison), NoFaultText(comparison)})
    if (!text.empty()) out += Cat("<p>", Escaped(text), "</p>");
  out += "</div>\n";
}

void WriteOutputs(std::string& out, const Comparison& comparison) {
  out += "<h2>Outputs, over all samples</h2>\n";
  TableWriter table(out, Heads({"output", "type"}, comparison), 2);
  for (const ComparedOutput& output : comparison.totals) {
    std::vector<std::string> cells{output.name, output.type};
    for (std::string& cell : Numbers(output, HasDecisions(comparison))) cells.push_back(std::move(cell));
    table.Row(cells, output.difference.within(), output.difference.Explain());
  }
}

void WriteSamples(std::string& out, const Comparison& comparison) {
  out += "<h2>Samples</h2>\n";
  TableWriter table(out, Heads({"sample", "kind", "output"}, comparison), 3);
  for (const ComparedSample& sample : comparison.samples) {
    std::string name(LastPart(sample.name));
    if (!sample.refused.empty()) table.Row({name, Name(sample.kind), ""}, true, Cat("left out: ", sample.refused));
    if (!sample.only_one.empty()) table.Row({name, Name(sample.kind), ""}, false, sample.only_one);
    for (const ComparedOutput& output : sample.outputs) {
      std::vector<std::string> cells{name, Name(sample.kind), output.name};
      for (std::string& cell : Numbers(output, HasDecisions(comparison))) cells.push_back(std::move(cell));
      table.Row(cells, output.difference.within(), output.difference.Explain());
    }
  }
}

constexpr double kWidth = 400, kHeight = 230, kLeft = 40, kRight = 10, kTop = 16, kBottom = 36;

std::string Text(double x, double y, std::string_view text, std::string_view anchor = "middle") {
  return Cat("<text x=\"", Place(x), "\" y=\"", Place(y), "\" text-anchor=\"", anchor, "\">", Escaped(text), "</text>");
}

std::string Svg(std::string_view label, const std::string& inside) {
  return Cat("<svg viewBox=\"0 0 ", kWidth, " ", kHeight, "\" role=\"img\" aria-label=\"", label, "\">", inside,
             "</svg>\n");
}

struct Bar {
  std::string label;
  int64_t count;
  bool bad;
};

std::vector<Bar> BarsOf(const ErrorHistogram& histogram) {
  std::vector<Bar> bars{{"0", histogram.equal, false}};
  for (size_t i = 0; i < histogram.bins.size(); ++i)
    bars.push_back({Cat("1e", ErrorHistogram::kLowest + static_cast<int>(i)), histogram.bins[i], false});
  bars.push_back({"NaN", histogram.not_finite, true});
  return bars;
}

// Counts on a logarithmic scale, so that one wrong element among a million is seen.
void WriteHistogram(std::string& out, const ErrorHistogram& histogram) {
  std::vector<Bar> bars = BarsOf(histogram);
  double highest = 1;
  for (const Bar& bar : bars) highest = std::max(highest, std::log10(1.0 + static_cast<double>(bar.count)));
  double step = (kWidth - kLeft - kRight) / static_cast<double>(bars.size()), room = kHeight - kTop - kBottom;
  std::string inside;
  for (int power = 0; power <= static_cast<int>(highest); ++power) {
    double y = kHeight - kBottom - room * std::log10(1.0 + std::pow(10.0, power)) / highest;
    if (y < kTop) break;
    inside += Cat("<line class=\"grid\" x1=\"", kLeft, "\" x2=\"", kWidth - kRight, "\" y1=\"", Place(y), "\" y2=\"",
                  Place(y), "\"/>", Text(kLeft - 6, y + 4, Cat("1e", power), "end"));
  }
  for (size_t i = 0; i < bars.size(); ++i) {
    double height = room * std::log10(1.0 + static_cast<double>(bars[i].count)) / highest;
    double x = kLeft + step * static_cast<double>(i);
    inside += Cat("<rect class=\"", bars[i].bad ? "bad" : "bar", "\" x=\"", Place(x + 2), "\" width=\"",
                  Place(step - 4), "\" y=\"", Place(kHeight - kBottom - height), "\" height=\"", Place(height),
                  "\"><title>", bars[i].label, ": ", bars[i].count, "</title></rect>");
    bool labelled = i % 3 == 0 || i + 1 == bars.size();
    if (labelled) inside += Text(x + step / 2, kHeight - kBottom + 16, bars[i].label);
  }
  inside += Text((kLeft + kWidth) / 2, kHeight - 4, "absolute difference");
  out += Svg("how many elements differ by how much", inside);
}

void WriteHistograms(std::string& out, const Comparison& comparison) {
  out += "<h2>How many elements differ by how much</h2>\n";
  for (const ComparedOutput& output : comparison.totals) {
    if (!output.agreement) continue;
    out += Cat("<p>", Code(output.name), " <span class=\"soft\">", output.agreement->histogram.total(),
               " elements</span></p>\n");
    WriteHistogram(out, output.agreement->histogram);
  }
}

// Errors from 1e-17 (drawn at the bottom, as are equal values) to 100.
double Height(double error) {
  double power = error > 0 ? std::clamp(std::log10(error), -17.0, 2.0) : -17.0;
  return kTop + (kHeight - kTop - kBottom) * (2.0 - power) / 19.0;
}

void WriteDepth(std::string& out, const LayerTrace& trace) {
  out += Cat("<h2>Error along the depth of the network</h2>\n<p class=\"soft\">", trace.layers.size(), " of ",
             trace.nodes, " nodes have a partner on the other side; sample ", Code(LastPart(trace.sample)), "</p>\n");
  if (trace.layers.empty()) return;
  std::string inside, points;
  for (int power = 0; power >= -15; power -= 5)
    inside += Cat("<line class=\"grid\" x1=\"", kLeft, "\" x2=\"", kWidth - kRight, "\" y1=\"",
                  Place(Height(std::pow(10.0, power))), "\" y2=\"", Place(Height(std::pow(10.0, power))), "\"/>",
                  Text(kLeft - 6, Height(std::pow(10.0, power)) + 4, Cat("1e", power), "end"));
  double last = std::max<double>(1, static_cast<double>(trace.nodes) - 1);
  for (const TracedLayer& layer : trace.layers) {
    double x = kLeft + (kWidth - kLeft - kRight) * static_cast<double>(layer.node) / last;
    points += Cat(points.empty() ? "" : " ", Place(x), ",", Place(Height(layer.error)));
    if (trace.first && layer.value == trace.first->value)
      inside += Cat("<line class=\"mark\" x1=\"", Place(x), "\" x2=\"", Place(x), "\" y1=\"", kTop, "\" y2=\"",
                    kHeight - kBottom, "\"/>", Text(std::clamp(x, kLeft + 40, kWidth - 60), kTop - 2, layer.op));
  }
  inside += Cat("<polyline class=\"line\" points=\"", points, "\"/>");
  inside += Text((kLeft + kWidth) / 2, kHeight - 14, "nodes in the order they run");
  out += Svg("error along the depth of the network", inside);
}

std::vector<std::string> RangeCells(std::string_view role, const ValueRange& range) {
  return {std::string(role),
          range.name,
          range.type,
          ShortNumber(range.least),
          ShortNumber(range.largest),
          ShortNumber(range.mean_abs),
          Cat(range.not_finite),
          range.error ? ShortNumber(*range.error) : ""};
}

void WriteFault(std::string& out, const LayerTrace& trace) {
  const FaultyLayer& layer = *trace.first;
  out += Cat("<h2>The first layer that goes wrong</h2>\n<p>", Escaped(FaultText(layer)), ".</p>\n<ul>");
  for (const std::string& difference : layer.differences) out += Cat("<li>", Escaped(difference), "</li>");
  if (layer.own_error)
    out += Cat("<li>given the other side's inputs it is off by ", ShortNumber(*layer.own_error), "</li>");
  if (!layer.other_op.empty())
    out += Cat("<li>on the other side: ", Code(layer.other_name), " (", Escaped(layer.other_op), ")</li>");
  out += "</ul>\n";
  {
    TableWriter table(out, {"role", "value", "type", "least", "largest", "mean abs", "not finite", "error"}, 3);
    for (const ValueRange& input : layer.inputs)
      table.Row(RangeCells(input.is_weight ? "weight" : "input", input), true);
    table.Row(RangeCells("result", layer.output), false);
    table.Row(RangeCells("expected", layer.expected), true);
  }
  if (trace.path.size() < 2) return;
  out += "<h2>The error on its way to the output</h2>\n";
  TableWriter table(out, {"layer", "result", "error"}, 2);
  for (size_t place : trace.path)
    table.Row({trace.layers[place].op, trace.layers[place].value, ShortNumber(trace.layers[place].error)}, true);
}

void WriteFindings(std::string& out, const Comparison& comparison) {
  if (!comparison.findings.empty()) {
    out += "<h2>What the doctor says about the model</h2>\n";
    TableWriter table(out, {"lint", "severity"}, 2);
    for (const Finding& finding : comparison.findings) {
      std::string place = ToText(finding.place);
      std::string remedy = finding.remedy.empty() ? "" : Cat(" — ", finding.remedy);
      table.Row({std::string(finding.lint), Name(finding.severity)}, finding.severity != Severity::kError,
                Cat(place, place.empty() ? "" : ": ", finding.message, remedy));
    }
  }
  if (comparison.notes.empty()) return;
  out += "<h2>Notes</h2>\n<ul>";
  for (const std::string& note : comparison.notes) out += Cat("<li>", Escaped(note), "</li>");
  out += "</ul>\n";
}

}  // namespace

std::string ToHtml(const Comparison& comparison) {
  std::string title = Cat(Escaped(LastPart(comparison.actual)), " against ", Escaped(LastPart(comparison.expected)));
  std::string out =
      Cat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
          "content=\"width=device-width,initial-scale=1\"><title>",
          title, "</title><style>", kStyle, "</style></head><body>\n<p class=\"soft\">ferry compare</p><h1>", title,
          "</h1>\n");
  WriteVerdict(out, comparison);
  WriteOutputs(out, comparison);
  if (comparison.trace && comparison.trace->first) WriteFault(out, *comparison.trace);
  if (comparison.trace) WriteDepth(out, *comparison.trace);
  WriteHistograms(out, comparison);
  WriteSamples(out, comparison);
  WriteFindings(out, comparison);
  return out + "</body></html>\n";
}

}  // namespace ferry
