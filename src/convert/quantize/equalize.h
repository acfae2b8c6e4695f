// The same function with numbers that are easier to code: scales moved between layers and activations.
#pragma once

#include "convert/quantize/calibrate.h"
#include "convert/quantize/scheme.h"

namespace ferry::quantize {

// SmoothQuant: what a LayerNormalization makes too large in some channels goes into the weights of the products behind
// it. False when there is no such place.
bool SmoothActivations(Model& base, const std::vector<Layer>& layers, const Observations& seen);

// Channels between two convolutions, with nothing but a Relu between them, brought to like sizes.
bool EqualizeLayers(Model& base, const std::vector<Layer>& layers, const Observations& seen);

}  // namespace ferry::quantize
