#include "server/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/process.h"
#include "base/text.h"

namespace ferry::server {
namespace {

// A place that no socket has: the system chooses by itself.
constexpr uint32_t kNoPlace = UINT32_MAX;
constexpr const char* kDoorNames[] = {"http", "grpc", "metrics"};

[[noreturn]] void FailToListen(const ListenOptions& options, int error) {
  Fail(ErrorCode::kIo, "cannot listen on ", options.address, ":", options.port, ": ", std::strerror(error),
       error == EADDRINUSE ? " (--reuse-http-port lets two servers share it)" : "");
}

int BoundSocket(const ListenOptions& options) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (getaddrinfo(options.address.c_str(), Cat(options.port).c_str(), &hints, &found) != 0 || !found)
    Fail(ErrorCode::kInvalidArgument, "'", options.address, "' is no address to listen on");
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int made = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int one = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
  if (options.reuse_port) setsockopt(made, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
  if (made < 0 || bind(made, found->ai_addr, found->ai_addrlen) != 0) {
    const int error = errno;
    if (made >= 0) close(made);
    FailToListen(options, error);
  }
  return made;
}

int PortOf(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

std::string PeerText(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr, text, sizeof(text));
  else
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&address)->sin_addr, text, sizeof(text));
  return text;
}

}  // namespace

Listener::Listener(Doors& doors, Door door, const ListenOptions& options, TlsServer* tls, int descriptor)
    : doors_(doors),
      door_(door),
      options_(options),
      tls_(tls),
      is_handed_(descriptor >= 0),
      descriptor_(is_handed_ ? descriptor : BoundSocket(options)),
      is_shared_(!is_handed_ && options.reuse_port),
      port_(PortOf(descriptor_)) {
  // systemd hands over sockets that block, unless it is told otherwise.
  if (is_handed_) fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
}

Listener::~Listener() {
  if (descriptor_ >= 0) close(descriptor_);
}

void Listener::Listen() {
  if (!is_handed_ && listen(descriptor_, 4096) != 0) FailToListen(options_, errno);
}

const char* Listener::name() const {
  return door_ == Door::kHttp ? "HTTPService" : door_ == Door::kGrpc ? "GRPCInferenceService" : "Metrics Service";
}

void Listener::OnReady(bool readable, bool, bool) {
  if (readable) AcceptAll();
}

// Without descriptors left, a connection waits until one is free; nothing tells of it.
void Listener::OnTick(std::chrono::steady_clock::time_point) { AcceptAll(); }

