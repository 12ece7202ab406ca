// Schemas of processes: what is started, what is told of it, its output, and the frames of its WebSocket.
#include "http/api/process_form.hpp"
#include "http/api/process_output.hpp"
#include "http/api/schema_parts.hpp"

namespace atl::http {
namespace {

Schema process_strings() {
    return Schema{{"type", "object"}, {"additionalProperties", text()}};
}
Schema arguments() {
    Schema out = list_of(text());
    out["minItems"] = 1;
    out["maxItems"] = base::k_max_exec_arguments;
    return out;
}
Property columns() {
    return {"cols", "Its width, in characters.", integer(k_terminal_range)};
}
Property rows() {
    return {"rows", "Its height, in lines.", integer(k_terminal_range)};
}
Property process_exit_code() {
    return {"exitCode", "As given to exit(3); null: a signal ended it.",
            Schema{{"type", {"integer", "null"}}, {"minimum", 0}, {"maximum", 255}}};
}
Property exit_signal() {
    return {"signal", "The signal that ended it, \"SIGKILL\"; null: none did.", nullable_text()};
}
Property process_timed_out() {
    return {"timedOut", "Whether its `timeoutMs` was over: its process group was ended.", flag()};
}
Property signal_name() {
    return {"signal", "The name of a signal: \"SIGTERM\", \"SIGINT\", \"SIGKILL\".",
            text_up_to(k_max_process_word_bytes)};
}
Property type(const char* word) {
    return {"type", "The type.", constant(word)};
}

void add_process_request(Schema& out) {
    out["TerminalSize"] = described(object(Members::optional, {columns(), rows()}, {"cols", "rows"}),
                                    "The size of a terminal.");
    out["ProcessSignal"] =
        described(object(Members::optional, {signal_name()}, {"signal"}), "A signal to send.");
    out["StartProcess"] = described(
        object(
            Members::optional,
            {{"command", "A script for `bash -c`. Exactly one of `command` and `argv` is given.",
              text_up_to(base::k_max_process_spec_bytes)},
             {"argv", "A program and its arguments. The program is looked up in PATH unless it has a slash.",
              arguments()},
             {"cwd", "Its working directory: absolute, or relative to /workspace.",
              text_up_to(base::k_max_path_bytes)},
             {"env",
              "Variables beside those of the sandbox. What the server sets, and LD_*, is refused. With a "
              "terminal "
              "TERM is xterm-256color unless it is given.",
              process_strings()},
             {"tag", "A name to find it by. It need not be unique.",
              Schema{{"type", "string"}, {"maxLength", base::k_max_process_tag_bytes}}},
             {"pty", "It gets a terminal of this size in place of pipes.", ref("TerminalSize")},
             {"stdin", "What stdin is, without a terminal: a pipe that stays open, or /dev/null.",
              one_of({"pipe", "null"})},
             {"restart",
              "generation: it is started again, as another process, in each new generation of its "
              "conversation's sandbox, until SIGTERM or SIGKILL is sent to it here. A sandbox has at most " +
                  std::to_string(base::k_max_kept_processes) + " of them. never: it is not.",
              one_of({"never", "generation"})},
             {"timeoutMs",
              "Milliseconds until its process group gets SIGTERM, and SIGKILL a second after that. None by "
              "default.",
              integer(k_process_timeout_range)}}),
        "A program that outlives the request. It leads a session and a process group of its own.");
}

void add_process_answers(Schema& out) {
    Schema terminal = any_of_these({ref("TerminalSize"), Schema{{"type", "null"}}});
    Schema started = time();
    started["type"] = {"string", "null"};
    out["Process"] = described(
        object(
            Members::required,
            {{"processId", "Its id, never used again.", text()},
             {"pid", "As seen inside the sandbox. The kernel uses pids again. null: it is stopped.",
              nullable_counter()},
             {"tag", "Its tag; null: none.", nullable_text()},
             {"command", "The script, where it was started with one.", text()},
             {"argv", "The program and its arguments, where it was started with them.", list_of(text())},
             {"cwd", "Its working directory at the start, as given.", text()},
             {"pty", "The size of its terminal; null: it has pipes.", terminal},
             {"restart",
              "generation: it is started again in each new generation of the sandbox, with another id.",
              one_of({"never", "generation"})},
             {"status",
              "Whether it runs. stopped: it is not there, and is started again with the next generation.",
              one_of({"running", "ended", "stopped"})},
             {"startedAt", "When it was started, by the clock of the sandbox; null: it is stopped.", started},
             {"firstByte", "The number of the first byte of its output that is kept.", counter()},
             {"endByte", "How many bytes it has written.", counter()},
             process_exit_code(),
             exit_signal(),
             process_timed_out()}),
        "A process that outlives the request that started it.");
    out["Process"]["required"] = {"processId", "pid",    "tag",       "cwd",       "pty",
                                  "restart",   "status", "startedAt", "firstByte", "endByte"};
    out["ProcessList"] =
        described(object(Members::required,
                         {{"processes", "The processes, the oldest first.", list_of(ref("Process"))}}),
                  "Processes of a sandbox.");
    out["ProcessInput"] =
        described(object(Members::required,
                         {{"bytes", "How many bytes the process's pipe or terminal has taken.", counter()}}),
                  "Input was passed on.");
}

void add_process_frames(Schema& out) {
    out["ProcessStarted"] =
        described(object(Members::required,
                         {type("started"),
                          {"pid", "As seen inside the sandbox.", counter()},
                          {"after", "The number of the byte with which the output goes on.", counter()},
                          {"pty", "Whether it has a terminal.", flag()}}),
                  "The first frame.");
    out["ProcessDropped"] = described(
        object(Members::required,
               {type("dropped"), {"bytes", "How many bytes of output are missing here.", counter()}}),
        "Output that is not kept any more.");
    out["ProcessExit"] =
        described(object(Members::required, {type("exit"),
                                             process_exit_code(),
                                             exit_signal(),
                                             process_timed_out(),
                                             {"after", "How many bytes it has written.", counter()}}),
                  "It has ended, and all its output came before. The last frame.");
    out["ProcessRejected"] =
        described(object(Members::required, {type("rejected"),
                                             {"code", "The stable word of the error.", ref("ErrorCode")},
                                             {"detail", "What is wrong, for people.", text()}}),
                  "A frame of the client's was refused and changed nothing.");
    out["ProcessServerFrame"] = described(any_of_these({ref("ProcessStarted"), ref("ProcessDropped"),
                                                        ref("ProcessExit"), ref("ProcessRejected")}),
                                          "A text frame of the server of a process's WebSocket.");
    out["ProcessResizeFrame"] =
        described(object(Members::optional, {type("resize"), columns(), rows()}, {"type", "cols", "rows"}),
                  "Gives the terminal another size.");
    out["ProcessSignalFrame"] =
        described(object(Members::optional, {type("signal"), signal_name()}, {"type", "signal"}),
                  "Sends a signal to the process's group, and to the foreground group of its terminal.");
    out["ProcessEofFrame"] =
        described(object(Members::optional, {type("eof")}, {"type"}),
                  "Ends stdin behind what was sent, for all who follow it; in a terminal it types Ctrl-D.");
    out["ProcessClientFrame"] = described(
        any_of_these({ref("ProcessResizeFrame"), ref("ProcessSignalFrame"), ref("ProcessEofFrame")}),
        "A text frame of the client of a process's WebSocket.");
    out["ProcessFrames"] = described(
        object(Members::required, {{"client", "A text frame of the client.", ref("ProcessClientFrame")},
                                   {"server", "A text frame of the server.", ref("ProcessServerFrame")}}),
        "No body: what the text frames of a process's WebSocket are, each way.");
}

void add_process_output(Schema& out) {
    out["ProcessOutput"] = described(
        object(Members::required,
               {{"after",
                 "The byte with which the page begins: as asked for, or the end where that lies before it.",
                 counter()},
                {"next", "The `after` of the next page.", counter()},
                {"dropped", "How many bytes at the beginning of the page are not kept any more.", counter()},
                {"stdout", "What it wrote to stdout or its terminal, where that is UTF-8.", text()},
                {"stdoutBase64", "In place of `stdout`, where it is not.", text()},
                {"stderr", "What it wrote to stderr, where that is UTF-8.", text()},
                {"stderrBase64", "In place of `stderr`, where it is not.", text()},
                {"exit", "How it ended. There once it has, and nothing comes behind this page.",
                 object(Members::required, {process_exit_code(), exit_signal(), process_timed_out()})}}),
        "What a process has written, at most " + std::to_string(k_output_page_bytes) +
            " bytes of it. A character that is not complete at the end of a page is in the next one, unless "
            "the process has ended.");
    out["ProcessOutput"]["required"] = {"after", "next", "dropped"};
    out["ProcessClosed"] = described(
        object(Members::required, {type("stream_closed"),
                                   {"code", "Why, as the stable word of an error.", ref("ErrorCode")},
                                   {"detail", "Why, for people.", text()},
                                   {"after", "The byte with which the output goes on.", counter()}}),
        "The last frame where the server ends the stream before the process has ended. It has no id.");
    out["ProcessStream"] = described(
        text(),
        "Server-Sent Events: `id` is the byte behind the frame, as `after` counts, `data` a frame; `event`, "
        "its type, is there with `?named=1` only. `contentSchema` is that of each `data`.");
    out["ProcessStream"]["contentMediaType"] = "text/event-stream";
    out["ProcessStream"]["contentSchema"] =
        any_of_these({ref("ProcessStarted"), ref("ExecStdout"), ref("ExecStderr"), ref("ProcessDropped"),
                      ref("ProcessExit"), ref("ProcessClosed")});
}

}  // namespace

void add_process_schemas(Schema& out) {
    add_process_request(out);
    add_process_answers(out);
    add_process_frames(out);
    add_process_output(out);
}

}  // namespace atl::http
