// Coroutines of the reactor: one concrete executor type and the Task alias.
// Mind GCC 12 (README.md of this folder): name every argument of a co_await that owns something.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>

namespace atl::base {

namespace asio = boost::asio;

using Executor = asio::io_context::executor_type;

template <class T = void>
using Task = asio::awaitable<T, Executor>;

}  // namespace atl::base
