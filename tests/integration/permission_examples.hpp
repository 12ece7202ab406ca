// The answer to a permission, performed for the examples of the OpenAPI document on a server with an agent
// that asks.
#pragma once

#include <fstream>
#include <string>

#include "tests/integration/example_recorder.hpp"
#include "tests/support/api_client.hpp"

namespace atl::test {

inline void perform_permission(ExampleRecorder& recorder) {
    const std::string script = R"(echo '{"ev":"ready"}'
while read -r line; do
  case $line in
    '{"cmd":"query"'*) echo '{"ev":"permission_request","data":{"id":"p1","toolUseId":"","options":[{"optionId":"yes","name":"Yes","kind":"allow_once"}]}}' ;;
    '{"cmd":"permission"'*) echo '{"ev":"done"}' ;;
    '{"cmd":"shutdown"'*) exit ;;
  esac
done
)";
    const TempDir folder;
    const Json agents{{"agents", {{{"name", "asker"}, {"argv", {"bash", "-c", script}}}}}};
    std::ofstream(folder.path() / "agents.json") << agents.dump();
    ServerOptions options;
    options.arguments = {"--agents-file", (folder.path() / "agents.json").string()};
    const ServerProcess asking(options);
    ApiClient there(asking);
    const std::string mine = there.create({{"agent", "asker"}})["id"];
    HttpClient client = there.connect();
    client.open_stream("POST", "/v1/conversations/" + mine + "/messages", R"({"content":"go"})",
                       {{"Accept", "text/event-stream"}});
    read_until(client, "permission_request");
    HttpClient other = there.connect();
    recorder.call(other, "answerPermission", {{"id", mine}, {"permissionId", "p1"}}, {{"optionId", "yes"}},
                  {});
    read_until(client, "done");
}

}  // namespace atl::test
