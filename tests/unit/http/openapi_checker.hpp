// Checks a response against the server's own OpenAPI document: path, status, media type and the body's
// schema.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/http_client.hpp"

namespace atl::test {

class OpenApiChecker {
  public:
    explicit OpenApiChecker(const std::string& document);

    /// Empty if the document allows this answer to `method` on `path`; otherwise the fault.
    std::string check(const std::string& method, const std::string& path, const HttpResponse& response) const;
    /// Empty if `value` is what `schema` says; otherwise the fault.
    std::string check_value(const nlohmann::json& schema, const nlohmann::json& value,
                            const std::string& where) const;
    const nlohmann::json& document() const noexcept { return document_; }
    /// The node itself, or what it refers to.
    const nlohmann::json& resolved(const nlohmann::json& node) const;

  private:
    std::string check_object(const nlohmann::json& schema, const nlohmann::json& value,
                             const std::string& where) const;
    const nlohmann::json* find_path(const std::string& path) const;

    nlohmann::json document_;
};

}  // namespace atl::test
