// Small Llama models with random weights, for tests that need a model but not its meaning.
#pragma once

#include <string>

namespace anchorage::testing {

// The flags of scripts/make_tiny_model, with its defaults.
struct TinyModelOptions {
  int layers = 4;
  int hidden = 128;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 64;
  int ff = 352;
  int context = 8192;
  int seed = 1;
  std::string types = "q4_1";  // q4_1 (embedding q8_0), q8_0, f16, f32
};

// Path of the GGUF file, written on first use and kept in the temporary directory under a name that
// says its options and the script's own content. Tests in parallel may share it. Aborts the test
// program when it cannot be written.
std::string TinyModelPath(const TinyModelOptions& options = {});

// The real model, for what only it can show: $ANCHORAGE_MODEL, else where scripts/fetch_model.sh
// leaves it under the working directory. A test whose model is not there fails.
std::string RealModelPath();

}  // namespace anchorage::testing
