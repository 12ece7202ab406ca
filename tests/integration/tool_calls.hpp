// Calls of the filesystem tools over HTTP, and what comes of them.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/support/api_client.hpp"

namespace atl::test {

/// The result of a call whose sandbox is not there.
inline const Json k_unavailable = Json::parse(R"({"success":false,"previewRefreshNeeded":false,
    "userFeedback":"This operation requires a sandbox environment. Please refresh and try again.",
    "technicalDetails":{"error":"Sandbox context missing - sandboxId is required","errorCode":"SANDBOX_UNAVAILABLE"}})");

inline Json body_of(const std::string& sandbox_id, const Json& arguments) {
    return {{"sandboxId", sandbox_id}, {"args", arguments}};
}

/// A call that has a result, whether the tool succeeded or not.
inline Json run(HttpClient& client, const std::string& name, const Json& body) {
    const HttpResponse answer = client.request("POST", "/v1/tools/" + name, body.dump());
    INFO(answer.body);
    REQUIRE(answer.status == 200);
    return Json::parse(answer.body);
}

/// The `data` of each frame.
inline std::vector<Json> frames(const std::string& stream) {
    std::vector<Json> found;
    for (std::size_t at = 0; (at = stream.find("data: ", at)) != std::string::npos;) {
        const std::size_t end = stream.find("\n\n", at);
        found.push_back(Json::parse(stream.substr(at + 6, end - at - 6)));
        at = end;
    }
    return found;
}

}  // namespace atl::test
