// asio::as_tuple under one name: it left `experimental` after the version Debian 12 has.
#pragma once

#if __has_include(<asio/as_tuple.hpp>)
#include <asio/as_tuple.hpp>
namespace mzcache::tools {
using asio::as_tuple;
}
#else
#include <asio/experimental/as_tuple.hpp>
namespace mzcache::tools {
using asio::experimental::as_tuple;
}
#endif
