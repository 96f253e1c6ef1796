// What kernel_bench measures: one operation at one shape, with its data and its right answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/stream.h"

namespace anchorage::bench {

class Case {
 public:
  virtual ~Case() = default;
  virtual void Run(kernels::Stream& stream) = 0;

  // How far the last answer is from the double-precision reference, on a sample of its rows:
  // largest difference over the sample's largest value.
  virtual double Error() const = 0;

  virtual double flops() const { return 0; }  // a multiply-add counts as two
  virtual double bytes() const = 0;           // of weights, cache or activations that must be read
  virtual int64_t tokens() const { return 0; }  // where the time for each is of interest
};

using MakeCase = std::function<std::unique_ptr<Case>(kernels::Stream&)>;

struct NamedCase {
  std::string name;
  MakeCase make;
  double min_share = 0;  // of the machine's multiply-add rate, asked for by --check

  // What the same work costs the usual way, measured in turn with it; or empty.
  std::string rival_name = {};
  MakeCase make_rival = nullptr;
  double min_speedup = 0;  // over the rival, asked for by --check
};

// Matrix products of SmolLM2-135M: prefill (packed weights) and decode (stored weights).
std::vector<NamedCase> MatmulCases();

// Prefill attention, and the row-wise operations between the products.
std::vector<NamedCase> PrefillCases();

// Compression at a layer's end, and decode attention over what it leaves.
std::vector<NamedCase> CacheCases();

}  // namespace anchorage::bench
