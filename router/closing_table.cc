#include "router/closing_table.h"

#include <utility>

namespace anchorage::router {

void ClosingTable::Add(const AttemptId& attempt, WorkerId prefill, WorkerId decode,
                       std::string log_id, int64_t now_ns) {
  Entry entry{prefill, decode, std::move(log_id), now_ns};
  if (!entry.over()) entries_[attempt] = std::move(entry);
}

void ClosingTable::Confirm(const AttemptId& attempt, proto::Role role) {
  const auto found = entries_.find(attempt);
  if (found == entries_.end()) return;
  (role == proto::ROLE_PREFILL ? found->second.prefill : found->second.decode) = 0;
  if (found->second.over()) entries_.erase(found);
}

void ClosingTable::RemoveWorker(WorkerId worker) {
  for (auto& [attempt, entry] : entries_) {
    if (entry.prefill == worker) entry.prefill = 0;
    if (entry.decode == worker) entry.decode = 0;
  }
  std::erase_if(entries_, [](const auto& item) { return item.second.over(); });
}

void ClosingTable::Repeat(int64_t now_ns, int64_t period_ns, const Cancel& cancel) {
  for (auto& [attempt, entry] : entries_) {
    if (now_ns - entry.told_ns < period_ns) continue;
    entry.told_ns = now_ns;
    if (entry.prefill != 0) cancel(entry.prefill, attempt, entry.log_id);
    if (entry.decode != 0) cancel(entry.decode, attempt, entry.log_id);
  }
}

}  // namespace anchorage::router
