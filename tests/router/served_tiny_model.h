// The router's view of the tiny model.
#pragma once

#include "router/served_model.h"
#include "tests/support/tiny_model.h"

namespace anchorage::router {

inline const ServedModel& ServedTinyModel() {
  static const ServedModel model = *ServedModel::Load(testing::TinyModelPath(), "tiny");
  return model;
}

}  // namespace anchorage::router
