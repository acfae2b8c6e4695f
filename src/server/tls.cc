#include "server/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/error.h"

namespace ferry::server {
namespace {

SSL* Ssl(void* held) { return static_cast<SSL*>(held); }

long Outcome(SSL* ssl, int result) {
  switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return TlsStream::kAgain;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: ERR_clear_error(); return TlsStream::kBroken;
  }
}

int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* length, const unsigned char* offered,
                   unsigned int size, void*) {
  static constexpr unsigned char kKnown[] = "\x02h2\x08http/1.1";
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, length, kKnown, sizeof(kKnown) - 1, offered, size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_NOACK;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

}  // namespace

TlsStream::~TlsStream() { SSL_free(Ssl(ssl_)); }

long TlsStream::Read(char* out, size_t size) {
  ERR_clear_error();
  const int got = SSL_read(Ssl(ssl_), out, static_cast<int>(std::min<size_t>(size, INT_MAX)));
  return got > 0 ? got : Outcome(Ssl(ssl_), got);
}

long TlsStream::Write(const char* bytes, size_t size) {
  if (size == 0) return kAgain;
  ERR_clear_error();
  const int sent = SSL_write(Ssl(ssl_), bytes, static_cast<int>(std::min<size_t>(size, INT_MAX)));
  return sent > 0 ? sent : Outcome(Ssl(ssl_), sent);
}

void TlsStream::Shutdown() {
  ERR_clear_error();
  SSL_shutdown(Ssl(ssl_));
}

TlsServer::TlsServer(TlsOptions options) : options_(std::move(options)), context_(Load()) {}
TlsServer::~TlsServer() = default;

std::shared_ptr<void> TlsServer::Load() const {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) Fail(ErrorCode::kInternal, "OpenSSL cannot be used");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseProtocol, nullptr);
  if (SSL_CTX_use_certificate_chain_file(context.get(), options_.certificate.c_str()) != 1)
    Fail(ErrorCode::kInvalidArgument, "'", options_.certificate, "' is no certificate in PEM form");
  if (SSL_CTX_use_PrivateKey_file(context.get(), options_.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1)
    Fail(ErrorCode::kInvalidArgument, "'", options_.key, "' is not the private key of '", options_.certificate, "'");
  if (!options_.client_ca.empty()) {
    if (SSL_CTX_load_verify_locations(context.get(), options_.client_ca.c_str(), nullptr) != 1)
      Fail(ErrorCode::kInvalidArgument, "'", options_.client_ca, "' holds no certificates");
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  return context;
}

void TlsServer::Reload() {
  std::shared_ptr<void> fresh = Load();
  std::lock_guard lock(mutex_);
  context_ = std::move(fresh);
}

std::unique_ptr<TlsStream> TlsServer::Accept(int descriptor) {
  std::lock_guard lock(mutex_);
  SSL* ssl = SSL_new(static_cast<SSL_CTX*>(context_.get()));
  if (!ssl) return nullptr;
  SSL_set_fd(ssl, descriptor);
  SSL_set_accept_state(ssl);
  return std::make_unique<TlsStream>(ssl);
}

}  // namespace ferry::server
