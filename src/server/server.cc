#include "server/server.h"

#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <functional>
#include <future>

#include "base/error.h"
#include "base/version.h"
#include "server/frontend.h"
#include "server/listener.h"

namespace ferry::server {
namespace {

// Between HTTP/2's notice and the last stream that is taken.
constexpr std::chrono::milliseconds kNotice{200};
// What connecting takes, once the client has been heard; and what it takes the slow, who are waited for where another
// server has the port meanwhile.
constexpr std::chrono::milliseconds kHandshake{300}, kSlowHandshake{3000};

// Every connection is a descriptor.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

sigset_t AwaitedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  return signals;
}

class Server {
 public:
  explicit Server(const ServerOptions& options)
      : options_(options), log_(options.log), tracer_(options.trace), memory_(options.allow_shared_memory) {
    const int cpus = options.threads > 0 ? options.threads : UsableCpus();
    host_.wide = std::make_shared<Runtime>(cpus);
    host_.narrow = std::make_shared<Runtime>(1);
    host_.policy.max_queue = options.max_queue;
    host_.policy.limits = options.run_limits;
    host_.defaults = options.defaults;
    host_.defaults.instances = cpus;
    host_.provider = options.provider;
    host_.cache_folder = options.cache_folder;
    host_.log = &log_;
    repository_ = std::make_unique<Repository>(options.repository, host_);
    service_ = std::make_unique<Service>(options.service, *repository_, host_, memory_, log_, tracer_);
    frontend_ = std::make_unique<Frontend>(*service_);
    group_.running = &host_.policy.running;
    group_.may_spin = UsableCpus() > 1;
    for (int i = 0; i < (options.loops > 0 ? options.loops : UsableCpus()); ++i)
      loops_.push_back(std::make_unique<EventLoop>(group_));
    balance_ = std::make_unique<LoopBalance>(group_, loops_, UsableCpus());
    doors_.reset(new Doors{*frontend_, options.limits, options.most_connections, *balance_});
  }

  int Run() {
    const sigset_t signals = AwaitedSignals();
    for (auto& loop : loops_) loop->Start();
    // A server that shares another's port, or was handed its sockets, gets clients as soon as it listens.
    const bool is_handed = std::any_of(handed_.begin(), handed_.end(), [](int each) { return each >= 0; });
    const bool has_clients = SharesPort() || is_handed;
    if (!has_clients) Listen();
    if (!repository_->LoadAtStart() && options_.exit_on_error) {
      log_.Write(LogLevel::kError, "failed to load all models; --exit-on-error=false serves the others");
      Stop();
      return 1;
    }
    service_->SetStarted();
    if (has_clients) Listen();
    log_.Write(LogLevel::kInfo, Cat("ferry-server ", kVersion, " is ready"));
    Notify("READY=1");
    WaitForEnd(signals);
    Stop();
    return 0;
  }

 private:
  bool SharesPort() const { return options_.http.reuse_port || options_.grpc.reuse_port; }

  void Listen() {
    if (!options_.tls.certificate.empty()) tls_ = std::make_unique<TlsServer>(options_.tls);
    if (!options_.grpc_tls.certificate.empty()) grpc_tls_ = std::make_unique<TlsServer>(options_.grpc_tls);
    std::vector<std::unique_ptr<Listener>> opened;
    auto open = [&](Door door, const ListenOptions& listen, TlsServer* tls) {
      const int descriptor = handed_[static_cast<size_t>(door)];
      if (listen.allowed) opened.push_back(std::make_unique<Listener>(*doors_, door, listen, tls, descriptor));
    };
    open(Door::kHttp, options_.http, tls_.get());
    open(Door::kGrpc, options_.grpc, grpc_tls_ ? grpc_tls_.get() : tls_.get());
    open(Door::kMetrics, options_.metrics, nullptr);
    for (auto& listener : opened) listener->Listen();
    for (auto& listener : opened) {
      log_.Write(LogLevel::kInfo,
                 Cat("Started ", listener->name(), " at ", listener->address(), ":", listener->port()));
      listeners_.push_back(listener.get());
      OnFirstLoop([&] {
        const int number = listener->descriptor();
        loops_[0]->Add(number, EventLoop::NextNumber(), std::move(listener));
      });
    }
  }

