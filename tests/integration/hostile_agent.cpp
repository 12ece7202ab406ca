// An agent that misbehaves as its prompt says. Speaks the JSON-lines vocabulary otherwise. Prompts: ok,
// crash, segv, garbage, long-line, flood N, deep, deaf (never answers, ignores interrupts), odd-done N (ends
// the turn with the Nth line that is hardly a `done`), children (dies and leaves a child with its pipes),
// silent-exit, binary, unknown, shapes (data that is not as documented), words (an error with quotes),
// stderr. Argument "never-ready": says nothing. Argument "exit-at-start": exits 3 with a word on stderr.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

void say(const std::string& line) {
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
}

void event(const std::string& name, const std::string& data) {
    say("{\"ev\":\"" + name + "\",\"data\":" + data + "}");
}

std::string prompt_of(const std::string& line) {
    const std::string mark = "\"prompt\":\"";
    const auto at = line.find(mark);
    if (at == std::string::npos)
        return "";
    return line.substr(at + mark.size(), line.find('"', at + mark.size()) - at - mark.size());
}

void leave_a_child() {
    if (::fork() == 0) {
        ::pause();
        ::_exit(0);
    }
    ::_exit(9);
}

void flood(unsigned long count) {
    for (unsigned long at = 0; at < count; ++at)
        std::fputs("{\"ev\":\"text_delta\",\"data\":{\"delta\":\"x\"}}\n", stdout);
    std::fflush(stdout);
}

void long_line() {
    std::fputs("{\"ev\":\"text_delta\",\"data\":{\"delta\":\"", stdout);
    const std::string piece(1 << 20, 'x');
    for (int at = 0; at < 100; ++at)
        std::fputs(piece.c_str(), stdout);
    std::fputs("\"}}\n", stdout);
}

// Exits with 0 after the last one, so that a test that asks for too many notices.
void odd_done(unsigned long number) {
    const std::vector<std::string> lines = {
        R"({"ev":"done","data":[]})",
        R"({"ev":"done","data":"over"})",
        R"({"ev":"done"})",
        R"({"ev":"done","ev":"done","data":{}})",
        R"({"ev":"done","data":{},"data":[]})",
        "  { \"ev\" : \"done\" , \"data\" : 0 }",
        R"({"\u0065v":"\u0064one","data":[]})",
        R"({"ev":"done","data":{)",
        "{\"ev\":\"done\",\"data\":\"" + std::string(2UL << 20U, 'x') + "\"}",
    };
    if (number >= lines.size())
        ::_exit(0);
    say(lines[number]);
}

void deaf() {
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGTERM, SIG_IGN);
    while (true)
        ::pause();
}

void handle(const std::string& prompt) {
    if (prompt == "crash")
        ::_exit(3);
    if (prompt == "segv")
        ::kill(::getpid(), SIGSEGV);
    if (prompt == "silent-exit")
        ::_exit(0);
    if (prompt == "children")
        leave_a_child();
    if (prompt == "deaf")
        deaf();
    if (prompt == "garbage")
        say("this is not JSON\n{\"ev\":\"text_delta\"\n[]\n\"x\"\n{}\n{\"ev\":5}\nnull");
    if (prompt == "binary")
        say("{\"ev\":\"text_delta\",\"data\":{\"delta\":\"\xff\xfe\"}}");
    if (prompt == "unknown")
        say("{\"ev\":\"sandbox_terminated\",\"data\":{\"class\":\"oom\"}}\n{\"ev\":\"session_start\","
            "\"data\":{}}");
    if (prompt == "shapes")
        say("{\"ev\":\"text_delta\",\"data\":{\"delta\":7}}\n"
            "{\"ev\":\"tool_use\",\"data\":{\"id\":\"1\",\"name\":\"n\"}}\n"
            "{\"ev\":\"t\xc3\xa9xt\\n\\\"x\\\"\",\"data\":{}}\n"
            "say \"hi\" \\ \xc3\xa9\x1b[1m");
    if (prompt == "words")
        say("{\"ev\":\"error\",\"data\":{\"code\":\"mine\",\"message\":\"a \\\"b\\\"\\n\xc3\xa9 \\u00e9 "
            "\\\\\"}}");
    if (prompt == "long-line")
        long_line();
    if (prompt == "deep")
        say("{\"ev\":\"message\",\"data\":{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') +
            "}}");
    if (prompt == "stderr")
        std::fputs("a word on stderr\n", stderr);
    if (prompt.rfind("flood ", 0) == 0)
        flood(std::strtoul(prompt.c_str() + 6, nullptr, 10));
    if (prompt.rfind("odd-done ", 0) == 0)
        return odd_done(std::strtoul(prompt.c_str() + 9, nullptr, 10));
    event("text_delta", "{\"delta\":\"after\"}");
    event("turn_complete", "{\"result\":\"success\"}");
    event("done", "{}");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "never-ready") == 0)
        deaf();
    if (argc > 1 && std::strcmp(argv[1], "exit-at-start") == 0) {
        std::fputs("cannot find my \"mod\xc3\xa9l\"\n", stderr);
        return 3;
    }
    event("ready", "{}");
    char* line = nullptr;
    std::size_t capacity = 0;
    while (::getline(&line, &capacity, stdin) > 0) {
        const std::string text(line);
        if (text.find("\"cmd\":\"query\"") != std::string::npos)
            handle(prompt_of(text));
        else if (text.find("\"cmd\":\"shutdown\"") != std::string::npos && argc > 1 &&
                 std::strcmp(argv[1], "ignore-shutdown") == 0)
            deaf();
    }
    return 0;
}
