// Host names of previews: one label made from a pattern with {id}, and perhaps {port}, below a domain. A
// value that is made at start and does not change. Not here: which sandbox has the id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace atl::http {

/// The preview that a host name asks for.
struct PreviewName {
    std::string sandbox_id;             // lower case
    std::optional<std::uint16_t> port;  // none: the first that the preview shows
};

class PreviewNames {
  public:
    /// `patterns`: of labels, each with {id} once and {port} at most once, separated by commas:
    /// "preview-{id},preview-{id}-{port}". Errors: invalid_field, also for what is no domain.
    static base::Result<PreviewNames> make(std::string_view domain, std::string_view patterns);

    /// True if names can be made below `domain`: it has labels of letters, digits and inner hyphens (RFC 1123
    /// section 2.1), and room for one more label.
    static bool is_domain(std::string_view domain) noexcept;

    const std::string& domain() const noexcept { return domain_; }
    /// The preview that `authority`, "host" or "host:port", asks for. Where it fits several patterns, the one
    /// with a port counts. Errors: host_not_allowed for a name that is not one label below the domain;
    /// invalid_request for a label that fits no pattern.
    base::Result<PreviewName> read(std::string_view authority) const;
    /// The host name of a preview without port; with the port that it shows first, where every pattern has
    /// one.
    std::string host(std::string_view sandbox_id, std::uint16_t first_port) const;
    /// The host name of any port; none where no pattern has one.
    std::optional<std::string> host_of_port(std::string_view sandbox_id, std::uint16_t port) const;

  private:
    // "preview-" ID "-" PORT "": what stands before, between and behind.
    struct Pattern {
        std::string before;
        std::string between;
        std::string behind;
        bool has_port = false;
        bool port_first = false;
    };
    static std::optional<Pattern> parse(std::string_view text);
    std::string fill(const Pattern& pattern, std::string_view sandbox_id, std::uint16_t port) const;
    static std::optional<PreviewName> match(const Pattern& pattern, std::string_view label);

    std::string domain_;
    std::vector<Pattern> patterns_;  // those with a port first
};

}  // namespace atl::http
