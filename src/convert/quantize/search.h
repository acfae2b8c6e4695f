// Which layers must stay in higher precision for a budget to hold.
#pragma once

#include "convert/quantize/workshop.h"

namespace ferry::quantize {

// The SNR of the answers when only one layer is coded, for each. What lies before it is float and was run once: each
// run starts at the layer (`remember`), or at the model's inputs where that takes too much memory.
std::vector<double> MeasureAlone(Workshop& workshop, const Judge& judge, RangeMethod ranges,
                                 const std::vector<Rung>& rungs, bool remember = true);

// Measures each layer alone, then lifts as few as need be, rung by rung, those first that cost most. `alone` gets the
// SNR of each layer by itself, `whys` the reason for each that was lifted. The trial that holds, or the nearest.
Trial SearchRungs(Workshop& workshop, const Judge& judge, RangeMethod ranges, const Goal& goal,
                  std::vector<Rung>& rungs, Trial start, std::vector<std::string>& whys, std::vector<double>& alone);

}  // namespace ferry::quantize
