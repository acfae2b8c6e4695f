// A port that is listened on.
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <memory>

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
  // Until then it only has the port: nobody is lost where the server cannot start. Throws ferry::Error.
  void Listen();
  int descriptor() const { return descriptor_; }
  const std::string& address() const { return options_.address; }
  int port() const { return port_; }
  const char* name() const;  // as Triton's log calls it
  void OnReady(bool readable, bool writable, bool broken) override;
  void OnTick(std::chrono::steady_clock::time_point now) override;
  // From here on another server that shares the port gets who is new, if there is one.
  void HandOver();
  bool has_next() const { return has_next_; }  // there was one
  // Nobody new; who is connecting already is still accepted until Close.
  void RefuseNew();
  void Close();

 private:
  void AcceptAll();
  void Serve(int made, const sockaddr_storage& address);
  void SendNewTo(uint32_t place);
  bool OthersGetNew();

  Doors& doors_;
  const Door door_;
  const ListenOptions& options_;
  TlsServer* const tls_;
  const bool is_handed_;
  int descriptor_ = -1;
  const bool is_shared_;
  bool has_next_ = false;
  sockaddr_storage probe_{};  // where its own connection comes from
  int port_ = 0;
};

// Sockets that systemd hands over: those named "http", "grpc" and "metrics", else in this order, also where a door is
// not allowed; -1: none.
std::array<int, 3> HandedSockets();
// Tells systemd, where it waits for that: "READY=1".
void Notify(const char* state);

}  // namespace ferry::server
