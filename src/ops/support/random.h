// Random numbers that are the same on every machine: numpy's legacy generator, RandomState(seed).
#pragma once

#include <cstdint>
#include <random>

#include "graph/model.h"

namespace ferry {

class RandomState {
 public:
  explicit RandomState(uint32_t seed) : engine_(seed) {}

  double Uniform();  // [0, 1), 53 bits: numpy's random_sample
  double Normal();   // mean 0, deviation 1: numpy's standard_normal (polar method, every second one kept)

 private:
  std::mt19937 engine_;
  bool has_kept_ = false;
  double kept_ = 0;
};

// The generator a node draws from. Its attribute 'seed' (an integer, or a float that is cut to one; the low 32 bits
// count) makes every run the same. Without it each run draws a new seed from the operating system (std::random_device).
RandomState RandomStateFor(const Node& node);

}  // namespace ferry
