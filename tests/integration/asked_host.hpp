// A program in a sandbox that asks for a host which no rule lists, and waits for a person.
#pragma once

#include <string>

#include "tests/support/api_client.hpp"
#include "tests/support/server_process.hpp"

namespace atl::test {

inline ServerOptions asking_server() {
    ServerOptions options;
    options.arguments = {"--egress-private", "127.0.0.1/32:9"};
    return options;
}

/// The conversation whose program asks, and the client that follows it.
struct AskedHost {
    explicit AskedHost(ApiClient& api)
        : conversation(api.call(201, "POST", "/v1/conversations",
                                R"({"network":{"mode":"egress","allow":[],"ask":true}})")["id"]),
          follower(api.connect()) {
        follower.open_stream("GET", route() + "/events", "", {{"Accept", "text/event-stream"}});
        ask(api);
    }
    std::string route() const { return "/v1/conversations/" + conversation; }
    /// Runs another turn, whose program asks for an address. Nothing listens there.
    void ask(ApiClient& api) {
        api.call(202, "POST", route() + "/messages",
                 R"({"content":"curl -s -o /dev/null -w 'status %{http_code}' --noproxy '' )"
                 R"(-x http://127.0.0.1:3128 http://127.0.0.1:9/"})");
        request = read_until(follower, "egress_request").back()["data"]["id"];
    }

    const std::string conversation;
    HttpClient follower;
    std::string request;  // the last one
};

}  // namespace atl::test
