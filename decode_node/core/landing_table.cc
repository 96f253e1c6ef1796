#include "decode_node/core/landing_table.h"

#include <algorithm>

#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::decode {
namespace {

std::string Name(AttemptId id) { return id.ToString(); }

}  // namespace

absl::Status LandingTable::CheckNotEnded(AttemptId id) const {
  const auto ended = ended_.find(id.request);
  if (ended != ended_.end() && ended->second >= id.generation) {
    return absl::AbortedError(absl::StrFormat("attempt %s has ended here", Name(id)));
  }
  return absl::OkStatus();
}

absl::StatusOr<LandingTable::Entry*> LandingTable::Find(AttemptId id, uint64_t nonce) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    RETURN_IF_ERROR(CheckNotEnded(id));
    return NotFound("attempt %s has no grant here", Name(id));
  }
  if (found->second.nonce != nonce) {
    return absl::PermissionDeniedError(
        absl::StrFormat("the nonce is not that of attempt %s", Name(id)));
  }
  return &found->second;
}

void LandingTable::Remember(AttemptId id) {
  auto [entry, inserted] = ended_.try_emplace(id.request, id.generation);
  entry->second = std::max(entry->second, id.generation);
  if (!inserted) return;
  ended_order_.push_back(id.request);
  if (ended_order_.size() <= kRememberedAttempts) return;
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

void LandingTable::End(AttemptId id, int64_t patience_ns) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  int running = 0;
  for (auto& [token, transfer] : transfers_) {
    if (transfer.attempt != id) continue;
    transfer.overdue_ns = clock_.NowNs() + patience_ns;
    ++running;
  }
  if (running > 0) found->second.memory->Quarantine(running);
  entries_.erase(found);
  Remember(id);
}

absl::StatusOr<LandingGrant> LandingTable::Reserve(AttemptId id, const kv::RequestPlan& plan) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(CheckNotEnded(id));
  if (joined_.contains(id)) {
    return absl::AlreadyExistsError(absl::StrFormat("attempt %s is being decoded", Name(id)));
  }
  if (const auto found = entries_.find(id); found != entries_.end()) {
    found->second.lease_end_ns = clock_.NowNs() + lease_ns_;
    return LandingGrant{found->second.nonce, found->second.memory};
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Grant> memory, arena_.Reserve(plan));
  Entry entry;
  entry.nonce = RandomU64();
  entry.lease_end_ns = clock_.NowNs() + lease_ns_;
  entry.memory = std::move(memory);
  entry.layers.assign(plan.layers.size(), LayerState::kAwaited);
  LandingGrant grant{entry.nonce, entry.memory};
  entries_.emplace(id, std::move(entry));
  return grant;
}

absl::StatusOr<RunningLanding> LandingTable::Announce(const LayerAnnouncement& announcement) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Entry * entry, Find(announcement.attempt, announcement.nonce));
  const int64_t num_layers = static_cast<int64_t>(entry->layers.size());
  if (announcement.num_layers != num_layers || announcement.layer < 0 ||
      announcement.layer >= num_layers) {
    return Invalid("layer %d of %d announced, %d layers were granted", announcement.layer,
                   announcement.num_layers, num_layers);
  }
  const int layer = static_cast<int>(announcement.layer);
  const std::span<std::byte> region = entry->memory->region(layer);
  if (announcement.length != region.size()) {
    return Invalid("layer %d announced with %d bytes, the plan has %d", layer, announcement.length,
                   region.size());
  }
  LayerState& state = entry->layers[static_cast<size_t>(layer)];
  if (state != LayerState::kAwaited) return Invalid("layer %d announced twice", layer);
  state = LayerState::kLanding;
  entry->lease_end_ns = clock_.NowNs() + lease_ns_;
  const uint64_t token = next_token_++;
  transfers_[token] = Transfer{.attempt = announcement.attempt,
                               .layer = layer,
                               .checksum = announcement.checksum,
                               .memory = entry->memory};
  return RunningLanding{region, token};
}

void LandingTable::Renew(AttemptId id) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(id);
  if (found != entries_.end()) found->second.lease_end_ns = clock_.NowNs() + lease_ns_;
}

std::optional<LandedLayer> LandingTable::Quiet(uint64_t token, const absl::Status& landed) {
  MutexLock lock(mutex_);
  const auto transfer = transfers_.find(token);
  if (transfer == transfers_.end()) return std::nullopt;
  const auto entry = entries_.find(transfer->second.attempt);
  if (entry == entries_.end() || !landed.ok()) {
    const Transfer ended = std::move(transfer->second);
    transfers_.erase(transfer);
    if (entry != entries_.end()) {
      failures_.emplace_back(ended.attempt, landed);
      End(ended.attempt, lease_ns_);
    }
    return std::nullopt;
  }
  entry->second.layers[static_cast<size_t>(transfer->second.layer)] = LayerState::kVerifying;
  return LandedLayer{transfer->second.attempt, transfer->second.layer, transfer->second.checksum,
                     transfer->second.memory};
}

void LandingTable::Verified(uint64_t token, const absl::Status& verdict) {
  MutexLock lock(mutex_);
  const auto found = transfers_.find(token);
  if (found == transfers_.end()) return;
  const Transfer transfer = std::move(found->second);
  transfers_.erase(found);
  const auto entry = entries_.find(transfer.attempt);
  if (entry == entries_.end()) return;
  if (!verdict.ok()) {
    failures_.emplace_back(transfer.attempt, verdict);
    End(transfer.attempt, lease_ns_);
    return;
  }
  entry->second.layers[static_cast<size_t>(transfer.layer)] = LayerState::kVerified;
  ++entry->second.verified;
  transfer.memory->MarkLanded(transfer.layer);
}

absl::StatusOr<std::shared_ptr<Grant>> LandingTable::Complete(AttemptId id, uint64_t nonce) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(Entry * entry, Find(id, nonce));
  const int64_t num_layers = static_cast<int64_t>(entry->layers.size());
  if (entry->verified != num_layers) {
    return FailedPrecondition("attempt %s closed with %d of %d layers verified", Name(id),
                              entry->verified, num_layers);
  }
  std::shared_ptr<Grant> memory = std::move(entry->memory);
  entries_.erase(id);
  joined_.insert(id);
  return memory;
}

bool LandingTable::Abort(AttemptId id) {
  MutexLock lock(mutex_);
  if (!entries_.contains(id)) return false;
  End(id, lease_ns_);
  return true;
}

void LandingTable::RememberEnded(AttemptId id) {
  MutexLock lock(mutex_);
  joined_.erase(id);
  Remember(id);
}

std::vector<AttemptId> LandingTable::ExpireLeases() {
  MutexLock lock(mutex_);
  std::vector<AttemptId> expired;
  const int64_t now = clock_.NowNs();
  for (const auto& [id, entry] : entries_) {
    if (now >= entry.lease_end_ns) expired.push_back(id);
  }
  for (const AttemptId id : expired) End(id, /*patience_ns=*/0);
  return expired;
}

std::vector<std::pair<AttemptId, absl::Status>> LandingTable::TakeFailures() {
  MutexLock lock(mutex_);
  return std::exchange(failures_, {});
}

std::vector<uint64_t> LandingTable::OverdueTokens() const {
  MutexLock lock(mutex_);
  std::vector<uint64_t> tokens;
  const int64_t now = clock_.NowNs();
  for (const auto& [token, transfer] : transfers_) {
    if (now >= transfer.overdue_ns) tokens.push_back(token);
  }
  return tokens;
}

int64_t LandingTable::landings() const {
  MutexLock lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

}  // namespace anchorage::decode
