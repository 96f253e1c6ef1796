// Private to transport/: the parts of Asio that we use, and how its coroutines report errors.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace anchorage::transport {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// `auto [error, n] = co_await operation(..., kNoThrow)`.
inline constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

}  // namespace anchorage::transport
