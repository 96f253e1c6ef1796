#include "text/stop_matcher.h"

#include <deque>

namespace anchorage::text {

StopMatcher::StopMatcher(std::span<const std::string> stops) : nodes_(1) {
  for (size_t s = 0; s < stops.size(); ++s) {
    if (stops[s].empty()) continue;
    int at = 0;
    for (const char byte : stops[s]) {
      auto [child, is_new] = nodes_[at].children.try_emplace(byte, static_cast<int>(nodes_.size()));
      const int next = child->second;
      if (is_new) {
        const size_t depth = nodes_[at].depth + 1;
        nodes_.emplace_back().depth = depth;
      }
      at = next;
    }
    if (!nodes_[at].stop) nodes_[at].stop = s;
    nodes_[at].stop_length = stops[s].size();
  }
  // Breadth first, so that a node's suffix, which is shorter, is finished before the node.
  std::deque<int> queue = {0};
  while (!queue.empty()) {
    const int at = queue.front();
    queue.pop_front();
    for (const auto& [byte, child] : nodes_[at].children) {
      nodes_[child].suffix = at == 0 ? 0 : Step(nodes_[at].suffix, byte);
      if (!nodes_[child].stop) {
        const Node& suffix = nodes_[nodes_[child].suffix];
        nodes_[child].stop = suffix.stop;
        nodes_[child].stop_length = suffix.stop_length;
      }
      queue.push_back(child);
    }
  }
}

int StopMatcher::Step(int state, char byte) const {
  while (true) {
    const auto child = nodes_[state].children.find(byte);
    if (child != nodes_[state].children.end()) return child->second;
    if (state == 0) return 0;
    state = nodes_[state].suffix;
  }
}

std::string StopMatcher::Push(std::string_view text) {
  if (stopped()) return {};
  held_ += text;
  for (size_t i = held_.size() - text.size(); i < held_.size(); ++i) {
    state_ = Step(state_, held_[i]);
    if (nodes_[state_].stop) {
      matched_ = nodes_[state_].stop;
      std::string shown = held_.substr(0, i + 1 - nodes_[state_].stop_length);
      held_.clear();
      return shown;
    }
  }
  const size_t num_shown = held_.size() - nodes_[state_].depth;
  std::string shown = held_.substr(0, num_shown);
  held_.erase(0, num_shown);
  return shown;
}

std::string StopMatcher::Finish() {
  state_ = 0;
  std::string rest;
  rest.swap(held_);
  return rest;
}

}  // namespace anchorage::text
