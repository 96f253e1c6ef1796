#include "router/name_resolver.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "common/status.h"
#include "observe/host_port.h"

namespace anchorage::router {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::vector<std::string> AddressesOf(const tcp::resolver::results_type& found) {
  const bool any_v4 = std::any_of(found.begin(), found.end(), [](const auto& entry) {
    return entry.endpoint().address().is_v4();
  });
  std::vector<std::string> addresses;
  for (const auto& entry : found) {
    const tcp::endpoint endpoint = entry.endpoint();
    if (any_v4 && !endpoint.address().is_v4()) continue;
    addresses.push_back(
        observe::HostPort{endpoint.address().to_string(), endpoint.port()}.ToString());
  }
  return addresses;
}

absl::Status StatusOf(const error_code& error) {
  if (error == asio::error::host_not_found || error == asio::error::no_data) {
    return NotFound("%s", error.message());
  }
  return Unavailable("%s", error.message());
}

}  // namespace

struct NameResolver::State {
  explicit State(asio::io_context& io) : resolver(io) {}
  tcp::resolver resolver;
  bool gone = false;
};

NameResolver::NameResolver(asio::io_context& io) : state_(std::make_shared<State>(io)) {}

NameResolver::~NameResolver() {
  state_->gone = true;
  state_->resolver.cancel();
}

void NameResolver::Resolve(const std::string& name,
                           std::function<void(absl::StatusOr<std::vector<std::string>>)> done) {
  const auto deliver = [state = state_, done = std::move(done)](
                           const absl::StatusOr<std::vector<std::string>>& addresses) {
    if (!state->gone) done(addresses);
  };
  const absl::StatusOr<observe::HostPort> wanted = observe::ParseHostPort(name);
  if (!wanted.ok()) {
    asio::post(state_->resolver.get_executor(),
               [deliver, status = wanted.status()] { deliver(status); });
    return;
  }
  state_->resolver.async_resolve(
      wanted->host, std::to_string(wanted->port), tcp::resolver::numeric_service,
      [deliver](const error_code& error, const tcp::resolver::results_type& found) {
        if (error) return deliver(StatusOf(error));
        deliver(AddressesOf(found));
      });
}

}  // namespace anchorage::router
