// One maker for each key: threads that ask for the same thing at the same time get one result, and threads that ask for
// something else do not notice. Keeps nothing: what comes of it is kept by whoever asks.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/make_once.h"

namespace ferry {

template <class Result>
class SingleFlight {
 public:
  // What make() gives, here or in the thread that asked for this key first.
  template <class Make>
  Result Do(const std::string& key, const Make& make) {
    const std::shared_ptr<Flight> flight = Join(key);
    const Leaving leaving{*this, key, flight};
    flight->once.Do([&] { flight->result = make(); });
    return flight->result;
  }

 private:
  struct Flight {
    MakeOnce once;
    Result result{};
    int travellers = 0;  // under the lock of all flights
  };

  // A flight ends with the last of those who waited for it.
  struct Leaving {
    SingleFlight& all;
    const std::string& key;
    const std::shared_ptr<Flight>& flight;
    ~Leaving() {
      std::lock_guard lock(all.mutex_);
      --flight->travellers;
      auto there = all.flights_.find(key);
      const bool is_over = flight->once.done() || flight->travellers == 0;
      if (is_over && there != all.flights_.end() && there->second == flight) all.flights_.erase(there);
    }
  };

  std::shared_ptr<Flight> Join(const std::string& key) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Flight>& flight = flights_[key];
    if (!flight) flight = std::make_shared<Flight>();
    ++flight->travellers;
    return flight;
  }

  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Flight>> flights_;
};

}  // namespace ferry
