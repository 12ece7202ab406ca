// How descriptors are shared out between clients and sandboxes.
#include "app/descriptors.hpp"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <sstream>
#include <string>

#include "core/base/limits.hpp"

namespace app_descriptors_test {

using atl::app::share_descriptors;

TEST_CASE("descriptors: connections have five eighths at most, and sandboxes what that leaves") {
    const auto wide = share_descriptors(1'048'576, {16'384, 4096});
    CHECK(wide.connections == 16'384);
    CHECK(wide.sandboxes == 4096);
    const auto narrow = share_descriptors(4096, {16'384, 4096});
    CHECK(narrow.connections == 2560);
    CHECK(narrow.sandboxes ==
          (4096 - 2560 - atl::base::k_own_descriptors) / atl::base::k_descriptors_per_sandbox);
    CHECK(share_descriptors(1'048'576, {16'384, 7}).sandboxes == 7);
    CHECK(share_descriptors(256, {16'384, 4096}).sandboxes == 0);
    CHECK(share_descriptors(0, {16'384, 4096}).sandboxes == 0);
}

TEST_CASE("descriptors: too few for what was asked bound the sandboxes, too few for one are an error") {
    using atl::app::bound_sandboxes;
    CHECK(bound_sandboxes(1'048'576, 7).value().sandboxes == 7);
    CHECK(bound_sandboxes(4096, 4096).value().sandboxes < 4096);
    const auto refused = bound_sandboxes(256, 10);
    REQUIRE(refused.has_error());
    CHECK(refused.error().code() == atl::base::Errc::host_unsupported);
    CHECK(refused.error().detail().find("256 descriptors") != std::string::npos);
    CHECK(atl::app::raise_descriptor_limit() > 0);
}

TEST_CASE("descriptors: fewer sandboxes are a warning only where their number was asked for") {
    const auto log_of = [](std::size_t max_sandboxes, spdlog::level::level_enum level) {
        std::ostringstream lines;
        const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines);
        sink->set_level(level);
        auto& sinks = spdlog::default_logger()->sinks();
        sinks.push_back(sink);
        CHECK(atl::app::bound_sandboxes(4096, max_sandboxes).value().sandboxes < max_sandboxes);
        sinks.pop_back();
        return lines.str();
    };
    constexpr std::size_t k_default = atl::base::k_default_max_sandboxes;
    CHECK(log_of(k_default, spdlog::level::warn) == "");
    const std::string told = log_of(k_default, spdlog::level::info);
    CHECK(told.find("evt=sandboxes_bounded max=") != std::string::npos);
    CHECK(log_of(k_default + 1, spdlog::level::warn).find("asked=" + std::to_string(k_default + 1)) !=
          std::string::npos);
}

}  // namespace app_descriptors_test
