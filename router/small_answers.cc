#include "router/small_answers.h"

#include "common/version.h"
#include "router/json.h"
#include "router/request_parser.h"

namespace anchorage::router {
namespace {

Json ModelJson(const ServedModel& model, int64_t created) {
  return {
      {"id", model.name()},
      {"object", "model"},
      {"created", created},
      {"owned_by", "anchorage"},
      {"max_model_len", model.context_length()},
      {"meta", {{"n_ctx", model.context_length()}, {"n_vocab", model.tokenizer().vocab_size()}}}};
}

}  // namespace

ApiResult<std::string> SmallAnswers::Answer(const RouteMatch& match, std::string_view body) const {
  switch (match.route) {
    case Route::kModels:
      return Dump(Json{{"object", "list"}, {"data", Json::array({ModelJson(model_, created_)})}});
    case Route::kModel:
      return Model(match.argument);
    case Route::kTokenize:
      return Tokenize(body);
    case Route::kDetokenize:
      return Detokenize(body);
    case Route::kReady: {
      const absl::Status ready = engine_.Ready();
      if (!ready.ok()) return NoWorkers(std::string(ready.message()));
      return std::string("{\"status\":\"ok\"}");
    }
    case Route::kVersion:
      return Dump(Json{{"version", kVersion}, {"commit", kCommit}});
    default:  // kLive: the io thread answers, so it lives
      return std::string("{\"status\":\"ok\"}");
  }
}

ApiResult<std::string> SmallAnswers::Model(const std::string& id) const {
  if (id != model_.name()) return ModelNotFound(id);
  return Dump(ModelJson(model_, created_));
}

ApiResult<std::string> SmallAnswers::Tokenize(std::string_view body) const {
  const ApiResult<TokenizeRequest> request = ParseTokenizeRequest(body);
  if (!request.ok()) return request.error();
  if (!request->model.empty() && request->model != model_.name()) {
    return ModelNotFound(request->model);
  }
  const auto ids = model_.Tokenize(request->prompt, request->add_special_tokens);
  if (!ids.ok()) return ids.error();
  return Dump(
      Json{{"tokens", *ids}, {"count", ids->size()}, {"max_model_len", model_.context_length()}});
}

ApiResult<std::string> SmallAnswers::Detokenize(std::string_view body) const {
  const ApiResult<DetokenizeRequest> request = ParseDetokenizeRequest(body);
  if (!request.ok()) return request.error();
  if (!request->model.empty() && request->model != model_.name()) {
    return ModelNotFound(request->model);
  }
  std::vector<int32_t> ids;
  for (const int64_t id : request->ids) {
    if (!model_.IsToken(id)) {
      return BadRequest("tokens", absl::StrFormat("Token id %d is outside the vocabulary.", id));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  const std::string text = model_.tokenizer().Decode(ids, /*skip_control=*/false);
  return Dump(Json{{"prompt", text}, {"content", text}});
}

}  // namespace anchorage::router
