// Requests as rows of one batch, and the rows of its outputs.
#pragma once

#include <memory>
#include <vector>

#include "server/infer.h"

namespace ferry::server {

// The same inputs, types and shapes past the first dimension, and the same outputs wanted.
bool CanJoin(const Job& a, const Job& b);
std::vector<NamedValue> JoinInputs(const std::vector<std::unique_ptr<Job>>& jobs);
bool HaveRows(const std::vector<Value>& outputs, int64_t rows);
std::vector<Value> RowsOf(const std::vector<Value>& outputs, int64_t begin, int64_t count);
// Equal but for rounding, which differs with the number of rows.
bool AreClose(const std::vector<Value>& a, const std::vector<Value>& b);

}  // namespace ferry::server
