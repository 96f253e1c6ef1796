// The metrics of one process, over prometheus-cpp, which does not stand here.
//
// A family is one name with its help; asking for a family and labels that exist already returns
// the same metric. Names follow Prometheus: base units, counters end in _total, a sum over all
// labels makes sense. A name, label or bucket list that Prometheus forbids is a bug of ours and
// ends the process. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace anchorage::observe {

using Labels = std::map<std::string, std::string>;

// Handles: cheap to copy, valid as long as the registry lives. A default-made handle measures
// nothing, so that parts can run without metrics.
class Counter {
 public:
  Counter() = default;
  void Add(double amount = 1) const;  // amount >= 0
  double value() const;

 private:
  friend class MetricsRegistry;
  explicit Counter(prometheus::Counter* counter) : counter_(counter) {}
  prometheus::Counter* counter_ = nullptr;
};

class Gauge {
 public:
  Gauge() = default;
  void Set(double value) const;
  void Add(double amount) const;
  double value() const;

 private:
  friend class MetricsRegistry;
  explicit Gauge(prometheus::Gauge* gauge) : gauge_(gauge) {}
  prometheus::Gauge* gauge_ = nullptr;
};

class Histogram {
 public:
  Histogram() = default;
  void Observe(double value) const;

 private:
  friend class MetricsRegistry;
  explicit Histogram(prometheus::Histogram* histogram) : histogram_(histogram) {}
  prometheus::Histogram* histogram_ = nullptr;
};

class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  Counter AddCounter(std::string_view name, std::string_view help, const Labels& labels = {});
  Gauge AddGauge(std::string_view name, std::string_view help, const Labels& labels = {});
  // `buckets`: ascending upper bounds, without the infinite one.
  Histogram AddHistogram(std::string_view name, std::string_view help,
                         const std::vector<double>& buckets, const Labels& labels = {});

  // Runs before each Serialize, on its thread: sets gauges whose value is cheaper to ask for than
  // to keep. The hook must not call Serialize.
  void AddCollector(std::function<void()> collect);

  // Everything in the Prometheus text format, version 0.0.4.
  std::string Serialize() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace anchorage::observe
