#include "server/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace ferry::server {
namespace {

constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr auto kLinger = std::chrono::seconds(2);
constexpr std::chrono::seconds kDrainIdle{1};

}  // namespace

Seat::~Seat() {
  close(descriptor_);
  --taken_;
}

Connection::Connection(EventLoop& loop, std::shared_ptr<const Seat> seat, uint64_t number, Door door, std::string peer,
                       std::unique_ptr<TlsStream> tls, RequestHandler& handler, const ConnectionLimits& limits)
    : loop_(&loop),
      seat_(std::move(seat)),
      descriptor_(seat_->descriptor()),
      number_(number),
      door_(door),
      peer_(std::move(peer)),
      tls_(std::move(tls)),
      handler_(handler),
      limits_(limits),
      last_progress_(loop_->now()) {}

Connection::~Connection() {
  protocol_.reset();
  tls_.reset();
}

void Connection::OnReady(bool readable, bool writable, bool broken) {
  if (closed_) return;
  if (readable || broken) readable_ = true;
  if (writable && backlog() > 0) {
    if (!Flush()) return;
    if (protocol_ && backlog() == 0 && !closed_) protocol_->OnWritable();
  }
  if (!closed_ && readable_) ReadAll();
  // The end came with the last bytes, and nothing tells of it again.
  if (broken && !closed_ && !at_end_) {
    readable_ = true;
    ReadAll();
  }
}

void Connection::ReadAll() {
  if (reading_) return;
  reading_ = true;
  std::string& scratch = loop_->scratch();
  while (!closed_ && readable_) {
    if (!lingering_ && protocol_ && !protocol_->WantsBytes()) break;
    const long got =
        tls_ ? tls_->Read(scratch.data(), scratch.size()) : recv(descriptor_, scratch.data(), scratch.size(), 0);
    if (got > 0) {
      if (!tls_ && static_cast<size_t>(got) < scratch.size()) readable_ = false;
      last_progress_ = loop_->now();
      if (!lingering_) Take({scratch.data(), static_cast<size_t>(got)});
      continue;
    }
    readable_ = false;
    const bool again = tls_ ? got == TlsStream::kAgain : got < 0 && (errno == EAGAIN || errno == EINTR);
    if (got < 0 && !tls_ && errno == EINTR) {
      readable_ = true;
      continue;
    }
    if (again) {
      if (tls_ && !Flush()) break;
      break;
    }
    at_end_ = true;
    // A client that sent all it has may still wait for the answer.
    if (got < 0 || lingering_ || !protocol_)
      Close();
    else if (!protocol_->Answers())
      CloseWhenWritten();
  }
  reading_ = false;
}

void Connection::ChooseProtocol() {
  const bool is_h2 = first_bytes_.compare(0, kHttp2Preface.size(), kHttp2Preface) == 0;
  const bool may_be_h2 = kHttp2Preface.substr(0, first_bytes_.size()) == first_bytes_;
  if (!is_h2 && may_be_h2) return;  // too few to tell
  protocol_ = is_h2 ? MakeHttp2(*this) : MakeHttp1(*this);
  if (drained_) protocol_->Drain();
}

void Connection::Take(std::string_view bytes) {
  if (protocol_) {
    protocol_->OnData(bytes);
  } else {
    first_bytes_ += bytes;
    ChooseProtocol();
    if (protocol_) {
      const std::string first = std::move(first_bytes_);
      protocol_->OnData(first);
    }
  }
  const bool in_header = !protocol_ || protocol_->InHeader();
  if (in_header && !in_header_) header_begun_ = loop_->now();
  in_header_ = in_header;
}

