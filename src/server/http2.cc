// HTTP/2 on a connection, by nghttp2; gRPC's framing of messages on top of it.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>

#include "server/compression.h"
#include "server/connection.h"

namespace ferry::server {
namespace {

constexpr uint32_t kMostStreams = 256;
constexpr uint32_t kStreamWindow = 1 << 20;
constexpr size_t kBacklog = size_t{1} << 20;

// So many at once, and so many a second after that.
class Allowance {
 public:
  Allowance(double most, double per_second) : most_(most), per_second_(per_second), left_(most) {}
  bool Take() {
    const auto now = std::chrono::steady_clock::now();
    left_ = std::min(most_, left_ + per_second_ * std::chrono::duration<double>(now - last_).count());
    last_ = now;
    return --left_ >= 0;
  }

 private:
  const double most_, per_second_;
  double left_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

std::string PercentEncoded(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F && c != '%')
      out += c;
    else
      ((out += '%') += kHex[byte >> 4]) += kHex[byte & 15];
  }
  return out;
}

class Http2;

struct Stream {
  std::shared_ptr<HttpRequest> request = std::make_shared<HttpRequest>();
  BodyLimit limit;
  size_t header_bytes = 0;
  bool is_grpc = false, begun = false, half_closed = false, refused = false;
  std::chrono::steady_clock::time_point last_bytes;
  std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max();  // the client's own
  Coding coding = Coding::kIdentity;
  std::unique_ptr<GrpcCall> call;
  // What is still to be sent.
  std::string out;
  size_t sent = 0;
  bool answered = false, finished = false, has_trailers = false;
  Code code = Code::kOk;
  std::string status_message;
};

// Lives as long as the call's user wants; the stream may be gone before.
class StreamSink : public GrpcSink, public std::enable_shared_from_this<StreamSink> {
 public:
  StreamSink(EventLoop& loop, uint64_t connection, Http2* http2, int32_t stream)
      : loop_(loop), connection_(connection), http2_(http2), stream_(stream) {}
  void Send(std::string message) override;
  void Reply(std::string message) override;
  void Finish(Code code, std::string message) override;

 private:
  // On the loop's thread, in the order of the calls: what another thread handed over is not overtaken.
  void InOrder(std::function<void(Http2&)> work);

