#include "cli/findings.h"

namespace ferry::cli {

void AddFindings(const Model&, const std::string&, Comparison& comparison) {
  comparison.notes.push_back("ferry-runtime has no doctor: 'ferry compare --html' adds its findings to the page");
}

}  // namespace ferry::cli
