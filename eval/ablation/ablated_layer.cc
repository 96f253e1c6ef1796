// The five steps of kv/compressors/anchorkv.cc, with a branch wherever an ablation goes another
// way. Where a step is not what an ablation is about, it is the served one: the same kernels choose
// and rank, and the layout's own writer rounds.
#include "eval/ablation/ablated_layer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "common/status.h"
#include "common/status_macros.h"
#include "eval/ablation/coded_residual.h"
#include "kernels/anchor.h"
#include "kv/compressors/check_layer.h"
#include "kv/compressors/fit_anchors.h"
#include "kv/compressors/fit_key_code.h"
#include "kv/compressors/pool_utilities.h"
#include "kv/compressors/select_anchors.h"
#include "kv/compressors/select_slots.h"
#include "kv/kernel_status.h"
#include "kv/layouts/anchor_row.h"
#include "kv/layouts/layout_writer.h"
#include "kv/layouts/slot_index.h"
#include "kv/rotate_row.h"
#include "kv/tensor_span.h"

namespace anchorage::eval {
namespace {

using kernels::Bf16;
using kernels::ToBf16;
using kernels::ToFloat;
using kv::kSides;
using kv::Side;

// The layer with its keys rotated already, and a table that rotates nothing: whoever works before
// RoPE then works after it.
class RotatedLayer {
 public:
  explicit RotatedLayer(const kv::LayerKv& layer) : layer_(layer) {
    const kernels::ActiveKvView& kv = layer.kv;
    keys_.resize(static_cast<size_t>(kv.num_kv_heads * kv.capacity * kv.head_dim));
    std::vector<float> row(static_cast<size_t>(kv.head_dim));
    for (int64_t head = 0; head < kv.num_kv_heads; ++head) {
      for (int64_t position = 0; position < kv.seq_len; ++position) {
        const int64_t at = (head * kv.capacity + position) * kv.head_dim;
        std::transform(kv.k + at, kv.k + at + kv.head_dim, row.begin(), ToFloat);
        kv::RotateRow(layer.rope, position, row.data());
        std::transform(row.begin(), row.end(), &keys_[at], ToBf16);
      }
    }
    cos_.assign(static_cast<size_t>(kv.seq_len * kv.head_dim / 2), 1.0f);
    sin_.assign(cos_.size(), 0.0f);
    layer_.kv.k = keys_.data();
    layer_.rope = {cos_.data(), sin_.data(), kv.head_dim, kv.seq_len};
  }
  RotatedLayer(const RotatedLayer&) = delete;
  RotatedLayer& operator=(const RotatedLayer&) = delete;

  const kv::LayerKv& layer() const { return layer_; }

 private:
  kv::LayerKv layer_;
  std::vector<Bf16> keys_;
  std::vector<float> cos_, sin_;
};

// A position that may get a residual.
struct Place {
  float rank = 0;
  int64_t position = 0;
  int64_t head = 0;

  // The better one first; ties as in kv::SelectSlots.
  bool operator<(const Place& other) const {
    if (rank != other.rank) return rank > other.rank;
    return std::pair(position, head) < std::pair(other.position, other.head);
  }
};

class Ablater {
 public:
  // `region` [plan.region_bytes], zeroed: where the layout's writer rounds.
  Ablater(const kv::LayerKv& layer, const kernels::ObservedRowsView& observed,
          const kv::LayerPlan& plan, const kv::PlanOptions& options, const Ablation& ablation,
          std::span<std::byte> region, kernels::Stream& stream)
      : layer_(layer),
        observed_(observed),
        plan_(plan),
        options_(options),
        ablation_(ablation),
        writer_(kv::MakeLayoutWriter(plan, region, layer.rope, kernels::CodePacking::kPlanar)),
        stream_(stream) {}

  absl::StatusOr<AblatedLayer> Run() {
    RETURN_IF_ERROR(MakeAnchors());
    for (const Side side : kSides) RETURN_IF_ERROR(Assign(side));
    FitKeyCodes();
    RETURN_IF_ERROR(RankPositions());
    AblatedLayer result;
    for (std::vector<uint8_t>& codes : result.codes) codes.resize(NumPositions());
    if (!ablation_.no_residuals) GiveSlots(result.codes);
    for (const Side side : kSides) {
      std::vector<float>& rows = side == Side::kKey ? result.rows.k : result.rows.v;
      rows.resize(static_cast<size_t>(plan_.num_kv_heads * plan_.seq_len * plan_.head_dim));
      RETURN_IF_ERROR(Rebuild(side, result.codes[Index(side)], rows));
    }
    return result;
  }

