#include "kv/profile_file.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string_view>

#include "common/status.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace anchorage::kv {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "anchorage-kv-profile";
constexpr int64_t kVersion = 1;
constexpr size_t kMaxFileBytes = size_t{16} << 20;

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return NotFound("cannot read %s", path);
  const auto size = static_cast<int64_t>(file.tellg());
  if (size < 0 || static_cast<uint64_t>(size) > kMaxFileBytes) {
    return Invalid("%s is too large for a profile", path);
  }
  file.seekg(0);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

absl::StatusOr<int64_t> Integer(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_integer()) {
    return Invalid("'%s' must be a whole number", name);
  }
  return found->get<int64_t>();
}

absl::Status AppendIntegers(const Json& list, const char* name, std::vector<int64_t>& numbers) {
  if (!list.is_array()) return Invalid("'%s' must hold lists of whole numbers", name);
  for (const Json& number : list) {
    if (!number.is_number_integer()) return Invalid("'%s' must hold whole numbers", name);
    numbers.push_back(number.get<int64_t>());
  }
  return absl::OkStatus();
}

std::string Text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

absl::StatusOr<ProfileFile> Parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || Text(json, "format") != kFormat) {
    return Invalid("not a profile: no JSON object with \"format\": \"%s\"", kFormat);
  }
  ASSIGN_OR_RETURN(const int64_t version, Integer(json, "version"));
  if (version != kVersion) {
    return Invalid("version %d of the format; this program reads %d", version, kVersion);
  }
  ProfileFile file;
  file.model = Text(json, "model");
  file.calibration = Text(json, "calibration");
  ASSIGN_OR_RETURN(file.geometry.num_layers, Integer(json, "layers"));
  ASSIGN_OR_RETURN(file.geometry.num_kv_heads, Integer(json, "kv_heads"));
  ASSIGN_OR_RETURN(file.geometry.head_dim, Integer(json, "head_dim"));
  if (!json.contains("millibits") || !json.contains("nanonats")) {
    return Invalid("'millibits' and 'nanonats' must be there");
  }
  RETURN_IF_ERROR(AppendIntegers(json["millibits"], "millibits", file.profile.millibits));
  if (!json["nanonats"].is_array()) return Invalid("'nanonats' must be a list");
  for (const Json& layer : json["nanonats"]) {
    if (layer.size() != file.profile.millibits.size()) {
      return Invalid("'nanonats' has a list of %d numbers for %d rates", layer.size(),
                     file.profile.millibits.size());
    }
    RETURN_IF_ERROR(AppendIntegers(layer, "nanonats", file.profile.nanonats));
  }
  file.profile.num_kv_heads = file.geometry.num_kv_heads;
  file.profile.head_dim = file.geometry.head_dim;
  const std::string problem = CheckProfile(file.profile, file.geometry.num_layers);
  if (!problem.empty()) return Invalid("%s", problem);
  if (file.profile.empty()) return Invalid("it has no rates");
  return file;
}

}  // namespace

absl::StatusOr<ProfileFile> ReadProfileFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadText(path));
  absl::StatusOr<ProfileFile> file = Parse(text);
  if (!file.ok()) return Annotate(file.status(), path);
  return file;
}

absl::Status WriteProfileFile(const std::string& path, const ProfileFile& file) {
  Json layers = Json::array();
  const std::vector<int64_t>& nanonats = file.profile.nanonats;
  const auto rates = static_cast<int64_t>(file.profile.millibits.size());
  for (auto row = nanonats.begin(); row != nanonats.end(); row += rates) {
    layers.push_back(std::vector<int64_t>(row, row + rates));
  }
  const Json head = {{"format", kFormat},
                     {"version", kVersion},
                     {"model", file.model},
                     {"calibration", file.calibration},
                     {"layers", file.geometry.num_layers},
                     {"kv_heads", file.geometry.num_kv_heads},
                     {"head_dim", file.geometry.head_dim},
                     {"millibits", file.profile.millibits}};
  // One layer a line, so that two profiles can be compared line by line.
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  text += ",\n\"nanonats\": [";
  for (size_t i = 0; i < layers.size(); ++i) text += (i == 0 ? "\n" : ",\n") + layers[i].dump();
  text += "\n]}\n";
  const std::string unfinished = path + ".unfinished";
  std::ofstream out(unfinished, std::ios::binary);
  out << text;
  out.close();
  if (!out || std::rename(unfinished.c_str(), path.c_str()) != 0) {
    return NotFound("cannot write %s", path);
  }
  return absl::OkStatus();
}

std::string ProfilePathFor(const std::string& model_path) {
  constexpr std::string_view kGguf = ".gguf";
  const std::string_view path = model_path;
  const std::string_view stem =
      path.ends_with(kGguf) ? path.substr(0, path.size() - kGguf.size()) : path;
  return std::string(stem) + ".kvprofile.json";
}

}  // namespace anchorage::kv
