// A profile as a file: JSON, small enough to read and to compare by eye.
//
//   {"format": "anchorage-kv-profile", "version": 1, "model": "...", "calibration": "...",
//    "layers": L, "kv_heads": H, "head_dim": D, "millibits": [R numbers],
//    "nanonats": [L lists of R numbers]}
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kv/plan/plan.h"

namespace anchorage::kv {

struct ProfileFile {
  std::string model;        // for people
  std::string calibration;  // how it was measured, for people
  Geometry geometry;        // of the model that it belongs to
  Profile profile;
};

// NotFound: no such file. InvalidArgument: not a profile; the sentence says what is wrong.
absl::StatusOr<ProfileFile> ReadProfileFile(const std::string& path);

// NotFound: cannot be written. An existing file is replaced in one step.
absl::Status WriteProfileFile(const std::string& path, const ProfileFile& file);

// Beside the model: "model.gguf" -> "model.kvprofile.json".
std::string ProfilePathFor(const std::string& model_path);

}  // namespace anchorage::kv
