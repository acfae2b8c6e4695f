// A port that is listened on.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "server/connection.h"
#include "server/loop_balance.h"
#include "server/options.h"

namespace ferry::server {

// What all connections share.
struct Doors {
  RequestHandler& handler;
  const ConnectionLimits& limits;
  int most_connections;
  LoopBalance& balance;
  std::atomic<int> connections{0};
};

class Listener : public Watched {
 public:
  // Throws ferry::Error. `descriptor` >= 0: a socket that listens already (systemd's).
  Listener(Doors& doors, Door door, const ListenOptions& options, TlsServer* tls, int descriptor = -1);
  ~Listener() override;
  int descriptor() const { return descriptor_; }
  int port() const { return port_; }
  void OnReady(bool readable, bool writable, bool broken) override;
  void OnTick(std::chrono::steady_clock::time_point now) override;
  // Connections accepted so far.
  uint64_t accepted() const { return accepted_; }
  // From here on the server whose socket has this place among those that share the port gets who is new, if there is
  // one.
  void SendNewTo(uint32_t place);
  // Nobody new; who is connecting already is still accepted until Close.
  void RefuseNew();
  void Close();

 private:
  void AcceptAll();

  Doors& doors_;
  const Door door_;
  TlsServer* const tls_;
  const bool is_handed_;
  int descriptor_ = -1;
  const bool is_shared_;
  uint64_t accepted_ = 0;
  int port_ = 0;
};

// Sockets that systemd hands over, in their order.
std::vector<int> HandedSockets();
// Tells systemd, where it waits for that: "READY=1".
void Notify(const char* state);

}  // namespace ferry::server
