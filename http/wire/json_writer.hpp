// Writes JSON text in the order of the calls, straight into a string. Each byte that is not valid UTF-8
// becomes U+FFFD, so the output is always valid. Nesting is the caller's: no checks in a release build.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace atl::http {

class JsonWriter {
  public:
    /// Appends to `out`, which must outlive the writer.
    explicit JsonWriter(std::string& out) : out_(out) {}

    JsonWriter& begin_object();
    JsonWriter& end_object();
    JsonWriter& begin_array();
    JsonWriter& end_array();
    JsonWriter& key(std::string_view name);
    JsonWriter& string(std::string_view text);
    JsonWriter& string_or_null(const std::optional<std::string>& text);
    JsonWriter& number(std::uint64_t value);
    JsonWriter& null();
    /// `json` must be the text of one JSON value.
    JsonWriter& raw(std::string_view json);

  private:
    void separate();

    std::string& out_;
    bool first_ = true;
};

}  // namespace atl::http
