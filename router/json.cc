#include "router/json.h"

#include <vector>

#include "common/status.h"

namespace anchorage::router {
namespace {

constexpr int kOutOfRange = 406;  // nlohmann's id of a number that no double can hold

// Builds the value while it is read, and stops at the first thing that is not allowed.
class StrictBuilder : public nlohmann::json_sax<ParsedJson> {
 public:
  explicit StrictBuilder(ParsedJson& root) : root_(root) {}
  const absl::Status& status() const { return status_; }

  bool null() override { return Place(ParsedJson()) != nullptr; }
  bool boolean(bool value) override { return Place(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return Place(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return Place(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return Place(value) != nullptr;
  }
  bool string(string_t& value) override { return Place(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return Fail(Invalid("binary values are not JSON")); }
  bool start_object(size_t) override { return Open(ParsedJson::object()); }
  bool start_array(size_t) override { return Open(ParsedJson::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      return Fail(Invalid("the key '%s' stands twice in one object", name.substr(0, 64)));
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&,
                   const ParsedJson::exception& error) override {
    if (error.id == kOutOfRange) return Fail(Invalid("a number is too large at byte %d", position));
    return Fail(Invalid("a syntax error or invalid UTF-8 at byte %d", position));
  }

 private:
  bool Fail(absl::Status status) {
    status_ = std::move(status);
    return false;
  }
  ParsedJson* Place(ParsedJson value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    ParsedJson& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[std::move(key_)] = std::move(value));
  }
  bool Open(ParsedJson container) {
    if (open_.size() >= kMaxJsonDepth) {
      return Fail(Invalid("nesting deeper than %d", kMaxJsonDepth));
    }
    open_.push_back(Place(std::move(container)));
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  ParsedJson& root_;
  // The containers being read. A parent gets no further element while a child is open, so these
  // pointers stay valid.
  std::vector<ParsedJson*> open_;
  std::string key_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<ParsedJson> ParseJson(std::string_view text) {
  // The parser would take a NUL byte for the end of the text.
  if (text.find('\0') != std::string_view::npos) return Invalid("a NUL byte in the text");
  ParsedJson root;
  StrictBuilder builder(root);
  if (!ParsedJson::sax_parse(text.begin(), text.end(), &builder)) {
    if (builder.status().ok()) return Invalid("not JSON");
    return builder.status();
  }
  return root;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace anchorage::router
