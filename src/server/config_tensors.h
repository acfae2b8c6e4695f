// One input or output of a configuration: made from the model's, completed by it, held against it.
#pragma once

#include <string>

#include "server/model_config.h"

namespace ferry::server {

class TensorCompletion {
 public:
  TensorCompletion(const std::string& model, int64_t max_batch_size, bool is_input)
      : model_(model), max_batch_size_(max_batch_size), is_input_(is_input) {}

  Json FromModel(const ValueInfo& info) const;
  // Throws Refusal where it does not fit the model.
  Json Complete(const Json& given, const ValueInfo& info) const;
  TensorConfig Read(const Json& json, const ValueInfo& info) const;

 private:
  void CheckShape(const Json& io, const std::string& name) const;
  void CheckReshape(const std::string& prefix, const std::vector<int64_t>& dims,
                    const std::vector<int64_t>& reshape) const;
  void CheckAgainst(const Json& io, const ValueInfo& info) const;

  const std::string& model_;
  const int64_t max_batch_size_;
  const bool is_input_;
};

std::vector<int64_t> ListOfIntegers(const Json* list);  // null: none
void ReplaceField(Json& object, std::string_view key, Json value);

}  // namespace ferry::server
