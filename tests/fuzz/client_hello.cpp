// The first bytes of a tunnel: the verdict does not depend on how they come, and a reader of its own that has
// the whole message finds the same name.
#include "http/egress/client_hello.hpp"

#include "tests/fuzz/support.hpp"

using namespace atl;
using fuzz::require;
using http::ClientHelloReader;
using Found = ClientHelloReader::Found;

namespace {

struct Verdict {
    Found found = Found::more;
    std::string name;
    std::string reason;

    bool operator==(const Verdict&) const = default;
};

Verdict read(std::string_view text, std::uint8_t seed) {
    ClientHelloReader reader;
    Verdict verdict;
    std::size_t come = 0;
    for (std::string_view piece : fuzz::cut(text, seed)) {
        come += piece.size();
        verdict.found = reader.read(text.substr(0, come));
        if (verdict.found != Found::more)
            break;
    }
    if (verdict.found == Found::name)
        verdict.name = reader.server_name();
    if (verdict.found == Found::invalid)
        verdict.reason = reader.reason();
    return verdict;
}

std::size_t number(std::string_view text, std::size_t at, std::size_t size) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
        value = value << 8U | static_cast<unsigned char>(text.at(at + i));
    return value;
}

/// The name in what was taken, by indices from the start of the message; empty: none. The bounds of at() are
/// its check.
std::string plain_name(std::string_view text) {
    std::string message;
    while (message.size() < 4 || message.size() < 4 + number(message, 1, 3)) {
        const std::size_t size = number(text, 3, 2);
        message += text.substr(5, size);
        text.remove_prefix(5 + size);
    }
    std::size_t at = 4 + 2 + 32;
    for (const std::size_t width : {1U, 2U, 1U})
        at += width + number(message, at, width);
    if (at == message.size())
        return {};
    at += 2;
    std::string name;
    while (at < message.size()) {
        if (number(message, at, 2) == 0)
            name = message.substr(at + 9, number(message, at + 7, 2));
        at += 4 + number(message, at + 2, 2);
    }
    require(at == message.size(), "the extensions end with the message");
    for (char& byte : name)
        byte = byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte;
    if (name.ends_with('.'))
        name.pop_back();
    return name;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto seed = input.byte();
    const auto text = input.rest();
    const Verdict verdict = read(text, seed);
    require(verdict == read(text, 1) && verdict == read(text, 0),
            "the verdict is the same however they come");
    require(verdict.found != Found::more || text.size() < http::k_max_client_hello_bytes,
            "a wait has an end");
    require(verdict.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-") == std::string::npos,
            "a name has no other characters");
    if (verdict.found == Found::name || verdict.found == Found::no_name)
        require(plain_name(text) == verdict.name, "the name is that of the message");
    return 0;
}
