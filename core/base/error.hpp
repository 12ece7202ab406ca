// The one error vocabulary of the server: an enum, an Error that adds a sentence for a human reader, and
// Result<T>. errors.def is the table of the codes; http/server/problem.hpp tells an error over HTTP. Expected
// failures travel as values; exceptions are for start-up configuration and broken invariants. errno belongs
// to the log line, not to an Error.
#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace atl::base {

enum class Errc : std::uint8_t {
#define ATL_ERROR(code, ...) code,
#include "core/base/errors.def"
};

/// The stable snake_case word of an error, as clients see it in `code`.
std::string_view code_name(Errc code) noexcept;

/// An error with a sentence that names the fault and, where possible, the remedy.
class Error {
  public:
    Error(Errc code, std::string detail) : code_(code), detail_(std::move(detail)) {}
    explicit Error(Errc code) : code_(code) {}
    /// With a time after which trying again makes sense.
    Error(Errc code, std::string detail, std::chrono::seconds retry_after)
        : code_(code), detail_(std::move(detail)), retry_after_(retry_after) {}
    Error() = default;  // Result<T>::error() of a success

    /// The same error, about the member of the request's body that `json_pointer` names (RFC 6901).
    Error at(std::string json_pointer) && {
        pointer_ = std::move(json_pointer);
        return std::move(*this);
    }

    /// The same error with one more member of the problem that clients see; `json` is the text of its value.
    Error with(std::string name, std::string json) && {
        members_.emplace_back(std::move(name), std::move(json));
        return std::move(*this);
    }

    /// The same error with another time after which trying again makes sense.
    Error after(std::chrono::seconds retry_after) && {
        retry_after_ = retry_after;
        return std::move(*this);
    }

    Errc code() const noexcept { return code_; }
    const std::string& detail() const noexcept { return detail_; }
    /// Zero: not known.
    std::chrono::seconds retry_after() const noexcept { return retry_after_; }
    /// The JSON pointer of the member of the body that is at fault; empty: none is, or it is not known.
    const std::string& pointer() const noexcept { return pointer_; }
    using Members = std::vector<std::pair<std::string, std::string>>;
    const Members& members() const noexcept { return members_; }

  private:
    Errc code_ = Errc::internal;
    std::string detail_;
    std::chrono::seconds retry_after_{0};
    std::string pointer_;
    Members members_;
};

/// Thrown by Result::value() on an error: only ever a broken invariant.
class BadResult : public std::logic_error {
  public:
    explicit BadResult(const Error& error)
        : std::logic_error(std::string(code_name(error.code())) + ": " + error.detail()) {}
};

// Found by argument-dependent look-up from boost::system::result::value().
[[noreturn]] inline void throw_exception_from_error(const Error& error, const boost::source_location&) {
    throw BadResult(error);
}

template <class T>
using Result = boost::system::result<T, Error>;

/// "open /x: Permission denied (EACCES)": the text of a failed system call for an operator.
std::string errno_text(std::string_view what, int error_number);

}  // namespace atl::base
