#include "http/api/exec_form.hpp"

#include <utility>

#include "core/base/base64.hpp"
#include "core/base/limits.hpp"
#include "core/sandbox/env_policy.hpp"
#include "http/api/forms.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

constexpr std::string_view k_plain_text = "text that is not empty and has no NUL character";

bool is_plain(const std::string& text) {
    return !text.empty() && text.find('\0') == std::string::npos;
}

void read_argv(ObjectReader& reader, std::vector<std::string>& argv) {
    const Json* list = reader.any("argv");
    if (list == nullptr)
        return;
    if (!list->is_array() || list->empty())
        return reader.fail("argv", "an array of strings with at least one");
    if (list->size() > base::k_max_exec_arguments)
        return reader.fail("argv",
                           "an array of at most " + std::to_string(base::k_max_exec_arguments) + " strings");
    for (const Json& item : *list) {
        const std::string* text = item.get_ptr<const std::string*>();
        const bool is_name = argv.empty();
        if (text == nullptr || text->find('\0') != std::string::npos || (is_name && text->empty())) {
            const std::string at = std::to_string(argv.size());
            std::string detail = "`argv[" + at + "]` must be a string without NUL characters";
            detail += is_name ? ", and not empty." : ".";
            return reader.fail(Error(Errc::invalid_field, std::move(detail)).at("/argv/" + at));
        }
        argv.push_back(*text);
    }
}

void read_input(ObjectReader& reader, ExecForm& form) {
    auto text = reader.string("stdin", base::k_max_body_bytes);
    const auto coded = reader.string("stdinBase64", base::k_max_body_bytes);
    if (!text && !coded)
        return;
    if (text && coded)
        return reader.fail("stdinBase64", "absent where `stdin` is given");
    if (coded)
        text = base::decode_base64(*coded);
    if (!text)
        return reader.fail("stdinBase64", "base64 with padding");
    form.spec.stdin_kind = sandbox::RunSpec::Stdin::pipe;
    form.input = std::move(*text);
}

}  // namespace

std::optional<std::string> read_plain(ObjectReader& reader, std::string_view name, std::size_t limit_bytes) {
    auto text = reader.string(name, limit_bytes);
    if (text && !is_plain(*text)) {
        reader.fail(name, k_plain_text);
        return std::nullopt;
    }
    return text;
}

void read_program(ObjectReader& reader, sandbox::RunSpec& spec) {
    if (const Json* command = reader.any("command"); command != nullptr && command->is_array())
        reader.fail("command", "a string; the array with a program and its arguments is `argv`");
    spec.command = read_plain(reader, "command", base::k_max_body_bytes);
    read_argv(reader, spec.argv);
    if (!reader.failed() && spec.command.has_value() == !spec.argv.empty())
        reader.fail_missing(Error(Errc::invalid_field, "Give exactly one of `command` and `argv`."));
    spec.directory = read_plain(reader, "cwd", base::k_max_path_bytes).value_or("");
    spec.env = read_env(reader);
    if (const auto checked = sandbox::check_env(spec.env); checked.has_error()) {
        Error error = checked.error();
        reader.fail(std::move(error).at("/env"));
    }
}

base::Result<ExecForm> read_exec_form(const Json& body) {
    ObjectReader reader(body);
    ExecForm form;
    read_program(reader, form.spec);
    read_input(reader, form);
    form.spec.timeout = base::k_default_exec_timeout;
    if (const auto timeout = reader.integer("timeoutMs", k_exec_timeout_range))
        form.spec.timeout = std::chrono::milliseconds(*timeout);
    if (const auto bytes = reader.integer("maxOutputBytes", k_exec_output_range))
        form.max_output_bytes = static_cast<std::size_t>(*bytes);
    if (auto result = reader.finish(); result.has_error())
        return result.error();
    return form;
}

}  // namespace atl::http
