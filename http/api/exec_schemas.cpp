// Schemas of exec: what runs, what it wrote, and the frames of its stream.
#include "http/api/exec_form.hpp"
#include "http/api/schema_parts.hpp"

namespace atl::http {
namespace {

Schema integer_or(IntRange range, std::uint64_t by_default) {
    Schema out = integer(range);
    out["default"] = by_default;
    return out;
}

Schema strings() {
    return Schema{{"type", "object"}, {"additionalProperties", text()}};
}

Property exit_code() {
    return {"exitCode", "As given to exit(3); null: a signal ended it.",
            Schema{{"type", {"integer", "null"}}, {"minimum", 0}, {"maximum", 255}}};
}
Property signal() {
    return {"signal", "The signal that ended it, \"SIGKILL\"; null: none did.", nullable_text()};
}
Property timed_out() {
    return {"timedOut", "Whether its time was over: it was ended with all that it started.", flag()};
}
Property duration() {
    return {"durationMs", "How long it took, in milliseconds.", counter()};
}
Property truncated() {
    return {"truncated",
            "Whether output was dropped: it went beyond `maxOutputBytes`, or found no room (`truncatedBy`).",
            object(Members::required, {{"stdout", "Of stdout.", flag()}, {"stderr", "Of stderr.", flag()}})};
}

void add_exec_request(Schema& out) {
    Schema arguments = list_of(text());
    arguments["minItems"] = 1;
    arguments["maxItems"] = base::k_max_exec_arguments;
    out["Exec"] = described(
        object(
            Members::optional,
            {{"command", "A script for `bash -c`. Exactly one of `command` and `argv` is given.",
              text_up_to(base::k_max_body_bytes)},
             {"argv", "A program and its arguments. The program is looked up in PATH unless it has a slash.",
              std::move(arguments)},
             {"cwd", "Its working directory: absolute, or relative to /workspace.",
              text_up_to(base::k_max_path_bytes)},
             {"env", "Variables beside those of the sandbox. What the server sets, and LD_*, is refused.",
              strings()},
             {"stdin", "What it reads from stdin; then comes the end. Without it stdin is /dev/null.",
              text()},
             {"stdinBase64", "The same, for bytes that are not text.", text()},
             {"timeoutMs",
              "Milliseconds until it and all that it started get SIGTERM, and SIGKILL a second after that.",
              integer_or(k_exec_timeout_range,
                         static_cast<std::uint64_t>(base::k_default_exec_timeout.count()))},
             {"maxOutputBytes",
              "Bytes of stdout, and of stderr, that are answered or streamed; what comes behind is read and "
              "dropped.",
              integer_or(k_exec_output_range, base::k_default_exec_output_bytes)}}),
        "A program to run. It leads a process group of its own.");
}

void add_exec_result(Schema& out) {
    out["ExecResult"] = described(
        object(Members::required, {exit_code(),
                                   signal(),
                                   timed_out(),
                                   {"stdout", "What it wrote to stdout, where that is UTF-8.", text()},
                                   {"stdoutBase64", "In place of `stdout`, where it is not.", text()},
                                   {"stderr", "What it wrote to stderr, where that is UTF-8.", text()},
                                   {"stderrBase64", "In place of `stderr`, where it is not.", text()},
                                   truncated(),
                                   {"truncatedBy",
                                    "Which bound left no room for more output, where `maxOutputBytes` did "
                                    "not: that of the user in the budget `exec`, or that of all.",
                                    one_of({"user_share", "capacity"})},
                                   duration()}),
        "How a program ended, and what it wrote.");
    out["ExecResult"]["required"] = {"exitCode", "signal", "timedOut", "truncated", "durationMs"};
}

Schema output_frame(const char* type) {
    Schema out = object(Members::required,
                        {{"type", "The type.", constant(type)},
                         {"text", "What it wrote, where that is UTF-8. No character is cut.", text()},
                         {"base64", "In place of `text`, where it is not.", text()}});
    out["required"] = {"type"};
    return out;
}

void add_exec_frames(Schema& out) {
    out["ExecStdout"] = described(output_frame("stdout"), "The program wrote to stdout.");
    out["ExecStderr"] = described(output_frame("stderr"), "The program wrote to stderr.");
    out["ExecExit"] = described(object(Members::required, {{"type", "The type.", constant("exit")},
                                                           exit_code(),
                                                           signal(),
                                                           timed_out(),
                                                           duration(),
                                                           truncated()}),
                                "The program has ended. The last frame.");
    out["ExecExit"]["required"] = {"type", "exitCode", "signal", "timedOut", "durationMs", "truncated"};
    out["ExecClosed"] = described(
        object(Members::required, {{"type", "The type.", constant("stream_closed")},
                                   {"code", "Why, as the stable word of an error.", ref("ErrorCode")},
                                   {"detail", "Why, for people.", text()}}),
        "The last frame where what became of the program is not known, or the server ended it.");
    out["ExecStream"] =
        described(text(),
                  "Server-Sent Events: `data` is a frame; `event`, its type, is there with `?named=1` only. "
                  "`contentSchema` is that of each `data`.");
    out["ExecStream"]["contentMediaType"] = "text/event-stream";
    out["ExecStream"]["contentSchema"] =
        any_of_these({ref("ExecStdout"), ref("ExecStderr"), ref("ExecExit"), ref("ExecClosed")});
}

}  // namespace

void add_exec_schemas(Schema& out) {
    add_exec_request(out);
    add_exec_result(out);
    add_exec_frames(out);
}

}  // namespace atl::http
