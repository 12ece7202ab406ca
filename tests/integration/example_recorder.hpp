// Records what requests and responses look like, with made values in place of those that differ from run to
// run or from host to host: ids, times, tokens, what the host enforces and how much is in use.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/http_client.hpp"

namespace atl::test {

using OrderedJson = nlohmann::ordered_json;

/// Makes values that are the same in every run.
class MadeValues {
  public:
    OrderedJson of(const OrderedJson& value);
    std::string of_text(const std::string& text);

  private:
    OrderedJson of_member(const std::string& name, const OrderedJson& value, const OrderedJson& object);
    std::string of_line(const std::string& line);
    std::string id(const std::string& real);

    std::map<std::string, std::string> ids_;
};

class ExampleRecorder {
  public:
    /// `document` is the server's own OpenAPI document.
    explicit ExampleRecorder(const OrderedJson& document) : document_(document) {}

    /// Sends the request of an operation and keeps both. `parameters` go where the document says; throws for
    /// one that it does not have. A `body` that is null is none.
    HttpResponse call(HttpClient& client, const std::string& operation,
                      const OrderedJson& parameters = OrderedJson::object(),
                      const OrderedJson& body = nullptr, const HeaderList& headers = {});
    /// The same of a stream that does not end, up to the first event of the type `until`. `seen` is called
    /// with the types of those before.
    void follow(HttpClient& client, const std::string& operation, const OrderedJson& parameters,
                const std::string& until, const std::function<void(const std::string&)>& seen = {});
    /// A response that the test has got by itself.
    void keep(const std::string& operation, int status, const std::string& media_type,
              const OrderedJson& example);
    void keep_parameters(const std::string& operation, const OrderedJson& parameters);
    /// Keeps a problem, which must have this code.
    void problem(const std::string& code, const HttpResponse& response);

    std::string target(const std::string& operation, const OrderedJson& parameters) const;
    /// The examples, in the form that http/api/examples.hpp describes.
    const OrderedJson& examples() const noexcept { return examples_; }

  private:
    struct Operation {
        std::string method;
        std::string path;
        OrderedJson parameters;
    };
    Operation find(const std::string& name) const;
    HeaderList headers_of(const Operation& operation, const OrderedJson& parameters,
                          const HeaderList& more) const;

    OrderedJson document_;
    MadeValues made_;
    OrderedJson examples_{{"operations", OrderedJson::object()}, {"problems", OrderedJson::object()}};
};

inline constexpr const char* k_example_remedy =
    "If this is meant, record the examples again: ATOLL_RECORD_EXAMPLES=1 "
    "build/release/bin/integration_tests \"The examples*\"; an operation that is new is performed in "
    "tests/integration/examples_test.cpp.";
/// Checks that the examples of the file are those of now; `what` names their kind.
void check_examples(const OrderedJson& stored, const OrderedJson& now, const std::string& what);

}  // namespace atl::test
