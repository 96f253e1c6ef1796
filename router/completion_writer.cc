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
                                   std::string model, bool include_usage)
    : endpoint_(endpoint),
      id_(std::move(id)),
      created_(created),
      model_(std::move(model)),
      include_usage_(include_usage) {}

Json CompletionWriter::Head(bool chunk) const {
  const char* object = "text_completion";
  if (endpoint_ == Endpoint::kChat) object = chunk ? "chat.completion.chunk" : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

// A chunk's only choice. A chat chunk with a finish reason has an empty delta.
Json CompletionWriter::Choice(std::string_view text, const char* finish_reason) const {
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
  return choice;
}

std::string CompletionWriter::Begin() const {
  if (endpoint_ == Endpoint::kCompletions) return "";
  Json chunk = Head(/*chunk=*/true);
  Json choice = Choice("", nullptr);
  choice["delta"] = {{"role", "assistant"}, {"content", ""}};
  chunk["choices"] = Json::array({std::move(choice)});
  return Event(Dump(chunk));
}

std::string CompletionWriter::Text(std::string_view text) const {
  if (text.empty()) return "";
  Json chunk = Head(/*chunk=*/true);
  chunk["choices"] = Json::array({Choice(text, nullptr)});
  return Event(Dump(chunk));
}

std::string CompletionWriter::End(FinishReason reason, const Usage& usage) const {
  Json chunk = Head(/*chunk=*/true);
  chunk["choices"] = Json::array({Choice("", FinishName(reason))});
  std::string events = Event(Dump(chunk));
  if (include_usage_) {
    Json last = Head(/*chunk=*/true);
    last["choices"] = Json::array();
    last["usage"] = UsageJson(usage);
    events += Event(Dump(last));
  }
  return events + Event("[DONE]");
}

std::string CompletionWriter::Error(const ApiError& error) { return Event(ErrorBody(error)); }

std::string CompletionWriter::KeepAlive() { return ": keep-alive\n\n"; }

std::string CompletionWriter::Whole(std::string_view text, FinishReason reason,
                                    const Usage& usage) const {
  Json body = Head(/*chunk=*/false);
  Json choice = {{"index", 0}};
  if (endpoint_ == Endpoint::kChat) {
    choice["message"] = {{"role", "assistant"}, {"content", text}, {"refusal", nullptr}};
  } else {
    choice["text"] = text;
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = FinishName(reason);
  body["choices"] = Json::array({std::move(choice)});
  body["usage"] = UsageJson(usage);
  return Dump(body);
}

}  // namespace anchorage::router
