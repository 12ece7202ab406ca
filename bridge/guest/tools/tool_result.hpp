// The answer of a tool: the result object of docs/tools.md, and the small writer of JSON text that it is made
// with. Texts from files may be of megabytes and are escaped once, into the text that is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace atl::guest {

/// The text of a JSON object, member by member.
class JsonObject {
  public:
    /// `value` need not be UTF-8: what is not becomes U+FFFD.
    JsonObject& text(std::string_view name, std::string_view value);
    JsonObject& number(std::string_view name, std::uint64_t value);
    JsonObject& flag(std::string_view name, bool value);
    /// `json` is JSON text.
    JsonObject& raw(std::string_view name, std::string_view json);
    JsonObject& object(std::string_view name, const JsonObject& inner);
    JsonObject& texts(std::string_view name, const std::vector<std::string>& values);

    /// Room for members of so many bytes, which then are not copied while it grows.
    void reserve(std::size_t bytes) { members_.reserve(bytes); }
    bool is_empty() const noexcept { return members_.empty(); }
    /// The members without braces.
    const std::string& members() const noexcept { return members_; }
    std::string close() && { return "{" + std::move(members_) + "}"; }

  private:
    void key(std::string_view name);

    std::string members_;
};

/// Appends `text` as a JSON string; what is not UTF-8 becomes U+FFFD.
void append_repaired(std::string& out, std::string_view text);

struct ToolResult {
    bool success = true;
    JsonObject data;
    std::string user_feedback;               // for the person in the chat
    std::string error;                       // for the model; empty on success
    std::string_view error_code;             // a word of base::tool_error
    JsonObject details;                      // further technicalDetails
    std::vector<std::string> changed_files;  // absolute paths
    std::vector<std::string> warnings;
    std::vector<std::string> suggestions;

    /// `error` is a sentence for the model; the person is told that `doing` failed, and `why` in a few words.
    static ToolResult failure(std::string_view code, std::string error, std::string user_feedback);

    /// The result object; `context` is the text of an object, or empty: there is none.
    std::string json(std::string_view context) const;
};

}  // namespace atl::guest
