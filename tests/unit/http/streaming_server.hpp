// Routes whose bodies stream, in both directions, and a server with them.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/server/problem.hpp"
#include "http/wire/byte_range.hpp"
#include "http/wire/text.hpp"
#include "tests/unit/http/test_server.hpp"

namespace atl::test {

/// Gives what it reads from another source.
class Relay final : public http::BodySource {
  public:
    explicit Relay(http::BodySource& from) : from_(from) {}
    base::Task<base::Result<std::size_t>> async_read_some(std::span<char> room) override {
        return from_.async_read_some(room);
    }

  private:
    http::BodySource& from_;
};

/// The behaviour that a test gives a source.
struct SourceScript {
    std::string text;  // gives it in pieces of `step`
    std::size_t step = 10;
    enum class End : std::uint8_t { finish, fail, fail_by_exception } end = End::finish;
    std::size_t reads = 0;
    bool tells_end = false;
};

class ScriptedSource final : public http::BodySource {
  public:
    ScriptedSource(SourceScript& script, std::size_t offset, std::size_t length)
        : script_(script), left_(std::string_view(script.text).substr(offset, length)) {}
    base::Task<base::Result<std::size_t>> async_read_some(std::span<char> room) override {
        ++script_.reads;
        const auto count = std::min({room.size(), left_.size(), script_.step});
        if (count == 0 && script_.end == SourceScript::End::fail)
            co_return base::Error(base::Errc::sandbox_gone, "The sandbox went away.");
        if (count == 0 && script_.end == SourceScript::End::fail_by_exception)
            throw std::runtime_error("a defect with a secret");
        std::copy_n(left_.begin(), count, room.begin());
        left_.remove_prefix(count);
        co_return count;
    }
    bool is_at_end() const override { return script_.tells_end && left_.empty(); }

  private:
    SourceScript& script_;
    std::string_view left_;
};

/// Used on the loop only.
class StreamingRoutes {
  public:
    /// They refer to this object.
    std::vector<http::Route> routes() {
        using http::Method;
        std::vector<http::Route> all;
        all.push_back({Method::post, "/echo", "echo", "", async_echo});
        all.push_back({Method::post, "/count", "count", "", bind(async_count)});
        all.push_back({Method::post, "/hold", "hold", "", bind(async_hold)});
        all.push_back({Method::post, "/until", "until", "", bind(async_until)});
        all.push_back({Method::post, "/ignore", "ignore", "", async_ignore});
        all.push_back({Method::post, "/first", "first", "", async_first_byte});
        for (auto& route : all)
            route.body = http::BodyKind::stream;
        all.push_back({Method::get, "/scripted", "scripted", "", bind(async_scripted)});
        all.push_back({Method::get, "/file", "file", "", bind(async_file)});
        return all;
    }

    SourceScript script;                                  // of GET /scripted
    std::optional<std::uint64_t> promised;                // its length
    std::function<void(base::Result<std::string>)> held;  // of POST /hold
    std::vector<base::Error> failures;                    // of reads by POST /count, /hold and /until
    bool is_over = false;                                 // nobody wants the rest of POST /until
    std::function<void()> wake;                           // of its connection
    int begun = 0;                                        // handlers of /count

  private:
    using Answer = base::Task<base::Result<http::Response>>;

    static Answer async_echo(http::RequestContext& context) {
        http::Response response;
        response.content_type = "application/octet-stream";
        response.length = http::parse_decimal(context.request.header("Content-Length"));
        response.source = std::make_unique<Relay>(*context.body);
        co_return response;
    }
    static Answer async_count(StreamingRoutes& self, http::RequestContext& context) {
        ++self.begun;
        std::string room(8192, '\0');
        std::uint64_t total = 0;
        for (;;) {
            const std::span<char> view(room);
            const auto count = co_await context.body->async_read_some(view);
            if (count.has_error()) {
                self.failures.push_back(count.error());
                const auto again = co_await context.body->async_read_some(view);
                self.failures.push_back(again.error());
                co_return count.error();
            }
            if (*count == 0)
                break;
            total += *count;
        }
        co_return http::json_response(std::to_string(total));
    }
    static Answer async_hold(StreamingRoutes& self, http::RequestContext& context) {
        auto start = [&](std::function<void(base::Result<std::string>)> given) {
            self.held = std::move(given);
        };
        auto text = co_await context.async_reply<std::string>(start);
        if (text.has_error())
            co_return text.error();
        co_return co_await async_count(self, context);
    }
    static Answer async_until(StreamingRoutes& self, http::RequestContext& context) {
        context.body->give_up_if([&self] { return self.is_over; });
        self.wake = context.waker();
        co_return co_await async_count(self, context);
    }
    static Answer async_ignore(http::RequestContext&) { co_return http::json_response(R"("ignored")"); }
    static Answer async_first_byte(http::RequestContext& context) {
        char byte = 0;
        const std::span<char> room(&byte, 1);
        const auto count = co_await context.body->async_read_some(room);
        if (count.has_error())
            co_return count.error();
        co_return http::json_response(std::to_string(*count));
    }
    static Answer async_scripted(StreamingRoutes& self, http::RequestContext&) {
        http::Response response;
        response.content_type = "application/octet-stream";
        response.length = self.promised;
        response.source = std::make_unique<ScriptedSource>(self.script, 0, self.script.text.size());
        co_return response;
    }
    static Answer async_file(StreamingRoutes& self, http::RequestContext& context) {
        constexpr std::string_view k_etag = "\"v1\"";
        const auto size = self.script.text.size();
        const auto range = http::choose_range(context.request, size, k_etag);
        const bool is_there = range.kind != http::ByteRange::Kind::unsatisfiable;
        http::Response response;
        if (!is_there)
            response =
                http::problem(base::Error(base::Errc::range_not_satisfiable, "No."), context.request_id);
        else
            response.content_type = "application/octet-stream";
        response.headers.emplace_back("ETag", std::string(k_etag));
        http::set_range(response, range, size);
        if (range.length > 0)
            response.source = std::make_unique<ScriptedSource>(self.script, range.offset, range.length);
        co_return response;
    }

    http::Handler bind(Answer (*handler)(StreamingRoutes&, http::RequestContext&)) {
        return [this, handler](http::RequestContext& context) { return handler(*this, context); };
    }
};

class StreamingServer final : public ServerThread, public StreamingRoutes {
  public:
    explicit StreamingServer(TestSettings settings = {}) {
        start(std::move(settings), http::Router(routes()), "127.0.0.1:0");
    }
    ~StreamingServer() { finish(); }

    /// Lets the handler of POST /hold go on. Once it waits.
    void let_go() {
        REQUIRE(eventually([&] { return static_cast<bool>(held); }));
        on_loop([&] { held(std::string()); });
    }
};

}  // namespace atl::test
