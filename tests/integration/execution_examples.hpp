// The operations of code mode, performed for the examples of the OpenAPI document.
#pragma once

#include <stdexcept>
#include <string>

#include "tests/integration/example_recorder.hpp"
#include "tests/support/api_client.hpp"
#include "tests/support/websocket_client.hpp"

namespace atl::test {

class ExecutionExamples {
  public:
    ExecutionExamples(ApiClient& api, ExampleRecorder& recorder) : api_(api), recorder_(recorder) {}

    void perform() {
        // The others are not on every host.
        const auto listed = OrderedJson::parse(api_.connect().request("GET", "/v1/executors").body);
        OrderedJson python{{"executors", OrderedJson::array()}};
        for (const OrderedJson& executor : listed["executors"])
            if (executor["name"] == "python")
                python["executors"].push_back(executor);
        recorder_.keep("listExecutors", 200, "application/json", python);
        const OrderedJson tools = OrderedJson::parse(
            R"([{"name":"add","description":"Adds numbers.","inputSchema":{"type":"array","items":{"type":"number"}}}])");
        call("makeToolPrompt", OrderedJson::object(), {{"tools", tools}});
        const OrderedJson hello{{"code", "print('hi')\nreturn 1 + 2"},
                                {"language", "python"},
                                {"userId", "alice"},
                                {"timeoutMs", 10000}};
        call("executeProgram", {{"named", 1}}, hello, {{"Accept", "text/event-stream"}});
        calls(OrderedJson::parse(
            call("executeProgram", OrderedJson::object(),
                 {{"code", "a = await codemode.add(2, 3)\nreturn await codemode.add(a, 1)"},
                  {"language", "python"},
                  {"userId", "alice"},
                  {"tools", tools},
                  {"detached", true}})
                .body)["executionId"]);
        call("executeProgram", OrderedJson::object(), hello);
        const std::string sandbox = api_.call(201, "POST", "/v1/sandboxes", "{}")["id"];
        OrderedJson write{
            {"code",
             "made = await codemode.write_file({'file_path': '/workspace/a.txt', 'content': 'hello'})\n"
             "return made['success']"},
            {"language", "python"},
            {"sandboxTools", {"write_file", "read_file"}}};
        call("executeWithSandbox", {{"id", sandbox}}, write, {{"Accept", "text/event-stream"}});
        OrderedJson alone = write;
        alone["detached"] = true;
        call("executeWithSandbox", {{"id", sandbox}}, alone);
        call("executeWithSandbox", {{"id", sandbox}}, write);
        const std::string endless = R"({"code":"while True: pass","language":"python","detached":true})";
        HttpResponse answer = api_.connect().request("POST", "/v1/execute", endless);
        while (answer.status == 202)
            answer = api_.connect().request("POST", "/v1/execute", endless);
        recorder_.problem("too_many_executions", answer);
    }

  private:
    HttpResponse call(const std::string& operation, const OrderedJson& parameters,
                      const OrderedJson& body = nullptr, const HeaderList& headers = {}) {
        HttpClient client = api_.connect();
        return recorder_.call(client, operation, parameters, body, headers);
    }

    void await_call(const std::string& execution, const std::string& call_id) {
        for (;;) {
            const Json now = api_.call(200, "GET", "/v1/executions/" + execution);
            if (now["status"] == "ended")
                throw std::runtime_error("the program ended: " + now.dump());
            if (!now["openCalls"].empty() && now["openCalls"][0]["callId"] == call_id)
                return;
        }
    }

    /// `execution` makes two calls.
    void calls(const std::string& execution) {
        const OrderedJson which{{"id", execution}};
        const OrderedJson first{{"id", execution}, {"callId", "c1"}};
        await_call(execution, "c1");
        call("answerCall", first, {{"result", 5}});
        const std::string path = "/v1/executions/" + execution;
        recorder_.problem("call_answered",
                          api_.connect().request("POST", path + "/calls/c1", R"({"result":5})"));
        await_call(execution, "c2");
        call("getExecution", which);
        call("getExecutionEvents", {{"id", execution}, {"after", 1}});
        call("createExecutionToken", which, {{"scope", "chat"}, {"ttlSeconds", 300}});
        const OrderedJson parameters{{"id", execution}, {"after", 3}};
        WebSocketClient client(api_.connect(), recorder_.target("openExecution", parameters));
        const OrderedJson frame{{"type", "answer"}, {"callId", "c2"}, {"result", 6}, {"id", "a1"}};
        client.send_text(frame.dump());
        const OrderedJson accepted = OrderedJson::parse(client.next_text());
        recorder_.keep_parameters("openExecution", parameters);
        recorder_.keep("openExecution", 101, "application/json", {{"client", frame}, {"server", accepted}});
        HttpClient follower = api_.connect();
        recorder_.follow(follower, "getExecutionEvents", {{"id", execution}, {"named", 1}}, "done");
        recorder_.problem("execution_ended",
                          api_.connect().request("POST", path + "/calls/c2", R"({"result":5})"));
        call("cancelExecution", which);
        call("listExecutions", {{"userId", "alice"}, {"limit", 1}});
    }

    ApiClient& api_;
    ExampleRecorder& recorder_;
};

}  // namespace atl::test
