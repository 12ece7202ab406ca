#include "http/egress/hello_gate.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace atl::http {
namespace {

// RFC 8446 section 5.1 and 5.2.
constexpr std::size_t k_header_bytes = 5;
constexpr std::size_t k_max_fragment_bytes = 16UL * 1024 + 256;
constexpr unsigned k_change_cipher_spec = 20;
constexpr unsigned k_alert = 21;
constexpr unsigned k_hello_record = 22;
constexpr unsigned k_application_data = 23;
constexpr unsigned k_server_hello = 2;
// The type, the length and the version of a ServerHello; then its random, which says that it is a
// HelloRetryRequest (RFC 8446 section 4.1.3).
constexpr std::size_t k_random_at = 1 + 3 + 2;
constexpr std::string_view k_retry_random =
    "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
    "\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c";
static_assert(k_retry_random.size() == 32);

unsigned octet(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]);
}

std::size_t fragment_bytes(std::string_view header) {
    return std::size_t{octet(header, 3)} << 8U | octet(header, 4);
}

/// The bytes of the record at the beginning of `text`, if it carries no ClientHello: change_cipher_spec, an
/// alert, or application_data, which a server that sends a HelloRetryRequest skips as early data (RFC 8446
/// section 4.2.10). 0: its header is not whole. Nothing: any other record, and what is none. Precondition:
/// there is a byte.
std::optional<std::size_t> bytes_of_harmless(std::string_view text) {
    const unsigned type = octet(text, 0);
    if (type != k_change_cipher_spec && type != k_alert && type != k_application_data)
        return std::nullopt;
    if (text.size() < k_header_bytes)
        return 0;
    const std::size_t fragment = fragment_bytes(text);
    if (octet(text, 1) != 3 || fragment > k_max_fragment_bytes)
        return std::nullopt;
    return k_header_bytes + fragment;
}

}  // namespace

HelloGate::HelloGate(std::size_t first_bytes, std::unique_ptr<EgressOpeningReader> second, Judge is_good)
    : free_(first_bytes), second_(std::move(second)), is_good_(std::move(is_good)) {}

std::size_t HelloGate::open_for(std::string_view waiting, bool is_all) {
    if (state_ == State::first || state_ == State::retried)
        look(waiting, is_all);
    if (state_ == State::open)
        return waiting.size();
    return is_shut() ? 0 : std::min(free_, waiting.size());
}

/// Goes on behind what may pass: over harmless records, and to the verdict on a second ClientHello.
void HelloGate::look(std::string_view waiting, bool is_all) {
    while (free_ < waiting.size()) {
        const std::string_view rest = waiting.substr(free_);
        const auto harmless = bytes_of_harmless(rest);
        if (harmless.value_or(0) > 0) {
            free_ += *harmless;
            continue;
        }
        if (state_ == State::first || (harmless && !is_all))
            return;
        const EgressOpening opening = second_->read(rest);
        if (opening == EgressOpening::more && !is_all)
            return;
        state_ = is_good_(opening, *second_) ? State::open : State::shut;
        second_ = nullptr;
        return;
    }
}

void HelloGate::passed(std::size_t count) {
    free_ -= std::min(free_, count);
}

void HelloGate::saw(std::string_view answer) {
    while (state_ == State::first && !answer.empty()) {
        if (record_left_ == 0) {
            header_ += answer.front();
            answer.remove_prefix(1);
            read_header();
            continue;
        }
        const auto piece = answer.substr(0, record_left_);
        answer.remove_prefix(piece.size());
        record_left_ -= piece.size();
        if (is_handshake_)
            read_message(piece);
    }
}

void HelloGate::saw_end() {
    if (state_ == State::first)
        state_ = State::open;
}

// Servers of TLS 1.2 may send an alert, which is a warning, before their ServerHello (RFC 6066 section 3).
void HelloGate::read_header() {
    const unsigned type = octet(header_, 0);
    is_handshake_ = type == k_hello_record;
    if ((!is_handshake_ && type != k_alert && type != k_change_cipher_spec) ||
        (header_.size() > 1 && octet(header_, 1) != 3)) {
        state_ = State::open;  // it speaks no TLS
    } else if (header_.size() == k_header_bytes) {
        record_left_ = fragment_bytes(header_);
        header_.clear();
    }
}

void HelloGate::read_message(std::string_view piece) {
    constexpr std::size_t k_wanted = k_random_at + k_retry_random.size();
    message_ += piece.substr(0, k_wanted - message_.size());
    if (octet(message_, 0) != k_server_hello)
        state_ = State::open;
    else if (message_.size() == k_wanted)
        state_ = message_.ends_with(k_retry_random) ? State::retried : State::open;
}

}  // namespace atl::http
