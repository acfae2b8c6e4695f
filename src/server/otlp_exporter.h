// Sends spans to an OpenTelemetry collector, over HTTP in JSON form, from a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ferry::server {

class OtlpExporter {
 public:
  // "http://HOST[:PORT][/PATH]"; the port is 4318 and the path /v1/traces unless it says otherwise. Throws
  // ferry::Error.
  explicit OtlpExporter(const std::string& url);
  ~OtlpExporter();
  OtlpExporter(const OtlpExporter&) = delete;
  OtlpExporter& operator=(const OtlpExporter&) = delete;

  // One element of resourceSpans. What a collector that is away would have had is dropped beyond a few thousand.
  void Add(std::string resource_spans);
  void Flush();  // waits until what was added has been sent or given up, two seconds at most
  uint64_t dropped() const { return dropped_; }

 private:
  void Work();
  bool Post(const std::string& body) const;

  std::string host_, port_ = "4318", path_ = "/v1/traces";
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::vector<std::string> waiting_;
  bool stopping_ = false, hurried_ = false, sending_ = false;
  std::atomic<uint64_t> dropped_{0};
  std::thread worker_;
};

}  // namespace ferry::server
