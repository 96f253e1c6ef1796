#include "kv/compressors/fit_key_code.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace anchorage::kv {
namespace {

using testing::ElementsAre;

TEST(FitKeyCodeTest, PairsAddUpBothCoordinates) {
  std::vector<double> energy = {1, 0};
  AddPairEnergies(std::vector<float>{1, 2, 3, 4}, energy);  // pairs (1, 3) and (2, 4)
  EXPECT_THAT(energy, ElementsAre(11, 20));
}

TEST(FitKeyCodeTest, QueriesOfTheHeadsGroupCount) {
  // Two rows, four query heads of four coordinates, two KV heads: query h of row r is 10 r + h + 1.
  std::vector<float> q;
  for (int row = 0; row < 2; ++row) {
    for (int head = 0; head < 4; ++head) {
      for (int d = 0; d < 4; ++d) q.push_back(d % 2 == 0 ? 10.0f * row + head + 1 : 0);
    }
  }
  const kernels::ObservedRowsView observed = {2, 4, 4, q.data(), nullptr, nullptr};
  EXPECT_THAT(QueryEnergies(observed, 2, 0), ElementsAre(2 * (1 + 4 + 121 + 144), 0));
  EXPECT_THAT(QueryEnergies(observed, 2, 1), ElementsAre(2 * (9 + 16 + 169 + 196), 0));
}

// Products 8, 30, 8, 4, 0, 3, 2, 1: eight pairs have a front of two and a middle of four.
TEST(FitKeyCodeTest, OrdersByTheProductOfBothEnergies) {
  const std::vector<double> residuals = {8, 3, 2, 4, 0, 3, 1, 1};
  const std::vector<double> queries = {1, 10, 4, 1, 9, 1, 2, 1};
  const FittedKeyCode code = FitKeyCode(residuals, 2, queries);
  EXPECT_THAT(code.order, ElementsAre(1, 0, 2, 3, 5, 6, 7, 4));
  // The front is pairs 1 and 0, 11 over 4 coordinates and 2 positions; the middle 2, 3, 5 and 6.
  EXPECT_FLOAT_EQ(code.gain[0], std::sqrt(11.0f / 8));
  EXPECT_FLOAT_EQ(code.gain[1], std::sqrt(10.0f / 16));
  EXPECT_EQ(code.view().head_dim, 16);
}

TEST(FitKeyCodeTest, NothingHasNoSize) {
  const std::vector<double> zeros(4);
  const FittedKeyCode code = FitKeyCode(zeros, 100, zeros);
  EXPECT_THAT(code.order, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(code.gain, ElementsAre(0, 0));
}

}  // namespace
}  // namespace anchorage::kv
