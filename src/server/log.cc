#include "server/log.h"

#include <chrono>
#include <ctime>

#include "base/error.h"
#include "base/process.h"
#include "server/refusal.h"

namespace ferry::server {
namespace {

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kInfo: return "info";
    default: return "verbose";
  }
}

std::string TimeText(const char* form) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  const auto seconds = static_cast<std::time_t>(us / 1'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64], fraction[16];
  std::strftime(text, sizeof(text), form, &parts);
  std::snprintf(fraction, sizeof(fraction), ".%06d", static_cast<int>(us % 1'000'000));
  return std::string(text) + fraction;
}

}  // namespace

Log::Log(Settings settings) : settings_(std::move(settings)) {
  if (!settings_.file.empty()) {
    file_ = std::fopen(settings_.file.c_str(), "ae");
    if (!file_) Fail(ErrorCode::kIo, "the log file '", settings_.file, "' cannot be opened");
  }
  SetMask();
}

Log::~Log() {
  if (file_) std::fclose(file_);
}

void Log::SetMask() {
  mask_ = (settings_.error ? 1 : 0) | (settings_.warning ? 2 : 0) | (settings_.info ? 4 : 0) |
          (settings_.verbose > 0 ? 8 : 0);
}

void Log::Write(LogLevel level, std::string_view message, const Json& fields) {
  if (!IsOn(level)) return;
  std::lock_guard lock(mutex_);
  std::string line;
  if (settings_.format == "json") {
    Json json;
    json.Set("time", TimeText("%Y-%m-%dT%H:%M:%S") + "Z").Set("level", NameOf(level)).Set("message", message);
    if (fields.is_object())
      for (const auto& [key, value] : fields.AsObject()) json.Set(key, value);
    line = json.Dump(-1);
  } else {
    const char letter = level == LogLevel::kVerbose ? 'I' : static_cast<char>(NameOf(level)[0] - 'a' + 'A');
    line = settings_.format == "ISO8601" ? Cat(TimeText("%Y-%m-%dT%H:%M:%S"), "Z ", letter, " ", ProcessNumber(), "] ")
                                         : Cat(letter, TimeText("%m%d %H:%M:%S"), " ", ProcessNumber(), "] ");
    line += Printable(message, 2000);
    if (fields.is_object())
      for (const auto& [key, value] : fields.AsObject())
        line += Cat(" ", key, "=", value.is_string() ? Printable(value.AsString()) : value.Dump(-1));
  }
  line += '\n';
  std::FILE* out = file_ ? file_ : stderr;
  std::fwrite(line.data(), 1, line.size(), out);
  std::fflush(out);
}

Log::Settings Log::settings() const {
  std::lock_guard lock(mutex_);
  return settings_;
}

void Log::Change(const Json& changes) {
  Settings next = settings();
  auto flag = [](const std::string& key, const Json& value) {
    if (!value.is_bool()) Refuse(Code::kInvalidArgument, "expect boolean for '", key, "'");
    return value.AsBool();
  };
  for (const auto& [key, value] : changes.AsObject()) {
    if (value.is_null()) continue;  // as it was
    if (key == "log_info") {
      next.info = flag(key, value);
    } else if (key == "log_warning") {
      next.warning = flag(key, value);
    } else if (key == "log_error") {
      next.error = flag(key, value);
    } else if (key == "log_verbose_level") {
      if (!value.is_integer() || value.AsDouble() < 0 || value.AsDouble() > 1e6)
        Refuse(Code::kInvalidArgument, "expect an integer >= 0 for 'log_verbose_level'");
      next.verbose = static_cast<uint32_t>(value.AsInt());
    } else if (key == "log_format") {
      const std::string format = value.is_string() ? value.AsString() : "";
      if (format != "default" && format != "ISO8601" && format != "json")
        Refuse(Code::kInvalidArgument, "invalid argument for log_format, got: ", Printable(format));
      next.format = format;
    } else if (key == "log_file") {
      Refuse(Code::kUnimplemented, "log file location can not be updated through network protocol");
    } else {
      Refuse(Code::kInvalidArgument, "unknown log setting '", Printable(key), "'");
    }
  }
  std::lock_guard lock(mutex_);
  settings_ = std::move(next);
  SetMask();
}

Json Log::ToJson() const {
  const Settings now = settings();
  return Json()
      .Set("log_file", now.file)
      .Set("log_info", now.info)
      .Set("log_warning", now.warning)
      .Set("log_error", now.error)
      .Set("log_verbose_level", now.verbose)
      .Set("log_format", now.format);
}

}  // namespace ferry::server
