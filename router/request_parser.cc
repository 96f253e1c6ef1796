#include "router/request_parser.h"

#include <charconv>
#include <limits>

#include "router/field_reader.h"
#include "router/json.h"

namespace anchorage::router {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
constexpr int64_t kMinInt = std::numeric_limits<int64_t>::min();
constexpr size_t kMaxStops = 64;
constexpr size_t kMaxStopBytes = 4096;
constexpr size_t kMaxMessages = 65'536;
constexpr size_t kMaxBiases = 1024;
constexpr size_t kMaxStopIds = 256;

ApiResult<ParsedJson> ParseBody(std::string_view body) {
  absl::StatusOr<ParsedJson> parsed = ParseJson(body);
  if (!parsed.ok()) {
    return BadRequest("", absl::StrFormat("We could not parse the JSON body of your request: %s.",
                                          std::string(parsed.status().message())));
  }
  if (!parsed->is_object()) return BadRequest("", "The request body must be a JSON object.");
  return *std::move(parsed);
}

// Fields of the API for features that are not served. Each is accepted while it asks for nothing.
void RefuseUnserved(Endpoint endpoint, FieldReader& fields) {
  const auto refuse = [&](const char* name) {
    fields.Fail(name, absl::StrFormat("'%s' is not supported by this server.", name));
  };
  const auto asks_for_nothing = [](const ParsedJson& value) {
    return value.is_boolean() ? !value.get<bool>() : (value.empty() || value == "");
  };
  for (const char* name : {"tools",
                           "functions",
                           "function_call",
                           "audio",
                           "prediction",
                           "web_search_options",
                           "echo",
                           "suffix",
                           "use_beam_search",
                           "prompt_logprobs",
                           "chat_template",
                           "chat_template_kwargs",
                           "continue_final_message",
                           "truncate_prompt_tokens",
                           "include_stop_str_in_output",
                           "guided_json",
                           "guided_regex",
                           "guided_choice",
                           "guided_grammar",
                           "structured_outputs",
                           "prompt_embeds",
                           "documents",
                           "mm_processor_kwargs",
                           "bad_words",
                           "allowed_token_ids"}) {
    if (const ParsedJson* value = fields.Find(name)) {
      if (!asks_for_nothing(*value)) refuse(name);
    }
  }
  for (const char* name : {"n", "best_of"}) {
    const auto count = fields.Int(name, 1, kMaxInt);
    if (count && *count != 1) {
      fields.Fail(name, absl::StrFormat("'%s' must be 1: this server makes one choice.", name));
    }
  }
  if (const ParsedJson* choice = fields.Find("tool_choice")) {
    if (*choice != "none" && *choice != "auto") refuse("tool_choice");
  }
  if (const ParsedJson* format = fields.Find("response_format")) {
    if (!format->is_object() || format->value("type", ParsedJson()) != "text") {
      fields.Fail("response_format",
                  "'response_format' must be {\"type\": \"text\"}: structured "
                  "output is not supported by this server.");
    }
  }
  if (const ParsedJson* modalities = fields.Find("modalities")) {
    if (*modalities != ParsedJson::array({"text"})) refuse("modalities");
  }
  // In the older endpoint logprobs is a number, and 0 asks for the chosen token's.
  if (const ParsedJson* logprobs = fields.Find("logprobs")) {
    if (endpoint == Endpoint::kCompletions || *logprobs != false) refuse("logprobs");
  }
  if (fields.Int("top_logprobs", 0, 20).value_or(0) != 0) refuse("top_logprobs");
}

std::vector<std::string> ReadStops(FieldReader& fields) {
  std::vector<std::string> stops;
  const ParsedJson* value = fields.Find("stop");
  if (value == nullptr) return stops;
  const auto fail = [&] {
    fields.Fail("stop", absl::StrFormat("'stop' must be a string or a list of at most %d strings "
                                        "of at most %d bytes.",
                                        kMaxStops, kMaxStopBytes));
  };
  const auto add = [&](const ParsedJson& item) {
    if (!item.is_string()) return fail();
    std::string stop = item.get<std::string>();
    if (stop.size() > kMaxStopBytes) return fail();
    if (!stop.empty()) stops.push_back(std::move(stop));  // an empty one stops nowhere
  };
  if (!value->is_array()) {
    add(*value);
  } else if (value->size() > kMaxStops) {
    fail();
  } else {
    for (const ParsedJson& item : *value) add(item);
  }
  return stops;
}

std::map<int64_t, double> ReadLogitBias(FieldReader& fields) {
  std::map<int64_t, double> biases;
  const ParsedJson* value = fields.Find("logit_bias");
  if (value == nullptr) return biases;
  const auto fail = [&] {
    fields.Fail("logit_bias", absl::StrFormat("'logit_bias' must map at most %d token ids to "
                                              "numbers from -100 to 100.",
                                              kMaxBiases));
  };
  if (!value->is_object() || value->size() > kMaxBiases) {
    fail();
    return biases;
  }
  for (const auto& [key, bias] : value->items()) {
    int64_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool is_id = error == std::errc() && end == key.data() + key.size() && id >= 0;
    if (!is_id || !bias.is_number() || !(std::abs(bias.get<double>()) <= 100)) {
      fail();
      return {};
    }
    biases[id] = bias.get<double>();
  }
  return biases;
}

// A list of token ids, which the vocabulary has yet to judge.
std::optional<std::vector<int64_t>> ReadIds(const ParsedJson& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<int64_t> ids;
  for (const ParsedJson& item : value) {
    const std::optional<int64_t> id = AsInt(item);
    if (!id || *id < 0) return std::nullopt;
    ids.push_back(*id);
  }
  return ids;
}

SamplingRequest ReadSampling(FieldReader& fields) {
  SamplingRequest sampling;
  sampling.temperature = fields.Number("temperature", 0, 2).value_or(1);
  sampling.top_p = fields.Number("top_p", 0, 1).value_or(1);
  if (sampling.top_p == 0) fields.Fail("top_p", "'top_p' must be above 0 and at most 1.");
  sampling.top_k = std::max<int64_t>(0, fields.Int("top_k", -1, INT32_MAX).value_or(0));
  sampling.min_p = fields.Number("min_p", 0, 1).value_or(0);
  sampling.repetition_penalty = fields.Number("repetition_penalty", 0.01, 10).value_or(1);
  sampling.presence_penalty = fields.Number("presence_penalty", -2, 2).value_or(0);
  sampling.frequency_penalty = fields.Number("frequency_penalty", -2, 2).value_or(0);
  sampling.logit_bias = ReadLogitBias(fields);
  sampling.seed = fields.Int("seed", kMinInt, kMaxInt);
  sampling.min_tokens = fields.Int("min_tokens", 0, INT32_MAX).value_or(0);
  sampling.ignore_eos = fields.Bool("ignore_eos").value_or(false);
  if (const ParsedJson* value = fields.Find("stop_token_ids")) {
    auto ids = ReadIds(*value);
    if (!ids || ids->size() > kMaxStopIds) {
      fields.Fail(
          "stop_token_ids",
          absl::StrFormat("'stop_token_ids' must be a list of at most %d token ids.", kMaxStopIds));
    } else {
      sampling.stop_token_ids = *std::move(ids);
    }
  }
  return sampling;
}

// The text of a message: a string, or a list of {"type": "text", "text": ...}.
std::string ReadContent(const ParsedJson& message, const std::string& path, FieldReader& fields) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    fields.Fail(path + ".content", absl::StrFormat("'%s.content' is missing.", path));
    return "";
  }
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  if (content->is_array()) {
    for (size_t i = 0; i < content->size(); ++i) {
      const ParsedJson& part = (*content)[i];
      const std::string part_path = absl::StrFormat("%s.content[%d]", path, i);
      if (!part.is_object() || !part.contains("type") || part["type"] != "text") {
        fields.Fail(part_path + ".type",
                    absl::StrFormat("'%s' must be a part of type \"text\": this server takes no "
                                    "other.",
                                    part_path));
        return "";
      }
      if (!part.contains("text") || !part["text"].is_string()) {
        fields.Fail(part_path + ".text", absl::StrFormat("'%s.text' must be a string.", part_path));
        return "";
      }
      text += part["text"].get<std::string>();
    }
    return text;
  }
  fields.Fail(path + ".content",
              absl::StrFormat("'%s.content' must be a string or a list of text parts.", path));
  return "";
}

