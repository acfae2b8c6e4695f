// TLS by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

namespace ferry::server {

struct TlsOptions {
  std::string certificate, key;
  std::string client_ca;  // clients must show a certificate that it signed; empty: none is asked for
};

// One connection's side of it; not blocking.
class TlsStream {
 public:
  static constexpr long kAgain = -1, kBroken = -2;  // 0 is the end

  explicit TlsStream(void* ssl) : ssl_(ssl) {}
  ~TlsStream();
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  long Read(char* out, size_t size);
  long Write(const char* bytes, size_t size);
  void Shutdown();

 private:
  void* const ssl_;
};

class TlsServer {
 public:
  // Throws ferry::Error saying which file is at fault.
  explicit TlsServer(TlsOptions options);
  ~TlsServer();
  std::unique_ptr<TlsStream> Accept(int descriptor);
  void Reload();  // for connections from now on; what cannot be read leaves the old one

 private:
  std::shared_ptr<void> Load() const;
  const TlsOptions options_;
  std::mutex mutex_;
  std::shared_ptr<void> context_;
};

}  // namespace ferry::server
