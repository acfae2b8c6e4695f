// Which layers must stay in higher precision for a budget to hold.
#pragma once

#include "convert/quantize/workshop.h"

namespace ferry::quantize {

// Measures each layer alone, then lifts as few as need be, rung by rung, those first that cost most. `alone` gets the
// SNR of each layer by itself, `whys` the reason for each that was lifted. The trial that holds, or the nearest.
Trial SearchRungs(Workshop& workshop, const Judge& judge, RangeMethod ranges, const QuantizeBudget& budget,
                  std::vector<Rung>& rungs, Trial start, std::vector<std::string>& whys, std::vector<double>& alone);

}  // namespace ferry::quantize
