// Answers in this process. One prefill fills the caches of all settings at each layer's end, then
// all settings decode as the rows of one batch: the first token comes from the prefill, as in
// serving, every later one from the setting's own cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "eval/candidate.h"
#include "eval/ruler/answerer.h"
#include "model/model.h"

namespace anchorage::eval::ruler {

// One way to keep the prompt's cache, under the name that its answers get.
struct KvSetting {
  std::string name;
  Candidate candidate;
};

class LocalAnswerer : public Answerer {
 public:
  // `model` must outlive it. InvalidArgument: two settings of one name, or more of them than the
  // rows of a step. Other errors as BatchStep::Create and Tokenizer::FromGguf.
  static absl::StatusOr<std::unique_ptr<LocalAnswerer>> Create(const model::Model& model,
                                                               std::vector<KvSetting> settings,
                                                               int threads);
  ~LocalAnswerer() override;

  std::vector<std::string> settings() const override;
  uint64_t setting_fingerprint(const std::string& setting) const override;
  absl::StatusOr<std::vector<Answer>> Ask(const Sample& sample,
                                          const std::vector<std::string>& settings) override;

 private:
  class Core;
  explicit LocalAnswerer(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
};

}  // namespace anchorage::eval::ruler
