#include "router/served_model.h"

#include <filesystem>

#include "common/status.h"
#include "common/status_macros.h"

namespace anchorage::router {
namespace {

absl::StatusOr<kv::Geometry> ReadGeometry(const files::GgufFile& file, const std::string& arch) {
  kv::Geometry geometry;
  ASSIGN_OR_RETURN(geometry.num_layers, file.GetI64(arch + ".block_count"));
  ASSIGN_OR_RETURN(const int64_t num_q_heads, file.GetI64(arch + ".attention.head_count"));
  geometry.num_kv_heads = num_q_heads;
  if (file.HasKey(arch + ".attention.head_count_kv")) {
    ASSIGN_OR_RETURN(geometry.num_kv_heads, file.GetI64(arch + ".attention.head_count_kv"));
  }
  if (file.HasKey(arch + ".attention.key_length")) {
    ASSIGN_OR_RETURN(geometry.head_dim, file.GetI64(arch + ".attention.key_length"));
  } else {
    ASSIGN_OR_RETURN(const int64_t hidden_dim, file.GetI64(arch + ".embedding_length"));
    if (num_q_heads < 1) return Invalid("%s.attention.head_count is %d", arch, num_q_heads);
    geometry.head_dim = hidden_dim / num_q_heads;
  }
  return geometry;
}

}  // namespace

absl::StatusOr<ServedModel> ServedModel::Load(const std::string& path, std::string name) {
  ASSIGN_OR_RETURN(const files::GgufFile file, files::GgufFile::Open(path));
  if (name.empty()) name = std::filesystem::path(path).stem().string();
  return FromFile(file, std::move(name));
}

absl::StatusOr<ServedModel> ServedModel::FromFile(const files::GgufFile& file, std::string name) {
  ASSIGN_OR_RETURN(text::Tokenizer tokenizer, text::Tokenizer::FromGguf(file));
  ServedModel model(std::move(name), std::move(tokenizer));
  ASSIGN_OR_RETURN(const std::string_view arch, file.GetString("general.architecture"));
  ASSIGN_OR_RETURN(model.geometry_, ReadGeometry(file, std::string(arch)));
  ASSIGN_OR_RETURN(model.context_length_, file.GetI64(std::string(arch) + ".context_length"));
  if (model.context_length_ < 2) return Invalid("a context of %d", model.context_length_);
  const std::string problem = kv::CheckPlan(model.geometry_, kv::PlanOptions(), 1, 1);
  if (!problem.empty()) return Invalid("%s", problem);
  absl::StatusOr<text::ChatTemplate> chat_template = text::ChatTemplate::FromGguf(file);
  if (chat_template.ok()) {
    model.template_ = *std::move(chat_template);
  } else if (!absl::IsNotFound(chat_template.status())) {
    return Annotate(chat_template.status(), "chat template");
  }
  return model;
}

ApiResult<std::vector<int32_t>> ServedModel::Tokenize(
    const Prompt& prompt, std::optional<bool> add_special_tokens) const {
  std::vector<int32_t> ids;
  bool add_bos = add_special_tokens.value_or(false);
  if (const auto* chat = std::get_if<ChatPrompt>(&prompt)) {
    if (!template_) {
      return BadRequest("messages", "This model has no chat template: use /v1/completions.");
    }
    const auto segments = template_->Render(chat->messages, chat->add_generation_prompt);
    if (!segments.ok()) {
      return BadRequest("messages",
                        absl::StrFormat("The model's chat template refuses this conversation: %s",
                                        std::string(segments.status().message())));
    }
    ids = tokenizer_.EncodeSegments(*segments);
  } else if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
    ids = tokenizer_.Encode(text->text);
    add_bos = add_special_tokens.value_or(true);
  } else {
    for (const int64_t id : std::get<IdsPrompt>(prompt).ids) {
      if (!IsToken(id)) {
        return BadRequest("prompt", absl::StrFormat("Token id %d is outside the vocabulary of %d.",
                                                    id, tokenizer_.vocab_size()));
      }
      ids.push_back(static_cast<int32_t>(id));
    }
  }
  if (add_bos && tokenizer_.add_bos() && tokenizer_.bos_id()) {
    ids.insert(ids.begin(), *tokenizer_.bos_id());
  }
  if (ids.empty()) return BadRequest(PromptField(prompt), "The prompt has no tokens.");
  return ids;
}

const char* PromptField(const Prompt& prompt) {
  return std::holds_alternative<ChatPrompt>(prompt) ? "messages" : "prompt";
}

}  // namespace anchorage::router