  void WaitForEnd(const sigset_t& signals) {
    while (true) {
      const timespec tick{5, 0};
      const int number = sigtimedwait(&signals, nullptr, &tick);
      if (number == SIGHUP) {
        for (TlsServer* tls : {tls_.get(), grpc_tls_.get()}) try {
            if (tls) tls->Reload();
          } catch (const std::exception& error) {
            log_.Write(LogLevel::kError, Cat("the certificate stays as it was: ", error.what()));
          }
      }
      if (number == SIGTERM || number == SIGINT) break;
      Notify("WATCHDOG=1");
    }
    Drain(signals);
    AtListeners([](Listener& listener) { listener.Close(); });
  }

  // Unready at once; who comes in the meantime is still served; then what is under way comes to its end.
  void Drain(const sigset_t& signals) {
    log_.Write(LogLevel::kInfo, "Signal received: shutting down");
    Notify("STOPPING=1");
    service_->SetDraining();
    auto wait = [&](std::chrono::milliseconds time) {
      const timespec span{static_cast<time_t>(time.count() / 1000), static_cast<long>(time.count() % 1000) * 1'000'000};
      const int number = sigtimedwait(&signals, nullptr, &span);
      return number == SIGTERM || number == SIGINT;  // a second one: at once
    };
    group_.draining = true;
    DrainConnections();
    const auto handed = Clock::now();
    AtListeners([](Listener& listener) { listener.HandOver(); });
    const auto delay = std::max<std::chrono::milliseconds>(std::chrono::seconds(options_.drain_delay_seconds), kNotice);
    if (wait(delay)) return;
    AtListeners([](Listener& listener) {
      listener.HandOver();  // to one that has come meanwhile
      listener.RefuseNew();
    });
    if (wait(kHandshake)) return;
    bool is_open = false;
    AtListeners([&](Listener& listener) {
      if (!listener.has_next()) return listener.Close();
      is_open = true;
    });
    DrainConnections();
    const auto until = Clock::now() + std::chrono::seconds(options_.exit_timeout_seconds);
    auto is_busy = [&] {
      return doors_->connections > 0 || service_->in_flight() > 0 ||
             (is_open && Clock::now() < handed + kSlowHandshake);
    };
    while (Clock::now() < until) {
      if (!is_busy()) {
        if (!is_open) return;
        AtListeners([](Listener& listener) { listener.Close(); });
        DrainConnections();
        is_open = false;
      } else if (wait(std::chrono::milliseconds(20))) {
        return;
      }
    }
  }

  // Returns once it is done: who was accepted by then is counted among the connections. Throws what the work does.
  void OnFirstLoop(const std::function<void()>& work) {
    std::promise<void> done;
    loops_[0]->Do([&] {
      try {
        work();
        done.set_value();
      } catch (...) {
        done.set_exception(std::current_exception());
      }
    });
    done.get_future().get();
  }

  void AtListeners(const std::function<void(Listener&)>& work) {
    OnFirstLoop([&] {
      for (Listener* listener : listeners_) try {
          work(*listener);
        } catch (const std::exception&) {  // for want of memory somebody is not accepted
        }
    });
  }

  void DrainConnections() {
    for (auto& loop : loops_) {
      EventLoop* each = loop.get();
      each->Do([each] {
        each->ForEach([](Watched& watched) {
          if (auto* connection = dynamic_cast<Connection*>(&watched)) connection->Drain();
        });
      });
    }
  }

  void Stop() {
    for (auto& loop : loops_) loop->Stop();
    tracer_.Flush();
  }

  const ServerOptions& options_;
  Log log_;
  Tracer tracer_;
  SharedMemory memory_;
  ModelHost host_;
  LoopGroup group_;
  std::vector<std::unique_ptr<EventLoop>> loops_;
  std::unique_ptr<Repository> repository_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Frontend> frontend_;
  std::unique_ptr<LoopBalance> balance_;
  std::unique_ptr<Doors> doors_;
  std::unique_ptr<TlsServer> tls_, grpc_tls_;
  const std::array<int, 3> handed_ = HandedSockets();
  std::vector<Listener*> listeners_;
};

}  // namespace

int RunServer(const ServerOptions& options) {
  RaiseDescriptorLimit();
  // Before any thread is started: one that does not block them would be ended by them while this one is busy.
  const sigset_t signals = AwaitedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // Not destroyed: requests that outlived their time may still run, and the process ends anyway.
  auto* server = new Server(options);
  const int status = server->Run();
  std::fflush(nullptr);
  return status;
}

}  // namespace ferry::server