 private:
  // What one side has in the prefix, [H, P] each.
  struct Projected {
    std::vector<uint16_t> idx;
    std::vector<float> gamma;  // as a decoder has it
    std::vector<float> rank;   // kv::kNoSlot for anchors
  };

  // ---- Step 1 ----

  absl::Status MakeAnchors() {
    scores_.resize(NumPositions());
    RETURN_IF_ERROR(
        Kernel(kernels::ScorePrefix(layer_.kv, observed_, layer_.rope, Window(),
                                    static_cast<int>(options_.pool_width), scores_.data(), stream_),
               "scoring"));
    for (const Side side : kSides) {
      stored_anchors_[Index(side)].resize(
          static_cast<size_t>(plan_.num_kv_heads * plan_.num_anchors * plan_.head_dim));
      for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
        RETURN_IF_ERROR(MakeAnchorsOf(side, head));
      }
    }
    return absl::OkStatus();
  }

  absl::Status MakeAnchorsOf(Side side, int64_t head) {
    const int64_t dim = plan_.head_dim;
    const std::span<Bf16> anchors(
        kv::AnchorRow(plan_, std::span(stored_anchors_[Index(side)]), head, 0),
        static_cast<size_t>(plan_.num_anchors * dim));
    std::copy_n(Row(side, head, 0), plan_.num_pins * dim, anchors.begin());
    std::copy_n(Row(side, head, plan_.prefix_len()), plan_.window_len * dim,
                anchors.end() - plan_.window_len * dim);
    if (ablation_.anchors == Anchors::kFitted) {
      RETURN_IF_ERROR(Fit(side, head, anchors));
    } else {
      auto out = anchors.begin();
      for (const uint32_t position : AnchorRows(head)) {
        out = std::copy_n(Row(side, head, position), dim, out);
      }
    }
    writer_->StoreAnchors(side, head, anchors);
    return absl::OkStatus();
  }

  absl::Status Fit(Side side, int64_t head, std::span<Bf16> anchors) {
    const auto num_rows = static_cast<size_t>(kv::NumFitRows(plan_));
    std::vector<Bf16> rows(num_rows * static_cast<size_t>(plan_.head_dim));
    std::vector<uint16_t> idx(num_rows);
    std::vector<float> proj(num_rows);
    return Kernel(kv::FitAnchors(plan_, Row(side, head, 0), anchors, {rows, idx, proj}, stream_),
                  "fitting anchors");
  }

  // The pinned positions, and as many others as there would be fitted anchors.
  std::vector<uint32_t> AnchorRows(int64_t head) const {
    kv::LayerPlan plan = plan_;
    const int64_t rho = ablation_.anchors == Anchors::kScoredRows ? kv::kPpm : options_.rho_ppm;
    plan.num_scored = plan.num_fitted * rho / kv::kPpm;
    plan.num_uniform = plan.num_fitted - plan.num_scored;
    return kv::SelectAnchors(plan, layer_.layer, head, options_.seed,
                             OfHead(std::span<const float>(scores_), head));
  }

  // ---- Step 2 ----

  absl::Status Assign(Side side) {
    Projected& projected = projected_[Index(side)];
    projected.idx.resize(NumPositions());
    projected.gamma.resize(NumPositions());
    std::vector<float> lengths(static_cast<size_t>(plan_.prefix_len()));
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      const std::span<uint16_t> idx = OfHead(std::span(projected.idx), head);
      RETURN_IF_ERROR(Kernel(
          kernels::AssignAnchors(plan_.prefix_len(), static_cast<int>(plan_.head_dim),
                                 static_cast<int>(plan_.num_anchors), Row(side, head, 0),
                                 AnchorOf(side, head, 0), idx.data(), lengths.data(), stream_),
          "assigning anchors"));
      writer_->StoreAssignments(side, head, idx, lengths);
      writer_->LoadAssignments(side, head, 0, idx, OfHead(std::span(projected.gamma), head));
    }
    return absl::OkStatus();
  }

