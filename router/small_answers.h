// The endpoints that need no worker: models, tokenize, detokenize, probes, version.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "router/api_error.h"
#include "router/engine.h"
#include "router/routes.h"
#include "router/served_model.h"

namespace anchorage::router {

class SmallAnswers {
 public:
  // `created`: when the service started, in seconds since the Unix epoch. Both must outlive this.
  SmallAnswers(const ServedModel* model, const Engine* engine, int64_t created)
      : model_(*model), engine_(*engine), created_(created) {}

  // The JSON body of a 200, or the error. `match` is neither a completion nor unknown.
  ApiResult<std::string> Answer(const RouteMatch& match, std::string_view body) const;

 private:
  ApiResult<std::string> Model(const std::string& id) const;
  ApiResult<std::string> Tokenize(std::string_view body) const;
  ApiResult<std::string> Detokenize(std::string_view body) const;

  const ServedModel& model_;
  const Engine& engine_;
  const int64_t created_;
};

}  // namespace anchorage::router
