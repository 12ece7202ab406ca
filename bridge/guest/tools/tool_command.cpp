#include "bridge/guest/tools/tool_command.hpp"

#include <iterator>
#include <memory>
#include <utility>

#include "bridge/guest/tools/tool_run.hpp"
#include "bridge/json_scan.hpp"

namespace atl::guest {
namespace {

/// The command itself, and what `args` and `context` nest.
constexpr std::size_t k_most_depth = base::k_max_tool_depth + 1;
constexpr std::size_t k_sent_piece_bytes = 256UL * 1024;

struct ToolRequest {
    std::string name;
    std::string arguments;  // the text of an object
    std::string context;    // likewise, or empty
    EditRule edit_rule = EditRule::free;
};

struct ToolVisitor : bridge::ObjectVisitor {
    ToolRequest request;

    bool on_string(const std::string& key, std::string& value) {
        if (key == "name")
            request.name = std::move(value);
        return true;
    }
    bool on_bool(const std::string& key, bool value) {
        if (key == "readBeforeEdit")
            request.edit_rule = value ? EditRule::read_first : EditRule::free;
        return true;
    }
    bool on_object(const std::string& key, std::string_view span) {
        if (key == "args")
            request.arguments = span;
        else if (key == "context")
            request.context = span;
        return true;
    }
};

using Tool = ToolTask (*)(ToolRun&);

/// Null: the guest has no such tool.
Tool find_tool_work(std::string_view name) {
    static constexpr std::pair<std::string_view, Tool> k_table[] = {
        {"list_directory", async_list_directory},
        {"read_file", async_read_file},
        {"write_file", async_write_file},
        {"replace", async_replace},
        {"search_file_content", async_search_file_content},
        {"glob", async_glob},
    };
    static_assert(std::size(k_table) + 1 == std::size(base::k_tools), "run_command is the server's");
    for (const auto& [known, tool] : k_table)
        if (known == name)
            return tool;
    return nullptr;
}

/// The objects that the calls of one guest share.
struct Shared {
    const Services& services;
    const WorkspacePaths& paths;
    ReadFiles& read_files;
};

Task<ToolResult> async_run(Call& call, const Shared& shared, const ToolRequest& request) {
    const ToolArguments arguments(*base::find_tool(request.name), request.arguments);
    if (!arguments.is_good())
        co_return ToolResult::failure(base::tool_error::invalid_arguments, arguments.problem(),
                                      request.name + " was called with arguments that it does not take.");
    // Whatever it does, its host hears of it; a tool that counts says more.
    const Call::Progress progress(call, [] { return std::string("{}"); });
    ToolRun run{call, shared.services, shared.read_files, arguments, request.edit_rule, shared.paths};
    const Tool work = find_tool_work(request.name);
    ToolResult result = co_await work(run);
    co_return result;
}

Task<CallEnd> async_answer(Call& call, Shared shared, const ToolRequest& request) {
    ToolResult result = co_await async_run(call, shared, request);
    JsonObject reply;
    reply.flag("success", result.success);
    if (!result.changed_files.empty())
        reply.texts("changedFiles", result.changed_files);
    const std::string text = result.json(request.context);
    call.reply(reply.members());
    for (std::size_t at = 0; at < text.size(); at += k_sent_piece_bytes) {
        call.output(std::string_view(text).substr(at, k_sent_piece_bytes));
        co_await call.room();
    }
    co_return CallEnd{};
}

}  // namespace

ToolCommand::ToolCommand(const Services& services)
    : services_(services), paths_(services.workspace), read_files_(base::k_max_tool_reads_kept) {}

void ToolCommand::begin(Connection& connection, Command& command) {
    ToolVisitor visitor;
    if (bridge::scan_object(command.line, k_most_depth, visitor) != bridge::Scan::complete)
        return refuse(connection, "the command is nested too deep", bridge::refusal::invalid);
    if (find_tool_work(visitor.request.name) == nullptr || visitor.request.arguments.empty())
        return refuse(connection, "no such tool, or no arguments", bridge::refusal::invalid);
    calls_.emplace_back(services_.loop, connection);
    const auto call = std::prev(calls_.end());
    const auto request = std::make_shared<const ToolRequest>(std::move(visitor.request));
    const Shared shared{services_, paths_, read_files_};
    call->start([shared, request](Call& running) { return async_answer(running, shared, *request); },
                [this, call] { calls_.erase(call); });
}

}  // namespace atl::guest
