// Knows at every moment what a prefill holds in memory and for what (TideKV, arXiv 2610.24499,
// eq. 9): how the residency invariant is watched instead of assumed.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "common/mutex.h"

namespace anchorage::prefill {

enum class Component : uint8_t {
  kActiveKv,          // uncompressed K and V of the active layer
  kHiddenBridge,      // hidden states of whole prompts between two layers (f32 on the CPU)
  kChunkActivations,  // attention and feed-forward temporaries of one chunk (f32 on the CPU)
  kFinishedLayers,    // compressed caches that nobody has taken yet
  kCompression,       // temporaries of a layer's end, observed rows included
  kWeights,           // the model and its unpacked layer
  kStaging,           // copies made for sending
};
inline constexpr size_t kNumComponents = 7;
const char* ComponentName(Component component);  // "active_kv", ...

// Bytes by component, and all but the weights together.
struct MemoryUse {
  std::array<int64_t, kNumComponents> by_component{};
  int64_t transient = 0;

  int64_t operator[](Component component) const {
    return by_component[static_cast<size_t>(component)];
  }
};

// Thread-safe. Charges keep the shared state alive and may outlive the accountant.
class MemoryAccountant {
 public:
  class Charge;

  MemoryAccountant() : state_(std::make_shared<State>()) {}

  // Counts `bytes` until the charge is destroyed.
  Charge Add(Component component, int64_t bytes);

  // The same for something whose owners share it, such as CompressedLayer::charge.
  std::shared_ptr<void> Share(Component component, int64_t bytes);

  MemoryUse live() const;
  // The most that each was at once since the start or ResetPeak, each at its own moment.
  MemoryUse peak() const;
  void ResetPeak();

 private:
  struct State {
    mutable Mutex mutex;
    MemoryUse live GUARDED_BY(mutex);
    MemoryUse peak GUARDED_BY(mutex);

    void Change(Component component, int64_t delta);
  };
  std::shared_ptr<State> state_;
};

// Move-only; one thread at a time.
class MemoryAccountant::Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept;
  Charge& operator=(Charge&& other) noexcept;
  ~Charge() { Resize(0); }

  int64_t bytes() const { return bytes_; }
  void Resize(int64_t bytes);  // of a charge that Add made

 private:
  friend class MemoryAccountant;
  Charge(std::shared_ptr<State> state, Component component)
      : state_(std::move(state)), component_(component) {}

  std::shared_ptr<State> state_;
  Component component_ = Component::kStaging;
  int64_t bytes_ = 0;
};

}  // namespace anchorage::prefill
