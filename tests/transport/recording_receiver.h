// A receiver for tests: takes what it is told to take, into regions of its own, and remembers all.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/mutex.h"
#include "common/status.h"
#include "transport/data/data_plane.h"

namespace anchorage::transport {

class RecordingReceiver : public TransferReceiver {
 public:
  struct Entry {
    std::string header;
    std::vector<std::byte> region;
    bool quiet = false;
    absl::Status landed;
    Reply reply;
  };
  static constexpr std::chrono::seconds kLimit{20};

  // Set before the plane starts. Not OK refuses an announcement.
  std::function<absl::Status(const std::string& header, size_t length)> judge;
  // What is replied at once when a transfer has landed; empty: `reply` is kept.
  std::function<std::optional<absl::Status>(const Entry&)> verdict = [](const Entry&) {
    return absl::OkStatus();
  };

  absl::StatusOr<Landing> OnAnnounce(std::span<const std::byte> header, size_t length) override {
    const std::string text(reinterpret_cast<const char*>(header.data()), header.size());
    MutexLock lock(mutex_);
    if (judge) {
      if (absl::Status judged = judge(text, length); !judged.ok()) {
        ++num_refused_;
        changed_.NotifyAll();
        return judged;
      }
    }
    const uint64_t token = next_token_++;
    Entry& entry = entries_[token];
    entry.header = text;
    entry.region.resize(length);
    changed_.NotifyAll();
    return Landing{entry.region, token};
  }

  void OnQuiet(uint64_t token, absl::Status landed, Reply reply) override {
    std::optional<absl::Status> answer;
    {
      MutexLock lock(mutex_);
      Entry& entry = entries_.at(token);
      if (entry.quiet) twice_quiet_ = true;
      if (landed.ok() != static_cast<bool>(reply)) wrong_reply_ = true;
      entry.quiet = true;
      entry.landed = landed;
      if (landed.ok()) answer = verdict(entry);
      if (!answer) entry.reply = reply;
      changed_.NotifyAll();
    }
    if (answer) reply(*answer);
  }

  // Waits; false after kLimit.
  bool WaitAnnounced(size_t count) {
    return Wait([&] { return entries_.size() >= count; });
  }
  bool WaitRefused(size_t count) {
    return Wait([&] { return num_refused_ >= count; });
  }
  bool WaitQuiet(size_t count) {
    return Wait([&] {
      size_t quiet = 0;
      for (const auto& [token, entry] : entries_) quiet += entry.quiet;
      return quiet >= count;
    });
  }

  // Only of what is quiet: the transport may write to the others.
  Entry& entry(uint64_t token) {
    MutexLock lock(mutex_);
    return entries_.at(token);
  }
  std::vector<std::string> headers() {
    MutexLock lock(mutex_);
    std::vector<std::string> headers;
    for (const auto& [token, entry] : entries_) headers.push_back(entry.header);
    return headers;
  }
  size_t size() {
    MutexLock lock(mutex_);
    return entries_.size();
  }
  // Drops what is quiet, so that memory can be compared.
  void Forget() {
    MutexLock lock(mutex_);
    std::erase_if(entries_, [](const auto& pair) { return pair.second.quiet; });
  }
  bool broke_no_rule() {
    MutexLock lock(mutex_);
    return !twice_quiet_ && !wrong_reply_;
  }

 private:
  bool Wait(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + kLimit;
    MutexLock lock(mutex_);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      changed_.WaitFor(mutex_, std::chrono::milliseconds(50));
    }
    return true;
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, Entry> entries_;
  uint64_t next_token_ = 1;
  size_t num_refused_ = 0;
  bool twice_quiet_ = false;
  bool wrong_reply_ = false;
};

// The status of one send, to be waited for.
class SendResult {
 public:
  std::function<void(absl::Status)> Callback() {
    return [state = state_](absl::Status status) {
      MutexLock lock(state->mutex);
      state->count += 1;
      state->status = std::move(status);
      state->changed.NotifyAll();
    };
  }
  // Internal when nothing came within the limit.
  absl::Status Wait() {
    const auto end = std::chrono::steady_clock::now() + RecordingReceiver::kLimit;
    MutexLock lock(state_->mutex);
    while (state_->count == 0) {
      if (std::chrono::steady_clock::now() > end) return Internal("`done` was not called");
      state_->changed.WaitFor(state_->mutex, std::chrono::milliseconds(50));
    }
    return state_->status;
  }
  int count() const {
    MutexLock lock(state_->mutex);
    return state_->count;
  }

 private:
  struct State {
    Mutex mutex;
    CondVar changed;
    int count = 0;
    absl::Status status;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// Bytes that differ with position and seed.
inline std::vector<std::byte> Pattern(size_t size, uint32_t seed = 1) {
  std::vector<std::byte> bytes(size);
  uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

}  // namespace anchorage::transport