text::ChatMessage ReadMessage(const ParsedJson& message, const std::string& path,
                              FieldReader& fields) {
  if (!message.is_object()) {
    fields.Fail(path, absl::StrFormat("'%s' must be an object.", path));
    return {};
  }
  const auto role = message.find("role");
  const bool known = role != message.end() && (*role == "system" || *role == "developer" ||
                                               *role == "user" || *role == "assistant");
  if (!known) {
    fields.Fail(path + ".role",
                absl::StrFormat("'%s.role' must be system, developer, user or assistant.", path));
    return {};
  }
  for (const char* name : {"tool_calls", "function_call", "audio"}) {
    const auto value = message.find(name);
    if (value != message.end() && !value->empty()) {
      fields.Fail(absl::StrFormat("%s.%s", path, name),
                  absl::StrFormat("'%s.%s' is not supported by this server.", path, name));
      return {};
    }
  }
  // "developer" is the newer name of "system", and templates know only the latter.
  return {*role == "developer" ? "system" : role->get<std::string>(),
          ReadContent(message, path, fields)};
}

ChatPrompt ReadMessages(FieldReader& fields) {
  ChatPrompt prompt;
  const ParsedJson* messages = fields.Find("messages");
  if (messages == nullptr || !messages->is_array() || messages->empty() ||
      messages->size() > kMaxMessages) {
    fields.Fail("messages",
                absl::StrFormat("'messages' must be a list of 1 to %d messages.", kMaxMessages));
    return prompt;
  }
  for (size_t i = 0; i < messages->size() && fields.ok(); ++i) {
    prompt.messages.push_back(
        ReadMessage((*messages)[i], absl::StrFormat("messages[%d]", i), fields));
  }
  prompt.add_generation_prompt = fields.Bool("add_generation_prompt").value_or(true);
  return prompt;
}

