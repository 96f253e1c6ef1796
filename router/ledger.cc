#include "router/ledger.h"

#include <algorithm>

namespace anchorage::router {

void Ledger::AddNode(WorkerId node) { nodes_[node]; }
void Ledger::RemoveNode(WorkerId node) { nodes_.erase(node); }

void Ledger::Correct(WorkerId node, int64_t headroom_bytes, int64_t limit_bytes) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  Node& known = found->second;
  known.headroom_bytes = headroom_bytes;
  known.limit_bytes = limit_bytes;
  known.refused = false;
  for (auto& [attempt, entry] : known.entries) {
    if (entry.kind == Kind::kGranted) entry.in_state = true;
  }
}

void Ledger::Promise(WorkerId node, const AttemptId& attempt, int64_t bytes) {
  Put(node, attempt, {Kind::kPromised, bytes});
}
void Ledger::Reserve(WorkerId node, const AttemptId& attempt, int64_t bytes) {
  Put(node, attempt, {Kind::kReserved, bytes});
}
void Ledger::Grant(WorkerId node, const AttemptId& attempt, int64_t bytes) {
  Put(node, attempt, {Kind::kGranted, bytes});
}

void Ledger::Release(WorkerId node, const AttemptId& attempt) {
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) found->second.entries.erase(attempt);
}

void Ledger::Refuse(WorkerId node, const AttemptId& attempt, int64_t headroom_bytes) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  found->second.entries.erase(attempt);
  found->second.headroom_bytes = headroom_bytes;
  found->second.refused = true;
}

int64_t Ledger::headroom(WorkerId node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second.refused) return 0;
  int64_t free = found->second.headroom_bytes - Sum(found->second, Kind::kReserved);
  for (const auto& [attempt, entry] : found->second.entries) {
    if (entry.kind == Kind::kGranted && !entry.in_state) free -= entry.bytes;
  }
  return std::max<int64_t>(free, 0);
}

int64_t Ledger::unpromised(WorkerId node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return 0;
  return std::max<int64_t>(headroom(node) - Sum(found->second, Kind::kPromised), 0);
}

int64_t Ledger::limit(WorkerId node) const {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? 0 : found->second.limit_bytes;
}

int64_t Ledger::held_bytes() const {
  int64_t bytes = 0;
  for (const auto& [id, node] : nodes_) {
    bytes += Sum(node, Kind::kReserved) + Sum(node, Kind::kGranted);
  }
  return bytes;
}

int64_t Ledger::promised_bytes() const {
  int64_t bytes = 0;
  for (const auto& [id, node] : nodes_) bytes += Sum(node, Kind::kPromised);
  return bytes;
}

void Ledger::Put(WorkerId node, const AttemptId& attempt, Entry entry) {
  for (auto& [id, other] : nodes_) {
    if (id != node) other.entries.erase(attempt);
  }
  const auto found = nodes_.find(node);
  if (found != nodes_.end()) found->second.entries[attempt] = entry;
}

int64_t Ledger::Sum(const Node& node, Kind kind) const {
  int64_t bytes = 0;
  for (const auto& [attempt, entry] : node.entries) {
    if (entry.kind == kind) bytes += entry.bytes;
  }
  return bytes;
}

}  // namespace anchorage::router
