// The lines of the log about requests that are relayed.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch_test_macros.hpp>
#include <sstream>

#include "tests/unit/http/proxy_lab.hpp"

namespace proxy_log_test {

using namespace atl;
using namespace atl::test;

TEST_CASE("proxy: what a dev server refuses fills no log, what this server refuses is told") {
    std::ostringstream text;
    const auto before = spdlog::default_logger();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    {
        ProxyLab lab;
        const Asked asked(lab);
        lab.send(lab.upstream(), "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        CHECK(lab.take(*asked.client).starts_with("HTTP/1.1 404 "));
        lab.previews.port->is_closed = true;
        const auto client = lab.connect();
        lab.send(*client, k_get);
        CHECK(lab.take(*client).starts_with("HTTP/1.1 502 "));
    }
    spdlog::set_default_logger(before);
    CHECK_FALSE(has(text.str(), "status=404"));
    CHECK(has(text.str(), "status=502"));
}

}  // namespace proxy_log_test
