#include "http/api/openapi.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "core/conversation/types.hpp"
#include "core/sandbox/types.hpp"
#include "http/wire/json_reader.hpp"
#include "tests/support/paths.hpp"

namespace openapi_test {

using namespace atl::http;

namespace {

atl::base::Task<atl::base::Result<Response>> async_nothing(RequestContext&) {
    co_return Response{};
}

Json document() {
    std::vector<Route> routes;
    routes.push_back({Method::get, "/", "root", "", async_nothing});
    routes.push_back({Method::put, "/boxes/{id}/files/{path...}", "write", "", async_nothing});
    routes.back().body = BodyKind::stream;
    routes.push_back({Method::post, "/boxes", "make", "", async_nothing});
    routes.back().body = BodyKind::optional_json;
    routes.back().request_schema = "OpenApi";
    return parse_json(openapi_document(routes, "1").dump()).value();
}

std::string told(const Json& document, const Json& operation, const char* status) {
    const Json& response = operation["responses"][status];
    const Json& found = response.contains("$ref")
                            ? document.at(Json::json_pointer(response["$ref"].get<std::string>().substr(1)))
                            : response;
    return found["description"];
}

}  // namespace

TEST_CASE("a parameter that spans segments is told as a plain one with a description") {
    const auto paths = document()["paths"];
    REQUIRE(paths.contains("/boxes/{id}/files/{path}"));
    const auto& parameters = paths["/boxes/{id}/files/{path}"]["put"]["parameters"];
    REQUIRE(parameters.size() == 2);
    CHECK_FALSE(parameters[0].contains("description"));
    CHECK(parameters[1]["name"] == "path");
    CHECK(parameters[1]["in"] == "path");
    CHECK(parameters[1]["required"] == true);
    CHECK(parameters[1]["description"].get<std::string>().find("slashes") != std::string::npos);
    CHECK(paths.contains("/"));
}

TEST_CASE("a body that streams is told as bytes, and gives no error of JSON") {
    const auto all = document();
    const auto& paths = all["paths"];
    const auto& write = paths["/boxes/{id}/files/{path}"]["put"];
    CHECK(write["requestBody"]["content"].contains("application/octet-stream"));
    CHECK(told(all, write, "400").find("invalid_json") == std::string::npos);
    const auto& make = paths["/boxes"]["post"];
    CHECK(make["requestBody"]["required"] == false);
    CHECK(told(all, make, "400").find("invalid_json") != std::string::npos);
}

TEST_CASE("each type of event has a schema of its own, and a row in docs/events.md") {
    const auto schemas = component_schemas();
    std::ifstream file(atl::test::source_path("docs/events.md"));
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    const auto last = static_cast<int>(atl::conversation::k_last_event_type);
    CHECK(schemas["Event"]["oneOf"].size() == static_cast<std::size_t>(last));
    for (int number = 1; number <= last; ++number) {
        const std::string type(to_string(static_cast<atl::conversation::EventType>(number)));
        INFO(type);
        const std::string reference = schemas["Event"]["discriminator"]["mapping"].at(type);
        const auto& schema = schemas.at(reference.substr(reference.rfind('/') + 1));
        CHECK(schema["properties"]["type"]["const"] == type);
        CHECK_FALSE(schema["description"].get<std::string>().empty());
        const auto& data = schema["properties"]["data"];
        const auto members = data.value("properties", nlohmann::ordered_json::object());
        for (const auto& [name, member] : members.items())
            CHECK(member.contains("description"));
        CHECK(page.find("| `" + type + "` |") != std::string::npos);
    }
}

TEST_CASE("each member of a create has a row in docs/clients.md, and no other has one") {
    std::ifstream file(atl::test::source_path("docs/clients.md"));
    std::set<std::string> told;
    std::map<std::string, std::string> defaults;
    bool is_table = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("## "))
            is_table = line == "## Creating a conversation";
        if (!is_table || !line.starts_with("| `"))
            continue;
        const std::string name = line.substr(3, line.find('`', 3) - 3);
        told.insert(name);
        const auto last = line.rfind("| ", line.size() - 2);
        defaults[name] = line.substr(last + 2, line.size() - last - 4);
    }
    const auto schemas = component_schemas();
    std::set<std::string> wanted;
    for (const auto& [name, schema] : schemas["CreateConversation"]["properties"].items())
        wanted.insert(name);
    for (const auto& [name, schema] : schemas["LimitChanges"]["properties"].items())
        wanted.insert("limits." + name);
    CHECK(told == wanted);
    const atl::sandbox::Limits limits;
    CHECK(defaults["limits.memoryMb"] == std::to_string(limits.memory_mb));
    CHECK(defaults["limits.cpuPercent"] == std::to_string(limits.cpu_percent));
    CHECK(defaults["limits.diskMb"] == std::to_string(limits.disk_mb));
    CHECK(defaults["limits.tmpMb"] == std::to_string(limits.tmp_mb));
    CHECK(defaults["limits.maxProcesses"] == std::to_string(limits.max_processes));
    CHECK(defaults["limits.maxSockets"] == std::to_string(limits.max_sockets));
    CHECK(defaults["limits.maxOpenFiles"] == std::to_string(limits.max_open_files));
}

TEST_CASE("the codes of error events are those of docs/errors.md, with the same meanings") {
    std::ifstream file(atl::test::source_path("docs/errors.md"));
    std::string expected = "A stable word, snake_case. An agent may write words of its own.";
    bool is_table = false;
    for (std::string line; std::getline(file, line);) {
        is_table = is_table || line.starts_with("## Codes of `error` events");
        if (!is_table || !line.starts_with("| `"))
            continue;
        const auto second = line.find(" | ");
        const auto third = line.find(" | ", second + 3);
        REQUIRE(third != std::string::npos);
        expected += "\n- " + line.substr(2, second - 2) + ": " + line.substr(second + 3, third - second - 3);
    }
    const auto schemas = component_schemas();
    CHECK(schemas["ErrorEvent"]["properties"]["data"]["properties"]["code"]["description"] == expected);
}

}  // namespace openapi_test
