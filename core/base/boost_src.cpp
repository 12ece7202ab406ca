// The one translation unit that compiles Asio, Beast and Process (their separate-compilation mode), and JSON.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
#include <boost/json/src.hpp>
#include <boost/process/v2/src.hpp>
