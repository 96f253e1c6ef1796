// Judges what stands in a request's headers. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace anchorage::router {

// The client's own x-request-id if it is fit for logs and headers (1 to 128 visible ASCII
// characters), else a new one.
std::string RequestIdOf(std::string_view header);

// The trace id of a W3C `traceparent` (Trace Context, level 2): 32 lowercase hex digits. "" where
// the header is missing or not valid, which the standard says to ignore.
std::string TraceIdOf(std::string_view traceparent);

// Whether a Content-Type is one of JSON.
bool IsJson(std::string_view content_type);

// Whether an Authorization is "Bearer <key>". Takes a time that depends on the lengths alone.
bool HasBearer(std::string_view authorization, std::string_view key);

}  // namespace anchorage::router
