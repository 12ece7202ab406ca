// The text for people in the document: everything that has a name has a description, too. The document is
// that of the real table of routes.
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "tests/unit/http/api_server.hpp"

namespace openapi_text_test {

using namespace atl::test;

namespace {

/// Faults of one document, by their places in it.
class Reader {
  public:
    explicit Reader(const json& document) : document_(document) {
        read(document_, "");
        for (const auto& [path, item] : document_["paths"].items())
            for (const auto& [method, operation] : item.items())
                read_operation(operation, method + ' ' + path);
        const json& components = document_["components"];
        for (const auto& [name, schema] : components["schemas"].items())
            want(schema, "description", "schema " + name);
        for (const auto& [name, scheme] : components["securitySchemes"].items())
            want(scheme, "description", "security scheme " + name);
    }

    std::vector<std::string> faults;
    std::size_t properties = 0;
    std::size_t parameters = 0;
    std::set<std::string> tags;

  private:
    void want(const json& node, const char* member, const std::string& where) {
        if (!node.contains(member) || node[member].empty() || node[member] == "")
            faults.push_back(where + " has no " + member);
    }

    // Examples and defaults are no part of the description.
    void read(const json& node, const std::string& where) {
        if (!node.is_structured())
            return;
        for (const auto& [name, member] : node.items()) {
            const std::string place = where + '/' + name;
            if (name == "example" || name == "examples" || name == "default")
                continue;
            if (name == "properties" && node.contains("type")) {
                for (const auto& [property, schema] : member.items()) {
                    ++properties;
                    want(schema, "description", place + '/' + property);
                }
            }
            if (name == "parameters") {
                for (const json& parameter : member) {
                    ++parameters;
                    want(parameter, "description", place + '/' + parameter["name"].get<std::string>());
                }
            }
            read(member, place);
        }
    }

    void read_operation(const json& operation, const std::string& where) {
        want(operation, "summary", where);
        want(operation, "operationId", where);
        want(operation, "tags", where);
        bool tells_fault = false;
        for (const auto& [status, response] : operation["responses"].items()) {
            tells_fault = tells_fault || status.starts_with("4");
            if (!response.contains("$ref"))
                want(response, "description", where + ' ' + status);
        }
        if (!tells_fault)
            faults.push_back(where + " has no response 4xx");
        for (const json& tag : operation.value("tags", json::array()))
            tags.insert(tag.get<std::string>());
    }

    const json& document_;
};

std::string joined(const std::vector<std::string>& lines) {
    std::string out;
    for (const std::string& line : lines)
        out += line + '\n';
    return out;
}

}  // namespace

TEST_CASE("every property, parameter, operation and schema of the document is described") {
    ApiServer server;
    const json& document = server.checker().document();
    const Reader reader(document);
    CHECK(joined(reader.faults) == "");
    CHECK(reader.properties > 150);
    CHECK(reader.parameters > 40);
    std::set<std::string> described;
    for (const json& tag : document["tags"])
        if (!tag["description"].get<std::string>().empty())
            described.insert(tag["name"].get<std::string>());
    CHECK(described == reader.tags);
}

TEST_CASE("what has no description is found wherever it stands") {
    ApiServer server;
    json broken = server.checker().document();
    auto& schemas = broken["components"]["schemas"];
    schemas["SandboxMetrics"]["properties"]["memory"]["properties"]["usedBytes"].erase("description");
    schemas["TurnStartEvent"]["properties"]["data"]["properties"]["by"]["description"] = "";
    auto& list = broken["paths"]["/v1/conversations"]["get"];
    list["parameters"][0].erase("description");
    list.erase("summary");
    list["tags"] = json::array();
    const Reader reader(broken);
    INFO(joined(reader.faults));
    CHECK(reader.faults.size() == 5);
}

TEST_CASE("the document tells each code of an error, with its status") {
    ApiServer server;
    const json& code = server.checker().document()["components"]["schemas"]["ErrorCode"];
    CHECK(code["enum"].size() == static_cast<std::size_t>(atl::base::Errc::internal) + 1);
    for (const json& word : code["enum"])
        CHECK(code["description"].get<std::string>().find("\n- `" + word.get<std::string>() + "` (") !=
              std::string::npos);
}

namespace {

/// The examples of a media type, by their places; those that are shared are followed.
std::vector<json> examples_of(const OpenApiChecker& checker, const json& media) {
    std::vector<json> out;
    if (media.contains("example"))
        out.push_back(media["example"]);
    const json none = json::object();
    const json several = media.value("examples", none);
    for (const auto& [name, example] : several.items())
        out.push_back(checker.resolved(example)["value"]);
    return out;
}

/// Empty if each media type has an example, and all fit; otherwise the fault.
std::string check_examples(const OpenApiChecker& checker, const json& content) {
    for (const auto& [type, media] : content.items()) {
        // Bytes have no schema, and no example.
        if (!media.contains("schema"))
            continue;
        const auto examples = examples_of(checker, media);
        if (examples.empty())
            return type + " has no example";
        for (const json& example : examples)
            if (auto fault = checker.check_value(media["schema"], example, type); !fault.empty())
                return fault;
    }
    return "";
}

}  // namespace

TEST_CASE("every request and response of the document has an example that fits its schema") {
    ApiServer server;
    const OpenApiChecker& checker = server.checker();
    std::size_t count = 0;
    for (const auto& [path, item] : checker.document()["paths"].items()) {
        for (const auto& [method, operation] : item.items()) {
            INFO(method << ' ' << path);
            // A new operation is performed there, and recorded.
            INFO("see tests/integration/examples_test.cpp");
            if (operation.contains("requestBody"))
                CHECK(check_examples(checker, operation["requestBody"]["content"]) == "");
            for (const auto& [status, response] : operation["responses"].items()) {
                const json& told = checker.resolved(response);
                if (status == "default" || !told.contains("content"))
                    continue;
                ++count;
                INFO(status);
                CHECK(check_examples(checker, told["content"]) == "");
            }
        }
    }
    CHECK(count > 200);
}

TEST_CASE("an example that does not fit, or is missing, is found") {
    ApiServer server;
    const json& document = server.checker().document();
    json content = document["paths"]["/v1/conversations/{id}"]["get"]["responses"]["200"]["content"];
    json& media = content["application/json"];
    media["example"]["lastSeq"] = "two";
    CHECK(check_examples(server.checker(), content).find("lastSeq") != std::string::npos);
    media.erase("example");
    CHECK(check_examples(server.checker(), content) == "application/json has no example");
}

}  // namespace openapi_text_test
