// What a measurement ran on and with, for the head of its report.
#pragma once

#include <string>

#include "model/model.h"

namespace anchorage::bench {

// "commit c0ffee, PROCESSOR, 2 threads; SmolLM2-135M-Instruct: 30 layers, 9/3 heads of 64"
std::string Setting(const model::Model& model, int threads);

}  // namespace anchorage::bench
