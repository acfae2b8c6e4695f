// The running server: listeners, loops, models, and its orderly end.
#pragma once

#include "server/options.h"

namespace ferry::server {

// Returns the process's exit status.
int RunServer(const ServerOptions& options);

}  // namespace ferry::server
