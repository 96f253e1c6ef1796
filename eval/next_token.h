// How far two predictions of the next token are apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace anchorage::eval {

// log of the softmax of one row of logits, in double.
inline std::vector<double> LogProbabilities(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  std::vector<double> log_p(logits.size());
  const double log_sum = largest + std::log(sum);
  std::transform(logits.begin(), logits.end(), log_p.begin(),
                 [log_sum](float logit) { return logit - log_sum; });
  return log_p;
}

inline int64_t Likeliest(std::span<const double> log_p) {
  return std::max_element(log_p.begin(), log_p.end()) - log_p.begin();
}

// Kullback-Leibler divergence p || q in nats.
inline double Divergence(std::span<const double> log_p, std::span<const double> log_q) {
  double sum = 0;
  for (size_t i = 0; i < log_p.size(); ++i) sum += std::exp(log_p[i]) * (log_p[i] - log_q[i]);
  return sum;
}

// Jensen-Shannon divergence of p and q in nats: symmetric, in [0, log 2].
inline double SymmetricDivergence(std::span<const double> log_p, std::span<const double> log_q) {
  double sum = 0;
  for (size_t i = 0; i < log_p.size(); ++i) {
    const double p = std::exp(log_p[i]);
    const double q = std::exp(log_q[i]);
    const double middle = (p + q) / 2;
    if (p > 0) sum += p * (log_p[i] - std::log(middle));
    if (q > 0) sum += q * (log_q[i] - std::log(middle));
  }
  return std::max(0.0, sum / 2);  // rounding can leave equals a hair below 0
}

// Means over the positions of a text.
class Agreement {
 public:
  // `truth`: the token that the text goes on with.
  void Add(std::span<const double> log_p, std::span<const double> log_q, int32_t truth) {
    ++positions_;
    divergence_ += Divergence(log_p, log_q);
    symmetric_ += SymmetricDivergence(log_p, log_q);
    same_top_ += Likeliest(log_p) == Likeliest(log_q) ? 1 : 0;
    surprise_ -= log_q[static_cast<size_t>(truth)];
  }

  double mean_divergence() const { return divergence_ / positions_; }  // p || q, nats
  double mean_symmetric() const { return symmetric_ / positions_; }    // Jensen-Shannon, nats
  double top1() const { return same_top_ / positions_; }               // share of equal first ranks
  double mean_surprise() const { return surprise_ / positions_; }      // of the text under q, nats

 private:
  double positions_ = 0;
  double divergence_ = 0;
  double symmetric_ = 0;
  double same_top_ = 0;
  double surprise_ = 0;
};

}  // namespace anchorage::eval
