// What Ferry can run, as a page: every operator of the standard with its versions, types and provider.
#pragma once

#include <string>

namespace ferry {

// Markdown, made from the operator registry and the schemas; docs/operators.md is this text.
std::string OperatorPage();

}  // namespace ferry
