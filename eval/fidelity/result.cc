#include "eval/fidelity/result.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::eval {
namespace {

using Json = nlohmann::ordered_json;

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::optional<double> OptionalOf(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.get<double>();
}

Json ToJson(const CandidateResult& result) {
  return {{"name", result.name},
          {"method", result.method},
          {"asked_ratio", result.asked},
          {"ratio", result.ratio},
          {"bytes", result.bytes},
          {"kl_nats", result.kl},
          {"js_nats", result.js},
          {"top1", result.top1},
          {"surprise_nats", result.surprise},
          {"answer_log_p", OrNull(result.answer)},
          {"later_answers_log_p", OrNull(result.later_answers)},
          {"cosine_mean", result.cosine_mean},
          {"cosine_low", result.cosine_low},
          {"cosine_distance_bins", result.distance_bins},
          {"head_cosines", result.head_cosines},
          {"logit_errors", result.logit_errors},
          {"residual_shares", result.residual_shares}};
}

CandidateResult CandidateOf(const Json& json) {
  CandidateResult result;
  json.at("name").get_to(result.name);
  json.at("method").get_to(result.method);
  json.at("asked_ratio").get_to(result.asked);
  json.at("ratio").get_to(result.ratio);
  json.at("bytes").get_to(result.bytes);
  json.at("kl_nats").get_to(result.kl);
  json.at("js_nats").get_to(result.js);
  json.at("top1").get_to(result.top1);
  json.at("surprise_nats").get_to(result.surprise);
  result.answer = OptionalOf(json.at("answer_log_p"));
  result.later_answers = OptionalOf(json.at("later_answers_log_p"));
  json.at("cosine_mean").get_to(result.cosine_mean);
  json.at("cosine_low").get_to(result.cosine_low);
  json.at("cosine_distance_bins").get_to(result.distance_bins);
  json.at("head_cosines").get_to(result.head_cosines);
  json.at("logit_errors").get_to(result.logit_errors);
  json.at("residual_shares").get_to(result.residual_shares);
  return result;
}

PromptResult PromptOf(const Json& json) {
  PromptResult result;
  json.at("kind").get_to(result.kind);
  json.at("index").get_to(result.index);
  json.at("tokens").get_to(result.seq_len);
  if (!absl::SimpleHexAtoi(json.at("digest").get<std::string>(), &result.digest)) {
    throw Json::other_error::create(500, "digest is no number", &json);
  }
  json.at("commit").get_to(result.commit);
  json.at("reused").get_to(result.reused);
  json.at("floor_kl_nats").get_to(result.floor_kl);
  json.at("floor_top1").get_to(result.floor_top1);
  json.at("seconds").get_to(result.seconds);
  for (const Json& candidate : json.at("candidates")) {
    result.candidates.push_back(CandidateOf(candidate));
  }
  return result;
}

absl::Status CheckNumbers(const std::string& name, const Json& json) {
  const Json flat = json.flatten();
  for (const auto& [path, value] : flat.items()) {
    if (value.is_number_float() && !std::isfinite(value.get<double>())) {
      return FailedPrecondition("%s: %s is %g", name, path, value.get<double>());
    }
  }
  return absl::OkStatus();
}

constexpr double kSmallestBinEnd = 1e-5;
constexpr double kBinsPerDecade = 10;

}  // namespace

double DistanceBinEnd(int bin) {
  return bin == kDistanceBins - 1 ? 2 : kSmallestBinEnd * std::pow(10, bin / kBinsPerDecade);
}

int DistanceBinOf(double cosine) {
  const double distance = 1 - cosine;
  if (!(distance > kSmallestBinEnd)) return 0;
  const double bin = std::ceil(kBinsPerDecade * std::log10(distance / kSmallestBinEnd));
  return std::min(static_cast<int>(bin), kDistanceBins - 1);
}

std::string ToJsonLine(const PromptResult& result) {
  Json json = {{"kind", result.kind},
               {"index", result.index},
               {"tokens", result.seq_len},
               {"digest", absl::StrFormat("%016x", result.digest)},
               {"commit", result.commit},
               {"reused", result.reused},
               {"floor_kl_nats", result.floor_kl},
               {"floor_top1", result.floor_top1},
               {"seconds", result.seconds},
               {"candidates", Json::array()}};
  for (const CandidateResult& candidate : result.candidates) {
    json["candidates"].push_back(ToJson(candidate));
  }
  return json.dump();
}

absl::StatusOr<PromptResult> ResultFromJson(std::string_view line) {
  try {
    return PromptOf(Json::parse(line));
  } catch (const Json::exception& error) {
    return Invalid("not a result: %s", error.what());
  }
}

absl::Status CheckFinite(const PromptResult& result) {
  RETURN_IF_ERROR(CheckNumbers("the uncompressed prefill", {{"floor_kl_nats", result.floor_kl},
                                                            {"floor_top1", result.floor_top1}}));
  for (const CandidateResult& candidate : result.candidates) {
    RETURN_IF_ERROR(CheckNumbers(candidate.name, ToJson(candidate)));
  }
  return absl::OkStatus();
}

}  // namespace anchorage::eval
