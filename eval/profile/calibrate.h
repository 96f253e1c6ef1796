// Calibrates a model's profile over several texts: resumable, as it takes a while.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/stream.h"
#include "kv/plan/plan.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace anchorage::eval {

struct CalibrationText {
  std::string name;
  std::string content;
};

struct CalibrationOptions {
  std::vector<CalibrationText> texts;  // of several kinds; each gives a passage, its beginning
  int64_t num_retrievals = 3;          // prompts that hide facts in a text and ask for them, from
                                       // the texts in turn (eval/prompts.h)
  int64_t tokens = 4096;               // of each prompt
  int64_t forced = 96;                 // after it
  kv::PlanOptions plan;                // of the compact layout; its profile does not count
  std::string journal;  // file that every measurement is appended to and that a later run goes on
                        // from; measurements of other settings in it do not count
};

// Every prompt counts alike: its errors are divided by what compressing all layers without
// residuals costs it, one layer at a time, and multiplied by the mean of that over the prompts.
// InvalidArgument: no text, one that is too short for its prompts (it is
// named), a negative number of retrievals, or lengths beyond the context.
absl::StatusOr<kv::Profile> Calibrate(const model::Model& model, const text::Tokenizer& tokenizer,
                                      const CalibrationOptions& options, kernels::Stream& stream);

}  // namespace anchorage::eval