  EventLoop& loop_;
  std::atomic<int> handed_over_{0};
  const uint64_t connection_;
  Http2* const http2_;  // valid while the connection is there
  const int32_t stream_;
};

class Http2 : public Protocol, public Answered {
 public:
  explicit Http2(Connection& connection) : connection_(connection) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, OnFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, OnChunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, OnStreamClose);
    nghttp2_session_server_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, kMostStreams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(connection.limits().most_header)},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, 64 * 1024}};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, 4);
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, 8 << 20);
  }
  ~Http2() override { nghttp2_session_del(session_); }

  void OnData(std::string_view bytes) override {
    receiving_ = true;
    const ssize_t taken =
        nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    receiving_ = false;
    if (taken < 0) failed_ = true;
    Flush();
    if (failed_) connection_.CloseWhenWritten();
  }
  void OnWritable() override { Flush(); }
  void OnClosed() override {
    closed_ = true;
    for (auto& [number, stream] : streams_)
      if (stream.call) stream.call->OnCancel();
  }
  void Drain() override {
    if (draining_) return;
    if (!noticed_) {
      noticed_ = true;
      nghttp2_submit_shutdown_notice(session_);
    } else {
      draining_ = true;
      nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_),
                            NGHTTP2_NO_ERROR, nullptr, 0);
    }
    Flush();
  }
  bool IsIdle() const override { return streams_.empty(); }

  // Requests whose headers or bodies do not come on are given up; others of the connection are not disturbed.
  void OnTick(std::chrono::steady_clock::time_point now) override {
    const ConnectionLimits& limits = connection_.limits();
    std::vector<int32_t> numbers;
    for (const auto& [number, stream] : streams_) numbers.push_back(number);
    for (int32_t number : numbers) {
      Stream* stream = Find(number);
      if (!stream) continue;
      if (!stream->begun && now - stream->last_bytes > limits.header_time) {
        failed_ = true;
      } else if (stream->begun && !stream->half_closed && now - stream->last_bytes > limits.body_time &&
                 !(stream->call && stream->call->MayWait() && stream->request->body.empty())) {
        nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, number, NGHTTP2_CANCEL);
      } else if (stream->call) {
        stream->call->OnTick();
      }
    }
    ResetEarly(now);
    if (!numbers.empty()) Flush();
  }
  // The end of its bytes is the end of the connection.
  bool Answers() const override { return false; }
  bool InHeader() const override { return false; }
  bool WantsBytes() const override { return connection_.backlog() < 4 * kBacklog; }

  void Send(int32_t number, const std::string& message, bool is_last) {
    Stream* stream = Find(number);
    if (!stream || stream->finished) return;
    if (IsLate(*stream)) return Finish(number, Code::kDeadline, "Deadline Exceeded");
    stream->finished = is_last;
    char prefix[5] = {0};
    const auto size = static_cast<uint32_t>(message.size());
    for (int i = 0; i < 4; ++i) prefix[1 + i] = static_cast<char>(size >> (24 - 8 * i));
    stream->out.append(prefix, 5);
    stream->out += message;
    if (!stream->answered)
      SubmitGrpcHeaders(number, *stream);
    else
      nghttp2_session_resume_data(session_, number);
    FlushUnlessReceiving();
  }

  void Finish(int32_t number, Code code, std::string message) {
    Stream* stream = Find(number);
    if (!stream || stream->finished) return;
    if (IsLate(*stream)) {
      code = Code::kDeadline;
      message = "Deadline Exceeded";
    }
    stream->finished = true;
    stream->code = code;
    stream->status_message = PercentEncoded(message);
    if (!stream->answered) {
      stream->answered = true;
      const std::string status = Cat(static_cast<int>(code));
      nghttp2_nv headers[] = {Header(":status", "200"), Header("content-type", "application/grpc"),
                              Header("grpc-status", status), Header("grpc-message", stream->status_message)};
      nghttp2_submit_response(session_, number, headers, stream->status_message.empty() ? 3 : 4, nullptr);
      StopReading(number, *stream);
    } else {
      nghttp2_session_resume_data(session_, number);
    }
    FlushUnlessReceiving();
  }

  void Answer(uint64_t exchange, HttpResponse response) override {
    const auto number = static_cast<int32_t>(exchange);
    Stream* stream = Find(number);
    if (!stream || stream->answered) return;
    stream->answered = stream->finished = true;
    const std::string status = Cat(response.status), length = Cat(response.body.size());
    const std::string json_length = response.json_length ? Cat(*response.json_length) : std::string();
    std::vector<nghttp2_nv> headers = {Header(":status", status), Header("content-type", response.content_type),
                                       Header("content-length", length)};
    for (const auto& [name, value] : response.headers) headers.push_back(Header(name, value));
    if (response.json_length) headers.push_back(Header("inference-header-content-length", json_length));
    if (stream->request->method == "HEAD") response.body.clear();
    stream->out = std::move(response.body);
    nghttp2_data_provider provider{};
    provider.source.ptr = stream;
    provider.read_callback = ReadBody;
    nghttp2_submit_response(session_, number, headers.data(), headers.size(),
                            stream->out.empty() ? nullptr : &provider);
    StopReading(number, *stream);
    FlushUnlessReceiving();
  }

 private:
  static nghttp2_nv Header(std::string_view name, std::string_view value, uint8_t flags = NGHTTP2_NV_FLAG_NONE) {
    return {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
            reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(), flags};
  }
  // Of texts that stay where they are.
  static nghttp2_nv StaticHeader(std::string_view name, std::string_view value) {
    return Header(name, value, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE);
  }
  Stream* Find(int32_t number) {
    auto found = streams_.find(number);
    return closed_ || found == streams_.end() ? nullptr : &found->second;
  }
  static bool IsLate(const Stream& stream) {
    return stream.deadline != std::chrono::steady_clock::time_point::max() &&
           std::chrono::steady_clock::now() > stream.deadline;
  }
  void FlushUnlessReceiving() {
    if (!receiving_) Flush();
  }

  // An answer before the request's end: the client need not go on.
  void StopReading(int32_t number, const Stream& stream) {
    if (!stream.half_closed) early_.emplace_back(number, connection_.loop().now());
  }

  // Not at once: there are clients that drop an answer which they have not read when the stream is reset.
  void ResetEarly(std::chrono::steady_clock::time_point now) {
    constexpr std::chrono::milliseconds kTimeToRead{500};
    std::erase_if(early_, [&](const auto& entry) {
      const Stream* stream = Find(entry.first);
      if (!stream || stream->half_closed) return true;
      if (now - entry.second < kTimeToRead || stream->sent < stream->out.size()) return false;
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, entry.first, NGHTTP2_NO_ERROR);
      return true;
    });
  }

  void SubmitGrpcHeaders(int32_t number, Stream& stream) {
    stream.answered = true;
    const nghttp2_nv headers[] = {StaticHeader(":status", "200"), StaticHeader("content-type", "application/grpc"),
                                  StaticHeader("grpc-accept-encoding", "identity,deflate,gzip")};
    nghttp2_data_provider provider{};
    provider.source.ptr = &stream;
    provider.read_callback = ReadMessages;
    nghttp2_submit_response(session_, number, headers, 3, &provider);
  }

  void Flush() {
    if (closed_ || flushing_) return;
    flushing_ = true;
    std::string bytes;
    while (!closed_ && connection_.backlog() < kBacklog) {
      const uint8_t* data = nullptr;
      const ssize_t size = nghttp2_session_mem_send(session_, &data);
      if (size < 0) failed_ = true;
      if (size <= 0) break;
      bytes.append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
      if (bytes.size() > 256 * 1024) {
        connection_.Write(bytes);
        bytes.clear();
      }
    }
    if (!bytes.empty() && !closed_) connection_.Write(bytes);
    flushing_ = false;
    if (closed_) return;
    if (!nghttp2_session_want_read(session_) && !nghttp2_session_want_write(session_)) failed_ = true;
    if ((draining_ && streams_.empty() && connection_.backlog() == 0) || failed_) connection_.CloseWhenWritten();
  }

  static ssize_t Copy(Stream& stream, uint8_t* out, size_t room) {
    const size_t count = std::min(room, stream.out.size() - stream.sent);
    std::memcpy(out, stream.out.data() + stream.sent, count);
    stream.sent += count;
    if (stream.sent == stream.out.size()) {
      stream.out.clear();
      stream.sent = 0;
    }
    return static_cast<ssize_t>(count);
  }

  static ssize_t ReadBody(nghttp2_session*, int32_t, uint8_t* out, size_t room, uint32_t* flags,
                          nghttp2_data_source* source, void*) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    const ssize_t count = Copy(stream, out, room);
    if (stream.out.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return count;
  }

  static ssize_t ReadMessages(nghttp2_session* session, int32_t number, uint8_t* out, size_t room, uint32_t* flags,
                              nghttp2_data_source* source, void*) {
    auto& stream = *static_cast<Stream*>(source->ptr);
    if (stream.out.empty() && !stream.finished) return NGHTTP2_ERR_DEFERRED;
    const ssize_t count = Copy(stream, out, room);
    if (stream.out.empty() && stream.finished) {
      *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const std::string status = Cat(static_cast<int>(stream.code));
      const nghttp2_nv trailers[] = {
          stream.code == Code::kOk ? StaticHeader("grpc-status", "0") : Header("grpc-status", status),
          Header("grpc-message", stream.status_message)};
      nghttp2_submit_trailer(session, number, trailers, stream.status_message.empty() ? 1 : 2);
    }
    return count;
  }

  static int OnBeginHeaders(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& self = *static_cast<Http2*>(user);
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
      self.streams_[frame->hd.stream_id].last_bytes = self.connection_.loop().now();
    return 0;
  }

  static int OnHeader(nghttp2_session*, const nghttp2_frame* frame, const uint8_t* name, size_t name_size,
                      const uint8_t* value, size_t value_size, uint8_t, void* user) {
    auto& self = *static_cast<Http2*>(user);
    Stream* stream = self.Find(frame->hd.stream_id);
    if (!stream) return 0;
    stream->header_bytes += name_size + value_size + 32;
    if (stream->header_bytes > self.connection_.limits().most_header) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    const std::string_view known(reinterpret_cast<const char*>(name), name_size);
    if (known == "user-agent" || known == "grpc-accept-encoding" || known == "te" || known == ":scheme") return 0;
    std::string key(known), text(reinterpret_cast<const char*>(value), value_size);
    if (key == ":method")
      stream->request->method = std::move(text);
    else if (key == ":path")
      stream->request->target = std::move(text);
    else if (key[0] != ':')
      stream->request->headers.emplace_back(std::move(key), std::move(text));
    return 0;
  }

  static int OnFrame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    auto& self = *static_cast<Http2*>(user);
    if (!self.Allows(*frame)) {
      nghttp2_session_terminate_session(self.session_, NGHTTP2_ENHANCE_YOUR_CALM);
      return 0;
    }
    Stream* stream = self.Find(frame->hd.stream_id);
    if (!stream) return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
      self.Begin(frame->hd.stream_id, *stream);
    stream = self.Find(frame->hd.stream_id);
    if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
        (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)) {
      stream->half_closed = true;
      self.End(frame->hd.stream_id, *stream);
    }
    return 0;
  }

  static int OnChunk(nghttp2_session*, uint8_t, int32_t number, const uint8_t* data, size_t size, void* user) {
    auto& self = *static_cast<Http2*>(user);
    if (Stream* stream = self.Find(number)) self.Take(number, *stream, {reinterpret_cast<const char*>(data), size});
    return 0;
  }

  static int OnStreamClose(nghttp2_session*, int32_t number, uint32_t error, void* user) {
    auto& self = *static_cast<Http2*>(user);
    auto found = self.streams_.find(number);
    if (found == self.streams_.end()) return 0;
    if (found->second.call && (error != NGHTTP2_NO_ERROR || !found->second.finished)) found->second.call->OnCancel();
    self.streams_.erase(found);
    return 0;
  }

  // Frames that cost the server something and the client nothing.
  bool Allows(const nghttp2_frame& frame) {
    switch (frame.hd.type) {
      case NGHTTP2_RST_STREAM: return resets_.Take();
      case NGHTTP2_PING:
      case NGHTTP2_SETTINGS:
      case NGHTTP2_PRIORITY: return controls_.Take();
      case NGHTTP2_DATA:  // an empty one may end a request
        return frame.hd.length > 0 || (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 || controls_.Take();
      default: return true;
    }
  }

  void Begin(int32_t number, Stream& stream) {
    stream.begun = true;
    stream.request->peer = connection_.peer();
    const std::string* type = stream.request->Find("content-type");
    stream.is_grpc = type && type->compare(0, 16, "application/grpc") == 0;
    if (!stream.is_grpc) {
      stream.limit = BodyLimitOf(*stream.request, connection_.limits().most_body, connection_.limits().most_binary);
      return;
    }
    if (const uint64_t timeout = GrpcTimeout(*stream.request); timeout > 0)
      stream.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(timeout);
    auto sink = std::make_shared<StreamSink>(connection_.loop(), connection_.number(), this, number);
    if (const std::string* coding = stream.request->Find("grpc-encoding")) {
      if (*coding == "gzip")
        stream.coding = Coding::kGzip;
      else if (*coding == "deflate")
        stream.coding = Coding::kDeflate;
      else if (*coding != "identity") {
        stream.refused = true;
        return Finish(number, Code::kUnimplemented,
                      Cat("the encoding '", Printable(*coding), "' is not known; gzip, deflate and identity are"));
      }
    }
    try {
      stream.call = connection_.handler().Call(connection_.door(), *stream.request, sink);
    } catch (const Refusal& refusal) {
      stream.refused = true;
      Finish(number, refusal.code(), refusal.message());
    }
  }

  void Take(int32_t number, Stream& stream, std::string_view bytes) {
    stream.last_bytes = connection_.loop().now();
    if (stream.refused || (stream.finished && stream.answered)) return;
    const size_t most = stream.is_grpc ? connection_.limits().most_message + 5 : stream.limit.bytes;
    std::string& body = stream.request->body;
    if (bytes.size() > most - std::min(most, body.size())) {
      stream.refused = true;
      HttpResponse refusal =
          stream.is_grpc ? HttpResponse() : stream.limit.Refuse(*stream.request, body.size() + bytes.size());
      std::string().swap(body);
      if (stream.is_grpc)
        return Finish(number, Code::kExhausted, Cat("the message is larger than the allowed ", most, " bytes"));
      return Answer(static_cast<uint64_t>(number), std::move(refusal));
    }
    body += bytes;
    if (stream.is_grpc) TakeMessages(number);
  }

  void TakeMessages(int32_t number) {
    size_t at = 0;
    Stream* stream = Find(number);
    while (stream && !stream->refused) {
      std::string& body = stream->request->body;
      if (body.size() - at < 5) break;
      size_t size = 0;
      for (size_t i = 1; i < 5; ++i) size = size << 8 | static_cast<unsigned char>(body[at + i]);
      const char flag = body[at];
      if (size > connection_.limits().most_message) {
        stream->refused = true;
        std::string().swap(body);
        return Finish(
            number, Code::kExhausted,
            Cat("the message of ", size, " bytes is larger than the allowed ", connection_.limits().most_message));
      }
      if (body.size() - at - 5 < size) {
        if (at == 0 && body.capacity() < size + 5)
          body.reserve(std::min(size + 5, body.size() * 2 + (size_t{1} << 20)));
        break;
      }
      std::string message;
      if (at + 5 + size == body.size()) {  // nothing beyond it, as nearly always: not copied
        message = std::move(body);
        message.erase(0, at + 5);
        body.clear();
        at = 0;
      } else {
        message = body.substr(at + 5, size);
        at += 5 + size;
      }
      if (!Deliver(number, *stream, flag, std::move(message))) return;
      stream = Find(number);
    }
    if (stream) stream->request->body.erase(0, at);
  }

  bool Deliver(int32_t number, Stream& stream, char flag, std::string message) {
    try {
      if (flag != 0 && stream.coding == Coding::kIdentity)
        Refuse(Code::kInternal, "a compressed message without grpc-encoding");
      // Little that unpacks to very much is no tensor.
      const size_t most = std::max(size_t{256} << 20, message.size() * 32);
      if (flag != 0) message = Decompress(message, stream.coding, std::min(most, connection_.limits().most_message));
      if (stream.call) stream.call->OnMessage(std::move(message));
      return true;
    } catch (...) {
      const Refusal refusal = CurrentRefusal();
      if (Stream* still = Find(number)) still->refused = true;
      Finish(number, refusal.code(), refusal.message());
      return false;
    }
  }

  void End(int32_t number, Stream& stream) {
    if (stream.refused || stream.answered) {
      if (stream.call) stream.call->OnHalfClose();
      return;
    }
    if (stream.is_grpc) {
      if (stream.call) stream.call->OnHalfClose();
      return;
    }
    connection_.handler().Handle(
        connection_.door(), stream.request,
        Respond(connection_.loop(), connection_.number(), *this, static_cast<uint64_t>(number)));
  }

  Connection& connection_;
  nghttp2_session* session_ = nullptr;
  std::map<int32_t, Stream> streams_;
  std::vector<std::pair<int32_t, std::chrono::steady_clock::time_point>> early_;
  Allowance resets_{1000, 50}, controls_{10'000, 1000};
  bool receiving_ = false, flushing_ = false, failed_ = false, closed_ = false, draining_ = false, noticed_ = false;
};

void StreamSink::InOrder(std::function<void(Http2&)> work) {
  if (loop_.IsHere() && handed_over_ == 0) {
    if (loop_.Find(connection_)) work(*http2_);
    return;
  }
  ++handed_over_;
  loop_.Later([self = shared_from_this(), work = std::move(work)] {
    --self->handed_over_;
    if (self->loop_.Find(self->connection_)) work(*self->http2_);
  });
}

void StreamSink::Send(std::string message) {
  InOrder([stream = stream_, message = std::move(message)](Http2& http2) { http2.Send(stream, message, false); });
}

void StreamSink::Reply(std::string message) {
  if (loop_.IsHere() && handed_over_ == 0) {
    if (loop_.Find(connection_)) http2_->Send(stream_, message, true);
    return;
  }
  InOrder([stream = stream_, message = std::move(message)](Http2& http2) { http2.Send(stream, message, true); });
}

void StreamSink::Finish(Code code, std::string message) {
  InOrder(
      [stream = stream_, code, message = std::move(message)](Http2& http2) { http2.Finish(stream, code, message); });
}

}  // namespace

std::unique_ptr<Protocol> MakeHttp2(Connection& connection) { return std::make_unique<Http2>(connection); }

}  // namespace ferry::server
