#include "http/egress/client_hello.hpp"

#include <algorithm>
#include <optional>

namespace atl::http {
namespace {

constexpr std::size_t k_record_header_bytes = 5;         // RFC 8446 section 5.1
constexpr std::size_t k_max_record_bytes = 16UL * 1024;  // the same
constexpr std::size_t k_handshake_header_bytes = 4;      // RFC 8446 section 4
constexpr std::size_t k_max_method_bytes = 32;
constexpr std::size_t k_max_server_name_bytes = 253;  // RFC 1035 section 2.3.4, as text
constexpr std::size_t k_hello_fixed_bytes = 2 + 32;   // version and random
constexpr unsigned k_handshake = 22;
constexpr unsigned k_client_hello = 1;
constexpr unsigned k_server_name_extension = 0;  // RFC 6066 section 3
constexpr unsigned k_host_name = 0;
constexpr const char* k_malformed = "the ClientHello is malformed";
constexpr const char* k_malformed_record = "a record is malformed";
constexpr const char* k_malformed_name = "the server name is malformed";

unsigned byte_at(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]);
}

/// Takes a number of `size` bytes away from `text`; none if there are fewer.
std::optional<std::size_t> take_number(std::string_view& text, std::size_t size) {
    if (text.size() < size)
        return std::nullopt;
    std::size_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
        value = value << 8U | byte_at(text, i);
    text.remove_prefix(size);
    return value;
}

/// Takes a vector whose length is in front of it in `size` bytes (RFC 8446 section 3.4).
std::optional<std::string_view> take_vector(std::string_view& text, std::size_t size) {
    const auto length = take_number(text, size);
    if (!length || text.size() < *length)
        return std::nullopt;
    const auto vector = text.substr(0, *length);
    text.remove_prefix(*length);
    return vector;
}

bool is_of_method(char byte) {
    return (byte >= 'A' && byte <= 'Z') || byte == '-';
}

char lower(char byte) {
    return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte - 'A' + 'a') : byte;
}

bool is_of_name(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' ||
           byte == '-';
}

}  // namespace

ClientHelloReader::Found ClientHelloReader::refuse(const char* reason) noexcept {
    reason_ = reason;
    return Found::invalid;
}

ClientHelloReader::Found ClientHelloReader::read(std::string_view input) {
    input = input.substr(0, k_max_client_hello_bytes);
    if (input.empty())
        return Found::more;
    if (byte_at(input, 0) != k_handshake)
        return read_request(input);
    const Found found = read_records(input);
    if (found == Found::more && input.size() == k_max_client_hello_bytes)
        return refuse("the ClientHello is too long");
    return found;
}

ClientHelloReader::Found ClientHelloReader::read_request(std::string_view input) {
    const std::size_t most = std::min(input.size(), k_max_method_bytes);
    while (read_ < most && is_of_method(input[read_]))
        ++read_;
    if (read_ == most)
        return most == k_max_method_bytes ? Found::other : Found::more;
    if (read_ == 0 || input[read_] != ' ')
        return Found::other;
    if (read_ + 1 == input.size())
        return Found::more;
    return input[read_ + 1] == '/' || input[read_ + 1] == '*' ? Found::request : Found::other;
}

ClientHelloReader::Found ClientHelloReader::read_records(std::string_view input) {
    for (;;) {
        if (record_left_ == 0) {
            // The version's second byte says nothing (RFC 8446 section 5.1).
            if (input.size() > read_ + 1 && byte_at(input, read_ + 1) != 3)
                return read_ == 0 ? Found::other : refuse(k_malformed_record);
            if (input.size() < read_ + k_record_header_bytes)
                return Found::more;
            std::string_view length = input.substr(read_ + 3, 2);
            record_left_ = *take_number(length, 2);
            if (byte_at(input, read_) != k_handshake || record_left_ == 0 ||
                record_left_ > k_max_record_bytes)
                return refuse(k_malformed_record);
            read_ += k_record_header_bytes;
        }
        const auto piece = input.substr(read_, record_left_);
        if (piece.empty())
            return Found::more;
        message_ += piece;
        read_ += piece.size();
        record_left_ -= piece.size();
        if (const Found found = read_message(); found != Found::more)
            return found;
    }
}

/// The verdict on the message, as soon as it is whole or cannot be one that is taken.
ClientHelloReader::Found ClientHelloReader::read_message() {
    if (byte_at(message_, 0) != k_client_hello)
        return refuse("the first message is no ClientHello");
    if (message_.size() < k_handshake_header_bytes)
        return Found::more;
    std::string_view rest = std::string_view(message_).substr(1);
    const std::size_t size = *take_number(rest, k_handshake_header_bytes - 1);
    if (size > k_max_client_hello_bytes)
        return refuse("the ClientHello is too long");
    if (rest.size() < size)
        return Found::more;
    if (rest.size() > size || record_left_ > 0)
        return refuse("another message follows in the record of the ClientHello");
    if (rest.size() < k_hello_fixed_bytes)
        return refuse(k_malformed);
    rest.remove_prefix(k_hello_fixed_bytes);
    const auto session = take_vector(rest, 1);
    const auto suites = session ? take_vector(rest, 2) : std::nullopt;
    const auto compressions = suites ? take_vector(rest, 1) : std::nullopt;
    if (!compressions || session->size() > 32 || suites->size() < 2 || suites->size() % 2 != 0 ||
        compressions->empty())
        return refuse(k_malformed);
    if (rest.empty())
        return Found::no_name;
    auto extensions = take_vector(rest, 2);
    if (!extensions || !rest.empty())
        return refuse(k_malformed);
    std::optional<std::string_view> names;
    while (!extensions->empty()) {
        const auto type = take_number(*extensions, 2);
        const auto value = type ? take_vector(*extensions, 2) : std::nullopt;
        if (!value)
            return refuse(k_malformed);
        if (*type != k_server_name_extension)
            continue;
        if (names)
            return refuse("the ClientHello has two server names");
        names = value;
    }
    return names ? read_names(*names) : Found::no_name;
}

ClientHelloReader::Found ClientHelloReader::read_names(std::string_view list) {
    const auto names = take_vector(list, 2);
    std::string_view rest = names.value_or(std::string_view());
    const auto type = take_number(rest, 1);
    const auto name = type ? take_vector(rest, 2) : std::nullopt;
    if (!name || !list.empty() || *type != k_host_name)
        return refuse(k_malformed_name);
    if (!rest.empty())
        return refuse("the ClientHello has two server names");
    name_ = *name;
    std::transform(name_.begin(), name_.end(), name_.begin(), lower);
    if (name_.ends_with('.'))
        name_.pop_back();
    if (name_.empty() || name_.size() > k_max_server_name_bytes ||
        !std::all_of(name_.begin(), name_.end(), is_of_name))
        return refuse(k_malformed_name);
    return Found::name;
}

}  // namespace atl::http
