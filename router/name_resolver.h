// Resolves host names in the background.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace boost::asio {
class io_context;
}

namespace anchorage::router {

class NameResolver {
 public:
  explicit NameResolver(boost::asio::io_context& io);
  ~NameResolver();  // gives up what is being resolved: its `done` is not called

  // Every address of "host:port", as "ip:port", numbers as they are. Where a name has addresses of
  // both kinds, only the IPv4 ones: a machine with two addresses is one machine. NotFound: it has
  // none. Unavailable: the name server did not answer. InvalidArgument: not "host:port". `done` is
  // called on the io thread, never from inside this call.
  void Resolve(const std::string& name,
               std::function<void(absl::StatusOr<std::vector<std::string>>)> done);

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace anchorage::router
