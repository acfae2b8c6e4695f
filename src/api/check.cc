#include "api/handles.h"
#include "engine/check_inference.h"
#include "onnx/reader.h"

using namespace ferry;
using namespace ferry::api;

ferry_status* ferry_check(const char* path, ferry_report** out) {
  return Guard([&] {
    RequirePointer(path, "path");
    RequirePointer(out, "out");
    std::vector<Problem> problems = CheckFully(ReadModel(path));
    auto report = std::make_unique<ferry_report>();
    report->valid = !HasErrors(problems);
    for (const Problem& problem : problems) report->problems.push_back(ToText(problem));
    *out = report.release();
  });
}

int ferry_report_valid(const ferry_report* report) { return report && report->valid; }

size_t ferry_report_count(const ferry_report* report) { return report ? report->problems.size() : 0; }

const char* ferry_report_problem(const ferry_report* report, size_t index) {
  return index < ferry_report_count(report) ? report->problems[index].c_str() : nullptr;
}

void ferry_report_free(ferry_report* report) { delete report; }
