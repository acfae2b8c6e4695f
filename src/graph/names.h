// Fresh names for values and nodes that a rewrite adds. A name is never used twice in a model, not even in different
// scopes: a body may not hide a name of the graph around it.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "graph/model.h"

namespace ferry {

class NameMaker {
 public:
  // The model's own names are gathered when the first name is asked for; names added to it otherwise must be told of.
  explicit NameMaker(const Model& model) : model_(&model) {}

  // `wish` itself when it is free, else with a number behind it.
  std::string Make(std::string_view wish);

 private:
  const Model* model_;
  bool gathered_ = false;
  std::unordered_set<std::string> taken_;
};

}  // namespace ferry
