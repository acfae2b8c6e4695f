// Loops over one row of floats, vectorised: activations, normalisation, softmax.
#pragma once

#include <stdint.h>

#include "kernels/activation.h"

namespace ferry {

// y = (x - mean) / sqrt(variance + epsilon) · scale + bias; without `centered` the mean is taken as zero (RMS).
struct NormalizeRow {
  const float* x = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;  // may be null
  float* y = nullptr;           // may be x
  int64_t count = 0;
  float epsilon = 0;
  bool centered = true;
};

// y = softmax(x · scale + mask), with `fill` in place of what is not kept: after the mask was added, or before.
struct SoftmaxRow {
  const float* x = nullptr;
  const float* mask = nullptr;  // may be null
  float* y = nullptr;           // may be x
  int64_t count = 0;
  float scale = 1;
  bool nan_to_zero = false;  // a row without an answer (all −∞, or NaN somewhere) becomes zeros, not NaN
  bool normalize = true;
  const bool* flags = nullptr;  // may be null; true: kept, or left out where `flags_leave_out`
  bool flags_leave_out = false;
  bool fills_before_mask = false;
  float fill = 0;
  bool empty_to_zero = false;  // a row of nothing but −∞ becomes zeros; with NaN somewhere it is NaN
};

// The pairs (a, b) that the two halves of a row make become (a·cos − b·sin, b·cos + a·sin).
struct RotateHalves {
  const float* x = nullptr;
  const float* cosines = nullptr;
  const float* sines = nullptr;
  float* y = nullptr;  // may be x
  int64_t half = 0;
  int64_t second = 0;  // where cosines and sines of the second half begin: 0 where both halves share them
};

struct RowKernels {
  void (*activate)(const Activation& activation, const float* x, float* y, int64_t count);
  void (*exp)(const float* x, float* y, int64_t count);
  void (*erf)(const float* x, float* y, int64_t count);
  void (*normalize)(const NormalizeRow& row);
  // Gives what is left to multiply y with: 1 when it is normalized.
  float (*softmax)(const SoftmaxRow& row);
  // y = Σ weights[k] · rows[k * stride …], for products with a single row on the left
  void (*combine)(const float* weights, int64_t depth, const float* rows, int64_t stride, float* y, int64_t count);
  float (*dot)(const float* a, const float* b, int64_t count);
  void (*rotate)(const RotateHalves& row);
};

const RowKernels& BestRowKernels();

}  // namespace ferry