std::variant<ChatPrompt, TextPrompt, IdsPrompt> ReadPrompt(FieldReader& fields) {
  const ParsedJson* prompt = fields.Find("prompt");
  if (prompt != nullptr && prompt->is_array() && prompt->size() == 1 &&
      ((*prompt)[0].is_string() || (*prompt)[0].is_array())) {
    prompt = &(*prompt)[0];  // a list of one prompt
  }
  if (prompt != nullptr && prompt->is_string()) return TextPrompt{prompt->get<std::string>()};
  if (prompt != nullptr && prompt->is_array() && !prompt->empty()) {
    if ((*prompt)[0].is_string() || (*prompt)[0].is_array()) {
      fields.Fail("prompt", "'prompt' must be one prompt: this server takes no batches.");
      return TextPrompt();
    }
    if (auto ids = ReadIds(*prompt)) return IdsPrompt{*std::move(ids)};
  }
  fields.Fail("prompt", "'prompt' must be a string or a list of token ids that is not empty.");
  return TextPrompt();
}

}  // namespace

ApiResult<CompletionRequest> ParseCompletionRequest(Endpoint endpoint, std::string_view body) {
  const ApiResult<ParsedJson> parsed = ParseBody(body);
  if (!parsed.ok()) return parsed.error();
  FieldReader fields(*parsed);
  CompletionRequest request;
  request.endpoint = endpoint;
  request.model = fields.String("model").value_or("");
  if (endpoint == Endpoint::kChat) {
    request.prompt = ReadMessages(fields);
  } else {
    request.prompt = ReadPrompt(fields);
  }
  RefuseUnserved(endpoint, fields);
  request.add_special_tokens = fields.Bool("add_special_tokens");
  request.sampling = ReadSampling(fields);
  request.max_tokens = fields.Int("max_tokens", 1, kMaxInt);
  if (const auto newer_name = fields.Int("max_completion_tokens", 1, kMaxInt)) {
    request.max_tokens = newer_name;
  }
  request.stop = ReadStops(fields);
  request.stream = fields.Bool("stream").value_or(false);
  request.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  request.skip_special_tokens = fields.Bool("skip_special_tokens").value_or(true);
  if (const ParsedJson* options = fields.Find("stream_options")) {
    if (!options->is_object()) {
      fields.Fail("stream_options", "'stream_options' must be an object.");
    } else if (!request.stream) {
      fields.Fail("stream_options", "'stream_options' is only allowed when 'stream' is true.");
    } else {
      FieldReader inner(*options);
      request.include_usage = inner.Bool("include_usage").value_or(false);
      if (!inner.ok()) {
        fields.Fail("stream_options.include_usage",
                    "'stream_options.include_usage' must be true or false.");
      }
    }
  }
  if (!fields.ok()) return fields.error();
  return request;
}

ApiResult<TokenizeRequest> ParseTokenizeRequest(std::string_view body) {
  const ApiResult<ParsedJson> parsed = ParseBody(body);
  if (!parsed.ok()) return parsed.error();
  FieldReader fields(*parsed);
  TokenizeRequest request;
  request.model = fields.String("model").value_or("");
  request.add_special_tokens = fields.Bool("add_special_tokens");
  if (const auto other_name = fields.Bool("add_special")) request.add_special_tokens = other_name;
  if (fields.Find("messages") != nullptr) {
    request.prompt = ReadMessages(fields);
  } else if (auto text = fields.String(fields.Find("prompt") != nullptr ? "prompt" : "content")) {
    request.prompt = TextPrompt{*std::move(text)};
  } else {
    fields.Fail("prompt", "'prompt' must be a string, or 'messages' a list.");
  }
  if (!fields.ok()) return fields.error();
  return request;
}

ApiResult<DetokenizeRequest> ParseDetokenizeRequest(std::string_view body) {
  const ApiResult<ParsedJson> parsed = ParseBody(body);
  if (!parsed.ok()) return parsed.error();
  FieldReader fields(*parsed);
  DetokenizeRequest request;
  request.model = fields.String("model").value_or("");
  const ParsedJson* tokens = fields.Find("tokens");
  auto ids = tokens == nullptr ? std::nullopt : ReadIds(*tokens);
  if (!ids) fields.Fail("tokens", "'tokens' must be a list of token ids.");
  if (!fields.ok()) return fields.error();
  request.ids = *std::move(ids);
  return request;
}

}  // namespace anchorage::router
