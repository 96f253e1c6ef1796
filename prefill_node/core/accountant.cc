#include "prefill_node/core/accountant.h"

#include <algorithm>
#include <utility>

namespace anchorage::prefill {

const char* ComponentName(Component component) {
  static constexpr const char* kNames[kNumComponents] = {
      "active_kv", "hidden_bridge", "chunk_activations", "finished_layers", "compression",
      "weights",   "staging"};
  return kNames[static_cast<size_t>(component)];
}

void MemoryAccountant::State::Change(Component component, int64_t delta) {
  MutexLock lock(mutex);
  const size_t index = static_cast<size_t>(component);
  live.by_component[index] += delta;
  peak.by_component[index] = std::max(peak.by_component[index], live.by_component[index]);
  if (component == Component::kWeights) return;
  live.transient += delta;
  peak.transient = std::max(peak.transient, live.transient);
}

MemoryAccountant::Charge MemoryAccountant::Add(Component component, int64_t bytes) {
  Charge charge(state_, component);
  charge.Resize(bytes);
  return charge;
}

std::shared_ptr<void> MemoryAccountant::Share(Component component, int64_t bytes) {
  return std::make_shared<Charge>(Add(component, bytes));
}

MemoryUse MemoryAccountant::live() const {
  MutexLock lock(state_->mutex);
  return state_->live;
}

MemoryUse MemoryAccountant::peak() const {
  MutexLock lock(state_->mutex);
  return state_->peak;
}

void MemoryAccountant::ResetPeak() {
  MutexLock lock(state_->mutex);
  state_->peak = state_->live;
}

MemoryAccountant::Charge::Charge(Charge&& other) noexcept
    : state_(std::move(other.state_)),
      component_(other.component_),
      bytes_(std::exchange(other.bytes_, 0)) {}

MemoryAccountant::Charge& MemoryAccountant::Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  Resize(0);
  state_ = std::move(other.state_);
  component_ = other.component_;
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void MemoryAccountant::Charge::Resize(int64_t bytes) {
  if (bytes == bytes_) return;
  state_->Change(component_, bytes - bytes_);
  bytes_ = bytes;
}

}  // namespace anchorage::prefill
