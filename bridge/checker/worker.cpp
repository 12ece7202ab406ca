#include "bridge/checker/worker.hpp"

#include <algorithm>
#include <charconv>
#include <exception>
#include <iterator>
#include <optional>
#include <utility>

#include "bridge/checker/fields.hpp"
#include "core/base/execution_limits.hpp"
#include "core/base/json_dump.hpp"
#include "core/base/json_parser.hpp"
#include "core/execution/declarations.hpp"
#include "core/execution/offloaded_checks.hpp"
#include "core/execution/tool_set.hpp"

namespace atl::bridge::checker {
namespace {

// Schemas of the runs of a moment, compiled: each call names its schema again.
constexpr std::size_t k_known_bytes = 128UL * 1024 * 1024;
constexpr std::size_t k_known_schemas = 256;

using Fields = std::vector<std::string_view>;

std::string told(std::string_view word, std::string_view text) {
    std::string out;
    append_field(out, word);
    append_field(out, text);
    return out;
}

std::string told(const base::Error& refusal) {
    std::string out = told("no", refusal.detail());
    append_field(out, base::code_name(refusal.code()));
    return out;
}

std::string ok() {
    std::string out;
    append_field(out, "ok");
    return out;
}

/// `width` fields each, behind the first one.
std::vector<execution::ToolSpec> specs_of(const Fields& fields, std::size_t width) {
    std::vector<execution::ToolSpec> specs;
    for (std::size_t at = 1; at + width <= fields.size(); at += width) {
        execution::ToolSpec& spec = specs.emplace_back();
        spec.name = fields[at];
        spec.schema_json = fields[at + 1];
        if (width > 2)
            spec.description = fields[at + 2];
    }
    return specs;
}

std::string answer_verify(const Fields& fields) {
    const auto verified = execution::ToolSet::verify(specs_of(fields, 2));
    return verified ? told("ok", *verified) : told(verified.error());
}

std::string answer_declare(const Fields& fields) {
    const auto specs = specs_of(fields, 3);
    const auto verified = execution::ToolSet::verify(specs);
    return verified ? told("ok", execution::typescript_declarations(specs)) : told(verified.error());
}

std::string answer_frame(const Fields& fields) {
    std::uint64_t max_value_bytes = 0;
    std::from_chars(fields[1].data(), fields[1].data() + fields[1].size(), max_value_bytes);
    std::string out = ok();
    append_frame_fields(out, runner::read_frame(fields[2], max_value_bytes));
    return out;
}

/// Empty if it is longer than a value may be.
std::string text_of_value(const nlohmann::json& value) {
    std::string text = base::json_dump(value);
    if (text.size() > base::k_max_execution_value_bytes)
        text.clear();
    return text;
}

std::string answer_value(const Fields& fields) {
    const auto parsed = base::parse_json(fields[1]);
    return parsed ? told("ok", text_of_value(*parsed)) : told(parsed.error());
}

/// Takes the schemas out of `tools`. A schema that is too long is refused for its length alone.
std::vector<std::string> take_schemas(nlohmann::json& tools) {
    std::vector<std::string> schemas;
    for (nlohmann::json& tool : tools) {
        const auto schema = tool.find("inputSchema");
        if (schema == tool.end() || !schema->is_object())
            continue;
        std::string& text = schemas.emplace_back(schema->dump());
        text.resize(std::min(text.size(), execution::k_schema_limit_bytes + 1));
        *schema = nlohmann::json::object();
    }
    return schemas;
}

std::string answer_split(const Fields& fields) {
    auto parsed = base::parse_json(fields[2]);
    if (!parsed)
        return told(parsed.error());
    std::vector<std::string> values;
    if (const auto found = parsed->find(std::string(fields[1])); found != parsed->end()) {
        if (fields[1] == execution::k_tools_member)
            values = take_schemas(*found);
        else
            values.push_back(text_of_value(std::exchange(*found, nullptr)));
    }
    std::string out = told("ok", parsed->dump());
    for (const std::string& value : values)
        append_field(out, value);
    return out;
}

bool has_control_byte(std::string_view json) {
    bool has = false;
    // Without an early end, so that many bytes are compared at once.
    for (const char byte : json)
        has |= static_cast<unsigned char>(byte) < 0x20;
    return has;
}

}  // namespace

std::string Worker::answer(std::string_view request) {
    try {
        const auto fields = split_fields(request);
        return fields && !fields->empty() ? handle(*fields) : told("failed", "no request");
    } catch (const std::exception& fault) {
        // Out of memory: what is kept may be why.
        known_.clear();
        known_bytes_ = 0;
        return told("failed", fault.what());
    }
}

std::string Worker::handle(const Fields& fields) {
    const std::string_view what = fields.front();
    if (what == "verify")
        return answer_verify(fields);
    if (what == "declare")
        return answer_declare(fields);
    if (what == "check" && fields.size() == 4)
        return check(fields);
    if (what == "frame" && fields.size() == 3)
        return answer_frame(fields);
    if (what == "split" && fields.size() == 3)
        return answer_split(fields);
    if (what == "value" && fields.size() == 2)
        return answer_value(fields);
    return told("failed", "an unknown request");
}

std::string Worker::check(const Fields& fields) {
    const auto schema = schema_of(fields[2]);
    if (!schema)
        return told(schema.error());
    const auto checked = (*schema)->check(fields[1], fields[3]);
    return checked ? ok() : told(checked.error());
}

base::Result<const execution::ArgumentSchema*> Worker::schema_of(std::string_view text) {
    const auto found =
        std::find_if(known_.begin(), known_.end(), [&](const Known& it) { return it.text == text; });
    if (found != known_.end()) {
        known_.splice(known_.begin(), known_, found);
        return &known_.front().schema;
    }
    auto compiled = execution::ArgumentSchema::compile(text);
    if (!compiled)
        return compiled.error();
    known_bytes_ += text.size() + compiled->memory_bytes();
    known_.push_front({std::string(text), std::move(*compiled)});
    while (known_.size() > 1 && (known_bytes_ > k_known_bytes || known_.size() > k_known_schemas)) {
        known_bytes_ -= known_.back().text.size() + known_.back().schema.memory_bytes();
        known_.pop_back();
    }
    return &known_.front().schema;
}

void append_frame_fields(std::string& out, const runner::RunnerFrame& frame) {
    for (const auto& text : frame.texts) {
        append_length(out, text ? text->size() + 1 : 0);
        if (text)
            out.append("+").append(*text);
    }
}

std::optional<runner::RunnerFrame> frame_of(const Fields& fields) {
    runner::RunnerFrame frame;
    if (fields.size() != frame.texts.size())
        return std::nullopt;
    for (std::size_t i = 0; i < fields.size(); ++i)
        if (!fields[i].empty())
            frame.texts[i] = std::string(fields[i].substr(1));
    // They go into events and pages as they are: nothing in them may look like the end of an event.
    using Member = runner::RunnerFrame::Member;
    for (const Member member : {Member::text, Member::args, Member::value})
        if (const std::string* const json = frame.find(member); json != nullptr && has_control_byte(*json))
            return std::nullopt;
    return frame;
}

}  // namespace atl::bridge::checker