long Connection::Send(const iovec* parts, int count) {
  if (tls_) return tls_->Write(static_cast<const char*>(parts[0].iov_base), parts[0].iov_len);
  if (count == 1 || parts[1].iov_len == 0) return send(descriptor_, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<size_t>(count);
  return sendmsg(descriptor_, &message, MSG_NOSIGNAL);
}

void Connection::Write(std::string_view first, std::string_view second) {
  if (closed_) return;
  if (backlog() > 0 || tls_) {
    (out_ += first) += second;
    if (sent_ == 0 || tls_) Flush();
    return;
  }
  const iovec parts[2] = {{const_cast<char*>(first.data()), first.size()},
                          {const_cast<char*>(second.data()), second.size()}};
  const long sent = Send(parts, 2);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return Close();
  const size_t done = sent < 0 ? 0 : static_cast<size_t>(sent);
  if (done == first.size() + second.size()) return;
  out_.clear();
  sent_ = 0;
  if (done < first.size()) out_.append(first.substr(done));
  out_.append(second.substr(done > first.size() ? done - first.size() : 0));
}

// False: the connection is gone.
bool Connection::Flush() {
  while (sent_ < out_.size()) {
    const iovec part = {out_.data() + sent_, out_.size() - sent_};
    const long sent = Send(&part, 1);
    if (sent <= 0) {
      const bool again = tls_ ? sent == TlsStream::kAgain : errno == EAGAIN || errno == EINTR;
      if (again) return true;
      Close();
      return false;
    }
    sent_ += static_cast<size_t>(sent);
    last_progress_ = loop_->now();
  }
  if (out_.capacity() > 64 * 1024)
    std::string().swap(out_);
  else
    out_.clear();
  sent_ = 0;
  if (closing_) {
    CloseWhenWritten();
    return !closed_;
  }
  return true;
}

void Connection::CloseWhenWritten() {
  closing_ = true;
  if (closed_ || backlog() > 0 || lingering_) return;
  if (at_end_) return Close();
  // Closing while bytes are unread would reset the connection, and the answer might be lost.
  lingering_ = true;
  linger_until_ = loop_->now() + kLinger;
  if (tls_) tls_->Shutdown();
  shutdown(descriptor_, SHUT_WR);
}

void Connection::Close() {
  if (closed_) return;
  closed_ = true;
  if (protocol_) protocol_->OnClosed();
  loop_->Remove(descriptor_, number_);
}

void Connection::Resume() {
  if (closed_) return;
  if (at_end_ && protocol_ && !protocol_->Answers()) return CloseWhenWritten();
  if (readable_ && !reading_) ReadAll();
}

void Connection::Drain() {
  drained_ = true;
  if (!closed_ && protocol_) protocol_->Drain();
}

void Connection::OnTick(std::chrono::steady_clock::time_point now) {
  if (closed_) return;
  if (lingering_) {
    if (now > linger_until_) Close();
    return;
  }
  if (protocol_) protocol_->OnTick(now);
  if (closed_ || lingering_) return;
  if (in_header_ && now - header_begun_ > limits_.header_time) return Close();
  const bool idle = (!protocol_ || protocol_->IsIdle()) && backlog() == 0;
  auto patience = protocol_ ? limits_.idle_time : limits_.header_time;
  // A client that is busy learns of the end by its next answer; one that is not would not miss the connection.
  if (drained_) patience = std::min(patience, kDrainIdle);
  if (idle && !in_header_ && now - last_progress_ > patience) return EndIdle();
  if (backlog() > 0 && now - last_progress_ > limits_.body_time) return Close();
  if (!idle && protocol_->IsReadingBody() && now - last_progress_ > limits_.body_time) Close();
}

void Connection::MoveTo(EventLoop& next) {
  const bool rests = protocol_ && protocol_->IsIdle() && backlog() == 0 && !readable_ && !reading_ && !in_header_;
  if (!rests || closed_ || closing_ || lingering_ || at_end_ || drained_) return;
  const auto rested = loop_->now() - last_progress_;
  auto self = std::make_shared<std::unique_ptr<Watched>>(loop_->Release(descriptor_, number_));
  loop_ = &next;
  next.Later([this, rested, self] {
    last_progress_ = loop_->now() - rested;
    loop_->Add(descriptor_, number_, std::move(*self));
    if (loop_->is_draining()) Drain();
  });
}

void Connection::EndIdle() {
  const auto before = last_progress_;
  readable_ = true;  // its next request may have come this moment
  ReadAll();
  if (closed_ || lingering_ || last_progress_ != before) return;
  if (protocol_)
    for (int i = 0; i < 2; ++i) protocol_->Drain();
  CloseWhenWritten();
}

}  // namespace ferry::server
