// Prometheus' text form of what the models did, under Triton's names, and histograms beside them.

#include "base/process.h"
#include "base/small_text.h"
#include "server/service.h"

namespace ferry::server {
namespace {

std::string Label(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

struct Row {
  std::string labels;
  ModelStats::Data data;
  size_t pending;
  double load_seconds;
};

class Text {
 public:
  void Family(const char* name, const char* type, const char* help) {
    out_ += Cat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }
  void Value(const char* name, const std::string& labels, double value) {
    out_ += Cat(name, "{", labels, "} ", value, "\n");
  }
  void Value(const char* name, const std::string& labels, uint64_t value) {
    out_ += Cat(name, "{", labels, "} ", value, "\n");
  }
  void Histogram(const char* name, const std::string& labels, const server::Histogram& histogram, double scale) {
    uint64_t total = 0;
    for (size_t i = 0; i < histogram.counts.size(); ++i) {
      total += histogram.counts[i];
      const std::string bound =
          i < server::Histogram::kBoundsUs.size() ? Cat(server::Histogram::kBoundsUs[i] * scale) : "+Inf";
      out_ += Cat(name, "_bucket{", labels, ",le=\"", bound, "\"} ", total, "\n");
    }
    out_ +=
        Cat(name, "_sum{", labels, "} ", histogram.sum_us * scale, "\n", name, "_count{", labels, "} ", total, "\n");
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

void Machine(Text& text) {
  const std::string memory = ReadSmallText("/proc/meminfo");
  auto kilobytes = [&](const char* key) { return std::strtod(ValueOf(memory, key).c_str(), nullptr); };
  const double total = kilobytes("MemTotal:"), available = kilobytes("MemAvailable:");
  text.Family("nv_cpu_memory_total_bytes", "gauge", "CPU total memory (RAM), in bytes");
  text.Value("nv_cpu_memory_total_bytes", "", total * 1024);
  text.Family("nv_cpu_memory_used_bytes", "gauge", "CPU used memory (RAM), in bytes");
  text.Value("nv_cpu_memory_used_bytes", "", (total - available) * 1024);
  text.Family("ferry_peak_memory_bytes", "gauge", "Most memory that the server had in use");
  text.Value("ferry_peak_memory_bytes", "", static_cast<uint64_t>(PeakMemoryKilobytes()) * 1024);
}

}  // namespace

std::string Service::Metrics() const {
  std::vector<Row> rows;
  for (const auto& model : repository_.All()) {
    Row row{Cat("model=\"", Label(model->name()), "\",version=\"", model->version_text(), "\""),
            model->stats().Snapshot(), model->pending(), model->load_seconds()};
    for (const auto& [key, value] : model->config().metric_tags)
      row.labels += Cat(",_", Label(key), "=\"", Label(value), "\"");
    rows.push_back(std::move(row));
  }
  Text text;
  auto counter = [&](const char* name, const char* help, auto get) {
    text.Family(name, "counter", help);
    for (const Row& row : rows) text.Value(name, row.labels, static_cast<uint64_t>(get(row.data)));
  };
  using Data = ModelStats::Data;
  counter("nv_inference_request_success", "Number of successful inference requests, all batch sizes",
          [](const Data& d) { return d.success.count; });
  text.Family("nv_inference_request_failure", "counter", "Number of failed inference requests, all batch sizes");
  constexpr const char* kReasons[] = {"REJECTED", "CANCELED", "BACKEND", "OTHER"};
  for (const Row& row : rows)
    for (size_t i = 0; i < 4; ++i)
      text.Value("nv_inference_request_failure", Cat(row.labels, ",reason=\"", kReasons[i], "\""),
                 row.data.failures[i]);
  counter("nv_inference_count", "Number of inferences performed", [](const Data& d) { return d.inference_count; });
  counter("nv_inference_exec_count", "Number of model executions performed",
          [](const Data& d) { return d.execution_count; });
  counter("nv_inference_request_duration_us", "Cumulative inference request duration in microseconds",
          [](const Data& d) { return d.success.ns / 1000; });
  counter("nv_inference_queue_duration_us", "Cumulative inference queuing duration in microseconds",
          [](const Data& d) { return d.queue.ns / 1000; });
  counter("nv_inference_compute_input_duration_us", "Cumulative compute input duration in microseconds",
          [](const Data& d) { return d.compute_input.ns / 1000; });
  counter("nv_inference_compute_infer_duration_us", "Cumulative compute inference duration in microseconds",
          [](const Data& d) { return d.compute_infer.ns / 1000; });
  counter("nv_inference_compute_output_duration_us", "Cumulative inference compute output duration in microseconds",
          [](const Data& d) { return d.compute_output.ns / 1000; });
  text.Family("nv_inference_pending_request_count", "gauge",
              "Instantaneous number of pending requests awaiting execution");
  for (const Row& row : rows)
    text.Value("nv_inference_pending_request_count", row.labels, static_cast<uint64_t>(row.pending));
  text.Family("nv_model_load_duration_secs", "gauge", "Model load time in seconds");
  for (const Row& row : rows) text.Value("nv_model_load_duration_secs", row.labels, row.load_seconds);
  text.Family("nv_inference_first_response_histogram_ms", "histogram",
              "Duration from request to first response in milliseconds");
  for (const Row& row : rows)
    text.Histogram("nv_inference_first_response_histogram_ms", row.labels, row.data.request, 1e-3);
  text.Family("nv_inference_queue_histogram_us", "histogram", "Time in the queue in microseconds");
  for (const Row& row : rows) text.Histogram("nv_inference_queue_histogram_us", row.labels, row.data.queued, 1);
  text.Family("nv_inference_compute_histogram_us", "histogram", "Time of the run in microseconds");
  for (const Row& row : rows) text.Histogram("nv_inference_compute_histogram_us", row.labels, row.data.compute, 1);
  text.Family("ferry_batch_runs", "counter", "Runs by their number of rows");
  for (const Row& row : rows)
    for (const auto& [size, batch] : row.data.batches)
      text.Value("ferry_batch_runs", Cat(row.labels, ",rows=\"", size, "\""), batch.infer.count);
  Machine(text);
  return text.Take();
}

}  // namespace ferry::server
