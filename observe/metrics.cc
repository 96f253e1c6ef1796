#include "observe/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "common/mutex.h"

namespace anchorage::observe {

void Counter::Add(double amount) const {
  if (counter_ != nullptr) counter_->Increment(amount);
}
double Counter::value() const { return counter_ == nullptr ? 0 : counter_->Value(); }

void Gauge::Set(double value) const {
  if (gauge_ != nullptr) gauge_->Set(value);
}
void Gauge::Add(double amount) const {
  if (gauge_ != nullptr) gauge_->Increment(amount);
}
double Gauge::value() const { return gauge_ == nullptr ? 0 : gauge_->Value(); }

void Histogram::Observe(double value) const {
  if (histogram_ != nullptr) histogram_->Observe(value);
}

struct MetricsRegistry::State {
  prometheus::Registry registry;
  mutable Mutex mutex;
  std::vector<std::function<void()>> collectors GUARDED_BY(mutex);
};

MetricsRegistry::MetricsRegistry() : state_(std::make_unique<State>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter MetricsRegistry::AddCounter(std::string_view name, std::string_view help,
                                    const Labels& labels) {
  auto& family = prometheus::BuildCounter()
                     .Name(std::string(name))
                     .Help(std::string(help))
                     .Register(state_->registry);
  return Counter(&family.Add(labels));
}

Gauge MetricsRegistry::AddGauge(std::string_view name, std::string_view help,
                                const Labels& labels) {
  auto& family = prometheus::BuildGauge()
                     .Name(std::string(name))
                     .Help(std::string(help))
                     .Register(state_->registry);
  return Gauge(&family.Add(labels));
}

Histogram MetricsRegistry::AddHistogram(std::string_view name, std::string_view help,
                                        const std::vector<double>& buckets, const Labels& labels) {
  auto& family = prometheus::BuildHistogram()
                     .Name(std::string(name))
                     .Help(std::string(help))
                     .Register(state_->registry);
  return Histogram(&family.Add(labels, buckets));
}

void MetricsRegistry::AddCollector(std::function<void()> collect) {
  MutexLock lock(state_->mutex);
  state_->collectors.push_back(std::move(collect));
}

std::string MetricsRegistry::Serialize() const {
  std::vector<std::function<void()>> collectors;
  {
    MutexLock lock(state_->mutex);
    collectors = state_->collectors;
  }
  for (const auto& collect : collectors) collect();
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace anchorage::observe
