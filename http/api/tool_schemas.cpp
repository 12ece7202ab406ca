// Schemas of the routes of tools.
#include <iterator>
#include <string>

#include "core/plain/tool_table.hpp"
#include "http/api/schema_parts.hpp"
#include "http/api/tool_formats.hpp"

namespace atl::http {
namespace {

Schema texts() {
    return list_of(text());
}

Schema error_codes() {
    Schema words = Schema::array();
    for (const std::string_view word : base::tool_error::all)
        words.push_back(word);
    return Schema{{"type", "string"}, {"enum", std::move(words)}};
}

void add_tool_result(Schema& out) {
    Schema details = object(Members::required, {{"error", "What is wrong, for the model.", text()},
                                                {"errorCode", "A stable word for it.", error_codes()}});
    details["additionalProperties"] = true;
    Schema result =
        object(Members::required,
               {{"success", "Whether the tool did what it was asked for.", flag()},
                {"data", "What it found or did; only on success. docs/tools.md has the members of each tool.",
                 any_object()},
                {"userFeedback", "A sentence for the person in the chat.", text()},
                {"previewRefreshNeeded", "Whether files changed, so that a preview is out of date.", flag()},
                {"technicalDetails", "Why it failed; only then.", std::move(details)},
                {"changedFiles", "The absolute paths of the files that it changed, if any.", texts()},
                {"warnings", "What the model should know besides, as that the result is cut.", texts()},
                {"suggestions", "What the model may try instead.", texts()},
                {"context", "The `context` of the request, if it had one.", any_object()}});
    result["required"] = {"success", "userFeedback", "previewRefreshNeeded"};
    out["ToolResult"] = described(std::move(result), "What a tool answers, whether it succeeded or not.");
}

void add_events(Schema& out) {
    Schema status = one_of({"started", "running"});
    out["ToolCallProgress"] =
        described(object(Members::required,
                         {{"type", "The type.", constant("tool_progress")},
                          {"toolCallId", "The `toolCallId` of the context, or null.", nullable_text()},
                          {"toolName", "The tool.", text()},
                          {"status", "started: once, first. running: it is at work.", std::move(status)},
                          {"progress", "The part that is done, from 0 to 1; null: not known.",
                           Schema{{"type", {"number", "null"}}, {"minimum", 0}, {"maximum", 1}}},
                          {"message", "How far it is, for people; may be empty.", text()}}),
                  "A tool is at work.");
    out["ToolCallResult"] =
        described(object(Members::required,
                         {{"type", "The type.", constant("tool_result")},
                          {"toolCallId", "The `toolCallId` of the context, or null.", nullable_text()},
                          {"toolName", "The tool.", text()},
                          {"result", "The result.", ref("ToolResult")}}),
                  "The result of the tool: the last frame.");
    out["ToolCallError"] =
        described(object(Members::required, {{"type", "The type.", constant("error")},
                                             {"code", "The stable word of the error.", ref("ErrorCode")},
                                             {"detail", "What is wrong, for people.", text()}}),
                  "The call broke off, as by the end of the sandbox: the last frame.");
    out["ToolStream"] = described(
        text(),
        "Server-Sent Events without ids: `data` is a ToolCallProgress, or the one frame that ends them.");
    out["ToolStream"]["contentMediaType"] = "text/event-stream";
    out["ToolStream"]["contentSchema"] =
        any_of_these({ref("ToolCallProgress"), ref("ToolCallResult"), ref("ToolCallError")});
}

}  // namespace

void add_tool_schemas(Schema& out) {
    out["CallTool"] = described(
        object(
            Members::optional,
            {{"sandboxId",
              "The sandbox to work in, as a conversation or a sandbox has it. Without it `context.sandboxId` "
              "counts; "
              "without both the result says so.",
              nullable_text()},
             {"args", "The arguments of the tool, as `GET /v1/tools` has their schema.", any_object()},
             {"context",
              "Anything of yours, at most 16 KiB: it is logged and comes back in the result. A `toolCallId` "
              "in it is in the events, too; a `sandboxId` in it is the sandbox to work in. null: none.",
              any_of_these({any_object(), Schema{{"type", "null"}}})}},
            {"args"}),
        "A call of a tool.");
    add_tool_result(out);
    add_events(out);
    Schema formats = Schema::array();
    for (const std::string_view word : k_tool_formats)
        formats.push_back(word);
    out["ToolList"] = described(
        object(Members::required, {{"format", "The form that was asked for.",
                                    Schema{{"type", "string"}, {"enum", std::move(formats)}}},
                                   {"tools", "The tools in that form: the `tools` of a request to a model.",
                                    list_of(any_object())}}),
        "The tools for models.");
}

}  // namespace atl::http
