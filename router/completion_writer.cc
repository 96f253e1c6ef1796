#include "router/completion_writer.h"

#include <utility>

namespace anchorage::router {
namespace {

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

const char* FinishName(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

Json NameOrNull(const char* name) { return name == nullptr ? Json() : Json(name); }

}  // namespace

CompletionWriter::CompletionWriter(Endpoint endpoint, std::string id, int64_t created,
                                   std::string model, WriterOptions options)
    : endpoint_(endpoint),
      id_(std::move(id)),
      created_(created),
      model_(std::move(model)),
      options_(std::move(options)) {}

Json CompletionWriter::Head(bool chunk) const {
  const char* object = "text_completion";
  if (endpoint_ == Endpoint::kChat) object = chunk ? "chat.completion.chunk" : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

// A chunk's only choice. A chat chunk with a finish reason has an empty delta.
Json CompletionWriter::Choice(std::span<const int32_t> ids, std::string_view text,
                              const char* finish_reason) const {
  Json choice = {{"index", 0}};
  if (endpoint_ == Endpoint::kCompletions) {
    choice["text"] = text;
  } else if (finish_reason != nullptr) {
    choice["delta"] = Json::object();
  } else {
    choice["delta"] = {{"content", text}};
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = NameOrNull(finish_reason);
  if (options_.prompt_ids) choice["token_ids"] = ids;
  return choice;
}

// The choice must be there already.
void CompletionWriter::AddPromptIds(Json& body) const {
  if (!options_.prompt_ids) return;
  Json& holder = endpoint_ == Endpoint::kChat ? body : body["choices"][0];
  holder["prompt_token_ids"] = *options_.prompt_ids;
}

std::string CompletionWriter::Begin() const {
  const bool is_chat = endpoint_ == Endpoint::kChat;
  if (!is_chat && !options_.prompt_ids) return "";
  Json chunk = Head(/*chunk=*/true);
  Json choice = Choice({}, "", nullptr);
  if (is_chat) choice["delta"] = {{"role", "assistant"}, {"content", ""}};
  chunk["choices"] = Json::array({std::move(choice)});
  AddPromptIds(chunk);
  return Event(Dump(chunk));
}

std::string CompletionWriter::Tokens(std::span<const int32_t> ids, std::string_view text) const {
  if (text.empty() && (ids.empty() || !options_.prompt_ids)) return "";
  Json chunk = Head(/*chunk=*/true);
  chunk["choices"] = Json::array({Choice(ids, text, nullptr)});
  return Event(Dump(chunk));
}

std::string CompletionWriter::End(FinishReason reason, const Usage& usage) const {
  Json chunk = Head(/*chunk=*/true);
  chunk["choices"] = Json::array({Choice({}, "", FinishName(reason))});
  std::string events = Event(Dump(chunk));
  if (options_.include_usage) {
    Json last = Head(/*chunk=*/true);
    last["choices"] = Json::array();
    last["usage"] = UsageJson(usage);
    events += Event(Dump(last));
  }
  return events + Event("[DONE]");
}

std::string CompletionWriter::Error(const ApiError& error) { return Event(ErrorBody(error)); }

std::string CompletionWriter::KeepAlive() { return ": keep-alive\n\n"; }

std::string CompletionWriter::Whole(std::span<const int32_t> ids, std::string_view text,
                                    FinishReason reason, const Usage& usage) const {
  Json body = Head(/*chunk=*/false);
  Json choice = {{"index", 0}};
  if (endpoint_ == Endpoint::kChat) {
    choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = FinishName(reason);
  if (options_.prompt_ids) choice["token_ids"] = ids;
  body["choices"] = Json::array({std::move(choice)});
  AddPromptIds(body);
  body["usage"] = UsageJson(usage);
  return Dump(body);
}

}  // namespace anchorage::router
