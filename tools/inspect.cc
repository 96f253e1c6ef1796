#include "tools/inspect.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "common/status.h"
#include "common/status_macros.h"
#include "files/gguf.h"
#include "files/mapped_file.h"
#include "kv/serialized.h"
#include "tools/flags.h"
#include "tools/inspect_cache.h"
#include "tools/inspect_model.h"

ABSL_FLAG(std::string, npz, "", "write one layer of a saved cache to this file, for numpy");
ABSL_FLAG(int64_t, layer, 0, "which layer --npz writes");

namespace anchorage::tools {
namespace {

absl::Status InspectModel(const std::string& path) {
  if (!absl::GetFlag(FLAGS_npz).empty()) return Invalid("--npz is for saved caches");
  ASSIGN_OR_RETURN(const files::GgufFile file, files::GgufFile::Open(path));
  PrintModel(file, absl::GetFlag(FLAGS_json));
  return absl::OkStatus();
}

absl::Status InspectCache(const files::MappedFile& file) {
  ASSIGN_OR_RETURN(const kv::SavedCache cache, kv::ParseCache(file.bytes()));
  const std::string npz = absl::GetFlag(FLAGS_npz);
  if (!npz.empty()) RETURN_IF_ERROR(WriteLayerNpz(cache, absl::GetFlag(FLAGS_layer), npz));
  return PrintCache(cache, absl::GetFlag(FLAGS_json));
}

absl::Status Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) return Invalid("inspect takes one file");
  const std::string& path = arguments.front();
  ASSIGN_OR_RETURN(const files::MappedFile file, files::MappedFile::Open(path));
  const auto begins_with = [&file](std::string_view magic) {
    return file.bytes().size() >= magic.size() &&
           std::memcmp(file.bytes().data(), magic.data(), magic.size()) == 0;
  };
  if (begins_with("GGUF")) return InspectModel(path);
  if (begins_with("ANCHORKV")) return InspectCache(file);
  return Invalid("%s is neither a GGUF model nor a saved cache", path);
}

}  // namespace

const Command& InspectCommand() {
  static const Command command = {
      .name = "inspect",
      .arguments = "FILE",
      .summary = "what is inside a model file or a saved cache",
      .description =
          "Prints the header, the sizes by tensor and, of a saved cache, whether each layer's\n"
          "checksum and contents are good. A saved cache is what `generate --save-kv DIR` leaves.\n"
          "  anchorage inspect model.gguf\n"
          "  anchorage inspect DIR/cache.anchorkv --npz layer7.npz --layer 7",
      .flags = {"npz", "layer", "json"},
      .run = &Run};
  return command;
}

}  // namespace anchorage::tools
