// What PyTorch gives, by name; see record_with_torch.py.
#pragma once

#include <map>
#include <string>
#include <vector>

const std::map<std::string, std::vector<float>>& AllRecorded();