void Listener::AcceptAll() {
  while (descriptor_ >= 0) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    const int made = accept4(descriptor_, reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (made < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    if (std::memcmp(&address, &probe_, sizeof(address)) == 0) {
      probe_ = {};
      close(made);
      continue;
    }
    if (doors_.connections >= doors_.most_connections) {
      static constexpr std::string_view kFull =
          "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\ncontent-length: "
          "41\r\n"
          "connection: close\r\n\r\n{\"error\":\"the server has no connections\"}\n";
      [[maybe_unused]] ssize_t sent = send(made, kFull.data(), kFull.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      close(made);
      continue;
    }
    Serve(made, address);
  }
}

void Listener::Serve(int made, const sockaddr_storage& address) {
  std::shared_ptr<const Seat> seat;
  try {
    seat = std::make_shared<const Seat>(doors_.connections, made);
  } catch (...) {
    close(made);
    throw;
  }
  const int one = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  EventLoop& loop = doors_.balance.ForNew();
  loop.Do([&loop, seat = std::move(seat), peer = PeerText(address), &doors = doors_, door = door_, tls = tls_] {
    const int descriptor = seat->descriptor();
    const uint64_t number = EventLoop::NextNumber();
    auto connection = std::make_unique<Connection>(
        loop, seat, number, door, peer, tls ? tls->Accept(descriptor) : nullptr, doors.handler, doors.limits);
    if (loop.is_draining()) connection->Drain();
    loop.Add(descriptor, number, std::move(connection));
  });
}

void Listener::SendNewTo(uint32_t place) {
  // The system asks this which of the port's sockets, in the order they were opened in, a new connection belongs to.
  // Where there is none it chooses by itself.
  sock_filter to_place = {BPF_RET | BPF_K, 0, 0, place};
  const sock_fprog program = {1, &to_place};
  setsockopt(descriptor_, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

// Asks by connecting: once the end of that has been heard its other side is with somebody. False where nobody hears it,
// such as one who refuses new ones itself.
bool Listener::OthersGetNew() {
  constexpr int kMostMilliseconds = 250;
  sockaddr_storage to{};
  socklen_t size = sizeof(to);
  getsockname(descriptor_, reinterpret_cast<sockaddr*>(&to), &size);
  if (to.ss_family == AF_INET6) {
    if (auto& address = reinterpret_cast<sockaddr_in6&>(to).sin6_addr; IN6_IS_ADDR_UNSPECIFIED(&address))
      address = in6addr_loopback;
  } else if (auto& address = reinterpret_cast<sockaddr_in&>(to).sin_addr; address.s_addr == htonl(INADDR_ANY)) {
    address.s_addr = htonl(INADDR_LOOPBACK);
  }
  const int made = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) return false;
  connect(made, reinterpret_cast<sockaddr*>(&to), size);
  sockaddr_storage probe{};
  size = sizeof(probe);
  getsockname(made, reinterpret_cast<sockaddr*>(&probe), &size);
  probe_ = probe;
  bool is_heard = false, is_mine = false, is_settled = false;
  for (int i = 0; i < kMostMilliseconds && !is_mine && !is_settled; ++i) {
    tcp_info info{};
    auto ask = [&] { getsockopt(made, IPPROTO_TCP, TCP_INFO, &info, &(size = sizeof(info))); };
    ask();
    if (info.tcpi_state == TCP_ESTABLISHED) {
      is_heard = true;
      shutdown(made, SHUT_WR);
      ask();
    }
    is_settled =
        info.tcpi_state != TCP_SYN_SENT && info.tcpi_state != TCP_ESTABLISHED && info.tcpi_state != TCP_FIN_WAIT1;
    is_heard = is_heard || (is_settled && info.tcpi_state != TCP_CLOSE);
    AcceptAll();
    is_mine = probe_.ss_family == 0;
    if (!is_mine && !is_settled) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  probe_ = {};
  close(made);
  return is_heard && is_settled && !is_mine;
}

void Listener::HandOver() {
  if (descriptor_ < 0 || !is_shared_) return;
  // It is the second one that came after this one, where this is the first; else the first one was there before.
  for (uint32_t place : {1u, 0u}) {
    SendNewTo(place);
    has_next_ = OthersGetNew();
    if (has_next_) return;
  }
  SendNewTo(kNoPlace);
}

void Listener::RefuseNew() {
  if (descriptor_ < 0 || is_handed_) return;
  // Who asks to connect from here on is not heard, and asks again: then another server of this port hears it. Who is
  // in the middle of connecting still gets in, where a closed socket would reset it.
  constexpr uint32_t kFlagsOfTcp = 13, kSyn = 2;
  sock_filter no_syn[] = {{BPF_LD | BPF_B | BPF_ABS, 0, 0, kFlagsOfTcp},
                          {BPF_JMP | BPF_JSET | BPF_K, 0, 1, kSyn},
                          {BPF_RET | BPF_K, 0, 0, 0},
                          {BPF_RET | BPF_K, 0, 0, UINT32_MAX}};
  const sock_fprog program = {std::size(no_syn), no_syn};
  setsockopt(descriptor_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

void Listener::Close() {
  if (descriptor_ < 0) return;
  // Who waits at a socket of systemd's is accepted by the server that it is handed to next.
  if (!is_handed_) AcceptAll();
  if (is_shared_) SendNewTo(kNoPlace);  // what it was told outlives the socket
  close(descriptor_);
  descriptor_ = -1;
}

std::array<int, 3> HandedSockets() {
  std::array<int, 3> sockets = {-1, -1, -1};
  const char* process = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  const char* given = std::getenv("LISTEN_FDNAMES");
  if (!process || !count || std::atoll(process) != ProcessNumber()) return sockets;
  constexpr int kFirst = 3;
  const std::vector<std::string> names = SplitText(given ? given : "", ':');
  bool has_names = false;
  for (size_t door = 0; door < sockets.size(); ++door)
    for (int i = 0; i < std::atoi(count) && i < static_cast<int>(names.size()); ++i)
      if (names[static_cast<size_t>(i)] == kDoorNames[door]) {
        sockets[door] = kFirst + i;
        has_names = true;
      }
  for (int i = 0; !has_names && i < std::atoi(count) && i < 3; ++i) sockets[static_cast<size_t>(i)] = kFirst + i;
  return sockets;
}

void Notify(const char* state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (!path || std::strlen(path) >= sizeof(sockaddr_un::sun_path)) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path);
  if (address.sun_path[0] == '@') address.sun_path[0] = 0;
  const int made = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (made < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  sendto(made, state, std::strlen(state), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), size);
  close(made);
}

}  // namespace ferry::server
