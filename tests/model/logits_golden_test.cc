// Next-token logits of the real model against scripts/golden/make_logits_golden.py, an independent
// implementation in numpy, on ten prompts of up to 4,000 tokens.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/model.h"
#include "prefill_node/core/engine.h"
#include "tests/support/sanitized.h"
#include "tests/support/tiny_model.h"

namespace anchorage::model {
namespace {

using Json = nlohmann::json;

// Largest difference of ours to the golden values that were kept.
double LargestError(const std::vector<float>& logits, const Json& golden, size_t stride) {
  double worst = 0;
  const auto compare = [&](size_t id, double expected) {
    worst = std::max(worst, std::abs(logits[id] - expected));
  };
  for (size_t i = 0; i < golden["top"].size(); ++i) {
    compare(golden["top_ids"][i].get<size_t>(), golden["top"][i].get<double>());
  }
  for (size_t i = 0; i < golden["sample"].size(); ++i) {
    compare(i * stride, golden["sample"][i].get<double>());
  }
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  worst = std::max(worst, std::abs(std::log(sum) - golden["logsumexp"].get<double>()));
  return worst;
}

TEST(LogitsGoldenTest, AgreeWithAnIndependentImplementation) {
  std::ifstream file("tests/model/logits_golden.json");
  const Json golden = Json::parse(file);
  auto model = Model::Load(testing::RealModelPath());
  ASSERT_TRUE(model.ok()) << model.status() << "; see scripts/fetch_model.sh";
  ASSERT_EQ((*model)->config().name, golden["model"].get<std::string>());
  ASSERT_EQ(golden["cases"].size(), 10u);

  kernels::Stream stream(2);
  prefill::MemoryAccountant accountant;
  prefill::EngineOptions options;
  options.plan.layout = kv::Layout::kDense;
  auto engine = prefill::Engine::Create(**model, options, accountant, Clock::Real(), stream);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const size_t limit = kSanitized ? 64 : 4000;  // a sanitizer takes minutes for longer prompts
  size_t longest = 0;
  for (const Json& item : golden["cases"]) {
    SCOPED_TRACE(item["name"].get<std::string>());
    const std::vector<int32_t> ids = item["ids"].get<std::vector<int32_t>>();
    if (ids.size() > limit) continue;
    longest = std::max(longest, ids.size());
    prefill::PrefillRequest request;
    request.prompt_ids = ids;
    request.logit_rows = 1;
    const prefill::PrefillResult result = std::move((*engine)->Run({&request, 1}).front());
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.first_token, item["bf16_kv"]["top_ids"][0].get<int32_t>());
    const size_t stride = golden["stride"].get<size_t>();
    // Logits are of magnitude 20. One token attends to itself alone, so rounded K and V are all
    // that differs, and the golden values round them too: what is left is the order of sums in f32.
    // With more tokens that order pushes some K and V to the neighbouring bf16 (2^-8 of it) in each
    // of 30 layers, so rounded and unrounded golden values are equally far: 0.06 at most when
    // measured, as far as they are from each other. Twice that is allowed.
    const double rounding = LargestError(result.logits, item["exact"], stride);
    const double order = LargestError(result.logits, item["bf16_kv"], stride);
    std::printf("%-16s %4zu tokens: %.5f to bf16 K and V, %.5f to unrounded\n",
                item["name"].get<std::string>().c_str(), ids.size(), order, rounding);
    EXPECT_LT(order, ids.size() == 1 ? 1e-3 : 0.12);
    EXPECT_LT(rounding, 0.12);
  }
  EXPECT_EQ(longest, limit);
}

}  // namespace
}  // namespace anchorage::model