  void FitKeyCodes() {
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      std::vector<double> residuals(static_cast<size_t>(plan_.head_dim / 2));
      for (int64_t position = 0; position < plan_.prefix_len(); ++position) {
        kv::AddPairEnergies(Residual(Side::kKey, head, position), residuals);
      }
      const auto queries = kv::QueryEnergies(observed_, static_cast<int>(plan_.num_kv_heads), head);
      key_codes_.push_back(kv::FitKeyCode(residuals, plan_.prefix_len(), queries));
    }
  }

  // ---- Step 3 ----

  absl::Status RankPositions() {
    for (Projected& projected : projected_) projected.rank.resize(NumPositions());
    if (ablation_.rank_by == RankBy::kUtility) {
      RETURN_IF_ERROR(RankByUtility());
    } else {
      for (const Side side : kSides) {
        for (int64_t head = 0; head < plan_.num_kv_heads; ++head) RankHead(side, head);
      }
    }
    for (Projected& projected : projected_) {
      for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
        const std::span<float> rank = OfHead(std::span(projected.rank), head);
        std::fill_n(rank.begin(), plan_.num_pins, kv::kNoSlot);
      }
    }
    return absl::OkStatus();
  }

  absl::Status RankByUtility() {
    std::array<std::vector<float>, 2> energies;
    for (std::vector<float>& each : energies) each.resize(NumPositions());
    RETURN_IF_ERROR(
        Kernel(kernels::ResidualUtilities(layer_.kv, observed_, layer_.rope, Window(),
                                          static_cast<int>(plan_.num_anchors),
                                          KernelSide(Side::kKey), KernelSide(Side::kValue),
                                          {projected_[0].rank.data(), energies[0].data()},
                                          {projected_[1].rank.data(), energies[1].data()}, stream_),
               "ranking residuals"));
    for (size_t side = 0; side < 2; ++side) {
      for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
        kv::PoolUtilities(OfHead(std::span(projected_[side].rank), head),
                          OfHead(std::span(std::as_const(energies[side])), head),
                          options_.utility_pool_width);
      }
    }
    return absl::OkStatus();
  }

  kernels::AnchorSide KernelSide(Side side) const {
    const Projected& projected = projected_[Index(side)];
    return {AnchorOf(side, 0, 0), projected.idx.data(), projected.gamma.data()};
  }

  void RankHead(Side side, int64_t head) {
    for (int64_t position = 0; position < plan_.prefix_len(); ++position) {
      projected_[Index(side)].rank[head * plan_.prefix_len() + position] =
          static_cast<float>(RankOf(side, head, position));
    }
  }

  double RankOf(Side side, int64_t head, int64_t position) const {
    switch (ablation_.rank_by) {
      case RankBy::kCosine:
        return 1 - std::fabs(CosineToAnchor(side, head, position));
      case RankBy::kResidualNorm:
        return Norm(Residual(side, head, position));
      case RankBy::kAttention:
        return scores_[head * plan_.prefix_len() + position];
      case RankBy::kRandom: {
        const uint64_t seed = options_.seed + 1 + Index(side);  // not that of the uniform anchors
        return std::ldexp(static_cast<double>(kv::UniformHash(seed, layer_.layer, head, position)),
                          -64);
      }
      case RankBy::kUtility:
        break;
    }
    return 0;
  }

  // 1 for a zero vector or a zero anchor, which no residual helps.
  double CosineToAnchor(Side side, int64_t head, int64_t position) const {
    const int64_t at = head * plan_.prefix_len() + position;
    const Bf16* x = Row(side, head, position);
    const Bf16* anchor = AnchorOf(side, head, projected_[Index(side)].idx[at]);
    double dot = 0, x_square = 0, anchor_square = 0;
    for (int64_t d = 0; d < plan_.head_dim; ++d) {
      dot += double{ToFloat(x[d])} * ToFloat(anchor[d]);
      x_square += double{ToFloat(x[d])} * ToFloat(x[d]);
      anchor_square += double{ToFloat(anchor[d])} * ToFloat(anchor[d]);
    }
    const double norms = std::sqrt(x_square * anchor_square);
    return norms > 0 ? std::clamp(dot / norms, -1.0, 1.0) : 1;
  }

  static double Norm(std::span<const float> x) {
    double sum = 0;
    for (const float value : x) sum += double{value} * value;
    return std::sqrt(sum);
  }

  // ---- Step 4 ----

  using Counts = std::array<int64_t, 2>;  // of K and V

  void GiveSlots(std::array<std::vector<uint8_t>, 2>& codes) const {
    const std::array<std::vector<Place>, 2> ranked = {Ranked(Side::kKey), Ranked(Side::kValue)};
    for (const kv::Stage stage : {kv::Stage::kCoarse, kv::Stage::kFine}) {
      const Counts counts = Affordable(
          {kv::NumSlots(plan_, Side::kKey, stage), kv::NumSlots(plan_, Side::kValue, stage)},
          ranked);
      for (const Side side : kSides) {
        Give(counts[Index(side)], ranked[Index(side)], codes[Index(side)]);
      }
    }
  }

  std::vector<Place> Ranked(Side side) const {
    const std::vector<float>& rank = projected_[Index(side)].rank;
    std::vector<Place> places;
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      for (int64_t position = 0; position < plan_.prefix_len(); ++position) {
        const float value = rank[head * plan_.prefix_len() + position];
        if (value < 0) continue;
        places.push_back({value > 0 ? value : 0.0f, position, head});  // NaN counts as 0
      }
    }
    std::sort(places.begin(), places.end());
    return places;
  }

  // The slots that the ablation buys for the bytes of the planned ones.
  Counts Affordable(Counts planned, const std::array<std::vector<Place>, 2>& ranked) const {
    const int64_t served = SlotBytes(ResidualCode::kLeastSquares, plan_.head_dim);
    Counts counts;
    for (size_t side = 0; side < 2; ++side) {
      counts[side] = planned[side] * served / SlotBytes(ablation_.code, plan_.head_dim);
    }
    return ablation_.joint_sides ? JointCounts(counts[0] + counts[1], ranked) : counts;
  }

  // How many of the best `total` of both sides are keys, and how many values; ties: K first.
  static Counts JointCounts(int64_t total, const std::array<std::vector<Place>, 2>& ranked) {
    const auto& [keys, values] = ranked;
    const auto num_keys = static_cast<int64_t>(keys.size());
    const auto num_values = static_cast<int64_t>(values.size());
    int64_t key_slots = 0;
    int64_t value_slots = 0;
    while (key_slots + value_slots < total) {
      const bool take_key =
          value_slots == num_values ||
          (key_slots < num_keys && keys[key_slots].rank >= values[value_slots].rank);
      ++(take_key ? key_slots : value_slots);
    }
    key_slots = std::clamp(key_slots, total / 4, total - total / 4);
    key_slots = std::clamp(key_slots, total - num_values, num_keys);
    return {key_slots, total - key_slots};
  }

  // One more code for the best `count` places, in every head the same number when heads are equal.
  void Give(int64_t count, const std::vector<Place>& ranked, std::vector<uint8_t>& codes) const {
    const int64_t heads = plan_.num_kv_heads;
    std::vector<int64_t> left(static_cast<size_t>(heads), count);
    for (int64_t head = 0; ablation_.equal_heads && head < heads; ++head) {
      left[head] = count / heads + (head < count % heads ? 1 : 0);
    }
    for (const Place& place : ranked) {
      if (count == 0) return;
      if (left[place.head] == 0) continue;
      --left[place.head];
      --count;
      ++codes[place.head * plan_.prefix_len() + place.position];
    }
  }

  // ---- Step 5 ----

  absl::Status Rebuild(Side side, const std::vector<uint8_t>& codes, std::vector<float>& rows) {
    for (int64_t head = 0; head < plan_.num_kv_heads; ++head) {
      for (int64_t position = 0; position < plan_.seq_len; ++position) {
        const std::span<float> row =
            std::span(rows).subspan((head * plan_.seq_len + position) * plan_.head_dim,
                                    static_cast<size_t>(plan_.head_dim));
        const bool in_window = position >= plan_.prefix_len();
        const int num_codes = in_window ? 0 : codes[head * plan_.prefix_len() + position];
        if (!RebuildRow(side, head, position, num_codes, row)) {
          return Invalid("layer %d, position %d: K or V is too large to compress", layer_.layer,
                         position);
        }
      }
    }
    return absl::OkStatus();
  }

  bool IsExact(Side side, int num_codes) const {
    switch (ablation_.exact) {
      case Exact::kNothing:
        return false;
      case Exact::kKeys:
        return side == Side::kKey;
      case Exact::kValues:
        return side == Side::kValue;
      case Exact::kCoded:
        return num_codes > 0;
      case Exact::kUncoded:
        return num_codes == 0;
    }
    return false;
  }

  // The projection, the anchor of a window row, or the row itself where it is exact, and what is
  // left of its residual. False when a scale is not finite.
  bool RebuildRow(Side side, int64_t head, int64_t position, int num_codes,
                  std::span<float> row) const {
    const bool exact = IsExact(side, num_codes);
    const auto [gamma, base] =
        exact ? std::pair(1.0f, Row(side, head, position)) : ProjectionOf(side, head, position);
    for (int64_t d = 0; d < plan_.head_dim; ++d) row[d] = gamma * ToFloat(base[d]);
    if (side == Side::kKey) kv::RotateRow(layer_.rope, position, row.data());
    if (exact || num_codes == 0) return true;

    std::vector<float> residual = Residual(side, head, position);
    if (side == Side::kKey) kv::RotateRow(layer_.rope, position, residual.data());
    const bool as_served = ablation_.code == ResidualCode::kLeastSquares;
    if (side == Side::kKey && num_codes == 1 && as_served) {
      return AddCodedKey(key_codes_[head].view(), residual, row);
    }
    return AddCodedResidual(ablation_.code, num_codes, residual, row);
  }

  // ---- Shared ----

  static size_t Index(Side side) { return static_cast<size_t>(side); }
  size_t NumPositions() const {
    return static_cast<size_t>(plan_.num_kv_heads * plan_.prefix_len());
  }
  int Window() const { return static_cast<int>(plan_.window_len); }

  template <typename T>
  std::span<T> OfHead(std::span<T> positions, int64_t head) const {
    const auto prefix_len = static_cast<size_t>(plan_.prefix_len());
    return positions.subspan(static_cast<size_t>(head) * prefix_len, prefix_len);
  }

  const Bf16* Row(Side side, int64_t head, int64_t position) const {
    const Bf16* data = side == Side::kKey ? layer_.kv.k : layer_.kv.v;
    return data + (head * layer_.kv.capacity + position) * plan_.head_dim;
  }

  const Bf16* AnchorOf(Side side, int64_t head, int64_t anchor) const {
    return kv::AnchorRow(plan_, std::span(stored_anchors_[Index(side)]), head, anchor);
  }

  std::pair<float, const Bf16*> ProjectionOf(Side side, int64_t head, int64_t position) const {
    if (position >= plan_.prefix_len()) {
      return {1.0f, AnchorOf(side, head, plan_.num_anchors - (plan_.seq_len - position))};
    }
    const Projected& projected = projected_[Index(side)];
    const int64_t at = head * plan_.prefix_len() + position;
    return {projected.gamma[at], AnchorOf(side, head, projected.idx[at])};
  }

  // x - gamma anchor, before RoPE unless the layer's keys are rotated already.
  std::vector<float> Residual(Side side, int64_t head, int64_t position) const {
    const auto [gamma, anchor] = ProjectionOf(side, head, position);
    const Bf16* x = Row(side, head, position);
    std::vector<float> residual(static_cast<size_t>(plan_.head_dim));
    for (int64_t d = 0; d < plan_.head_dim; ++d) {
      residual[d] = ToFloat(x[d]) - gamma * ToFloat(anchor[d]);
    }
    return residual;
  }

  absl::Status Kernel(kernels::Status status, const char* operation) const {
    if (status == kernels::Status::kOk) return absl::OkStatus();
    return kv::FromKernel(status, absl::StrFormat("layer %d, %s", layer_.layer, operation));
  }

  const kv::LayerKv& layer_;
  const kernels::ObservedRowsView& observed_;
  const kv::LayerPlan& plan_;
  const kv::PlanOptions& options_;
  const Ablation& ablation_;
  std::unique_ptr<kv::LayoutWriter> writer_;
  kernels::Stream& stream_;
  std::vector<float> scores_;                        // [H, P]
  std::array<std::vector<Bf16>, 2> stored_anchors_;  // of K and V, [H, k, D] as decoded
  std::array<Projected, 2> projected_;
  std::vector<kv::FittedKeyCode> key_codes_;  // [H]
};

}  // namespace

absl::StatusOr<AblatedLayer> AblateLayer(const kv::LayerKv& layer,
                                         const kernels::ObservedRowsView& observed,
                                         const kv::LayerPlan& plan, const kv::PlanOptions& options,
                                         const Ablation& ablation, kernels::Stream& stream) {
  if (plan.layout != kv::Layout::kCompact) {
    return Invalid("layer %d: a %s plan cannot be ablated", layer.layer,
                   kv::LayoutName(plan.layout));
  }
  RETURN_IF_ERROR(kv::CheckLayer(layer, plan, stream));
  ASSIGN_OR_RETURN(kv::CompressedLayer scratch, kv::NewCompressedLayer(layer.layer, plan));
  const std::span<std::byte> region = scratch.region.span();
  if (!ablation.after_rope) {
    return Ablater(layer, observed, plan, options, ablation, region, stream).Run();
  }
  const RotatedLayer rotated(layer);
  return Ablater(rotated.layer(), observed, plan, options, ablation, region, stream).Run();
}

}  // namespace anchorage::eval
