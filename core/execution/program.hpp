// The port to a program that runs in an engine (bridge/runner has its implementation; tests a fake): a
// program out, logs and calls of tools back, and one end. Everything that it says is hostile and bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/execution/engine.hpp"
#include "core/sandbox/operations.hpp"

namespace atl::execution {

struct ProgramSpec {
    Language language = Language::javascript;
    std::string code;
    std::vector<std::string> tools;
    std::uint64_t max_calls = 0;
    std::size_t max_value_bytes = 0;
    std::size_t max_log_bytes = 0;
    std::string user;  // whose line it is where its frames take more than the loop has time for
};

/// Why a program did not end with a value. `kind`: syntax runtime timeout memory cancelled denied protocol
/// crashed no_room. `message`: k_max_execution_error_bytes at most.
struct Failure {
    std::string kind;
    std::string message;
    std::optional<std::uint64_t> line;
};

/// May destroy the program in the last calls, and in no others.
class ProgramObserver {
  public:
    virtual ~ProgramObserver() = default;
    /// The engine is ready, and no program was given yet.
    virtual void on_ready() {}
    /// The engine was ready, and has been told the program.
    virtual void on_running() = 0;
    /// `text_json` is a JSON string: escaping takes long, and was done where the text was read.
    virtual void on_log(const std::string& level, const std::string& text_json) = 0;
    /// A call of one of the tools. `args_json` is the text of an array. It waits for answer().
    virtual void on_call(std::uint64_t id, const std::string& name, const std::string& args_json) = 0;
    /// Last call: the program has ended by itself. No value: undefined, or it failed.
    virtual void on_end(std::optional<std::string> value_json, std::optional<Failure> failure) = 0;
    /// Last call: its process has ended before the program did, or broke the protocol.
    virtual void on_broken(Failure failure) = 0;
    /// Last call: what became of it is not known, since its sandbox no longer answers.
    virtual void on_lost(const base::Error& error) = 0;
};

/// An engine with one program, or waiting for it. Destroying it ends the process.
class Program {
  public:
    virtual ~Program() = default;
    /// Gives it its program, which is begun once the engine is ready. From now on `observer` is told, perhaps
    /// from inside of this call. Precondition: called once.
    virtual void run(ProgramSpec spec, ProgramObserver& observer) = 0;
    /// False: no such call waits; or `value_json` is no JSON value, too deep or longer than max_value_bytes:
    /// the call then still waits.
    virtual bool answer(std::uint64_t id, std::string_view value_json) = 0;
    /// The same with text that the checker has read already: one JSON value, or empty if the text was none.
    virtual bool answer_checked(std::uint64_t id, std::string_view value_json) = 0;
    virtual bool answer_error(std::uint64_t id, std::string_view message) = 0;
    /// From inside of on_call(): the observer is told nothing more, not even the end of the program, until
    /// resume(), which may tell it from inside. Answers are passed on meanwhile.
    virtual void hold() = 0;
    virtual void resume() = 0;
};

class Programs {
  public:
    virtual ~Programs() = default;
    /// Starts the engine inside of a sandbox whose k_inner_agent_dir is the engine's folder. No call of the
    /// observer comes from inside. `observer` outlives the program, or is replaced by Program::run().
    virtual std::unique_ptr<Program> start(sandbox::Operations& operations, const Engine& engine,
                                           ProgramObserver& observer) = 0;
};

}  // namespace atl::execution
