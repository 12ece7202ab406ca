// A pass over the text of a JSON object that hands out its top-level members without building a document:
// strings decoded, objects and arrays as the untouched span of text they came in. nlohmann_json's SAX parser
// does the work and checks syntax, UTF-8 and number range (1e400 is refused: no JSON library could keep it).
// Nothing recurses and nothing is stored, so depth costs at most one bit a level until it is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace atl::bridge {

/// The kind of a value, as a bit, so that a rule can allow several.
enum JsonKind : std::uint8_t {
    k_string = 1,
    k_bool = 2,
    k_integer = 4,  // written without point or exponent, within 64 bits
    k_other_number = 8,
    k_null = 16,
    k_object = 32,
    k_array = 64,
};

/// The handlers that scan_object() calls; each returns false to stop the scan early. Derive and hide those
/// that you need.
struct ObjectVisitor {
    bool on_string(const std::string& /*key*/, std::string& /*value: may be moved from*/) { return true; }
    bool on_bool(const std::string& /*key*/, bool /*value*/) { return true; }
    bool on_object(const std::string& /*key*/, std::string_view /*span*/) { return true; }
    bool on_array(const std::string& /*key*/, std::string_view /*span*/) { return true; }
    bool on_unsigned(const std::string& /*key*/,
                     std::uint64_t /*value: written without sign, point or exponent*/) {
        return true;
    }
    bool on_other(const std::string& /*key: of another number or null*/, std::string_view /*text*/) {
        return true;
    }
    /// True if on_inner() is to be called for the members of this object.
    bool enters(const std::string& /*key*/) { return false; }
    /// A member of such an object; `text` of a string only, else empty.
    bool on_inner(const std::string& /*name*/, JsonKind /*kind*/, std::string_view /*text*/) { return true; }
};

enum class Scan {
    complete,   // the text is one well-formed object
    stopped,    // a handler returned false
    malformed,  // not JSON, not UTF-8, a number out of range, or trailing bytes
    too_deep,   // nested deeper than allowed
    no_object,  // JSON, but not an object
};

namespace detail {

/// An input iterator that tells the scan how far the lexer has read: in a SAX callback for a brace or a
/// bracket that is right behind it.
class CountingIterator {
  public:
    using difference_type = std::ptrdiff_t;
    using value_type = char;
    using pointer = const char*;
    using reference = const char&;
    using iterator_category = std::input_iterator_tag;

    CountingIterator(const char* at, const char** position) : at_(at), position_(position) {}
    reference operator*() const { return *at_; }
    CountingIterator& operator++() {
        *position_ = ++at_;
        return *this;
    }
    CountingIterator operator++(int) {
        CountingIterator before = *this;
        ++*this;
        return before;
    }
    bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
    bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

  private:
    const char* at_;
    const char** position_;
};

/// The SAX handler behind scan_object(); names and signatures are nlohmann's json_sax.
template <class Visitor>
class ObjectSax {
  public:
    using Json = nlohmann::json;

    ObjectSax(const char* begin, std::size_t max_depth, Visitor& visitor)
        : position(begin), max_depth_(max_depth), visitor_(visitor) {}

    bool null() { return other(k_null, "null"); }
    bool boolean(bool value) {
        return depth_ > 1 ? inner(k_bool) : scalar([&] { return visitor_.on_bool(key_, value); });
    }
    bool number_integer(Json::number_integer_t value) { return other(k_integer, std::to_string(value)); }
    bool number_unsigned(Json::number_unsigned_t value) {
        return depth_ > 1 ? inner(k_integer) : scalar([&] { return visitor_.on_unsigned(key_, value); });
    }
    bool number_float(Json::number_float_t, const std::string& text) { return other(k_other_number, text); }
    bool string(std::string& value) {
        return depth_ > 1 ? inner(k_string, value) : scalar([&] { return visitor_.on_string(key_, value); });
    }
    bool binary(Json::binary_t&) { return fail(Scan::malformed); }
    bool start_object(std::size_t) {
        if (!inner(k_object) || !open())
            return false;
        if (depth_ == 2)
            enters_ = visitor_.enters(key_);
        return true;
    }
    bool key(std::string& name) {
        if (depth_ == 1)
            key_.swap(name);
        else if (depth_ == 2 && enters_)
            inner_key_.swap(name);
        return true;
    }
    bool end_object() { return --depth_ != 1 || check(visitor_.on_object(key_, span())); }
    bool start_array(std::size_t) {
        if (depth_ == 0)
            return fail(Scan::no_object);
        if (depth_ == 1)
            enters_ = false;
        return inner(k_array) && open();
    }
    bool end_array() { return --depth_ != 1 || check(visitor_.on_array(key_, span())); }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) {
        return fail(Scan::malformed);
    }

    const char* position;  // moved by the iterator
    Scan result = Scan::complete;

  private:
    bool other(JsonKind kind, std::string_view text) {
        return depth_ > 1 ? inner(kind) : scalar([&] { return visitor_.on_other(key_, text); });
    }
    bool inner(JsonKind kind, std::string_view text = {}) {
        return depth_ != 2 || !enters_ || check(visitor_.on_inner(inner_key_, kind, text));
    }
    template <class Call>
    bool scalar(Call call) {
        return depth_ == 0 ? fail(Scan::no_object) : check(call());
    }
    bool open() {
        if (depth_ == max_depth_)
            return fail(Scan::too_deep);
        if (depth_++ == 1)
            span_begin_ = position - 1;
        return true;
    }
    std::string_view span() const { return {span_begin_, static_cast<std::size_t>(position - span_begin_)}; }
    bool check(bool go_on) { return go_on || fail(Scan::stopped); }
    bool fail(Scan why) {
        result = why;
        return false;
    }

    std::size_t depth_ = 0;
    const std::size_t max_depth_;
    const char* span_begin_ = nullptr;
    std::string key_;
    bool enters_ = false;    // the members of the object at depth 2 are told
    std::string inner_key_;  // of such a member
    Visitor& visitor_;
};

}  // namespace detail

/// Scans `text`. Handlers are called in the order of the text, for duplicates too, before anything behind
/// the member is checked. Spans are views of `text`. A NUL ends the text for the lexer: callers that do not
/// want one refuse it first.
template <class Visitor>
Scan scan_object(std::string_view text, std::size_t max_depth, Visitor& visitor) {
    detail::ObjectSax<Visitor> sax(text.data(), max_depth, visitor);
    const detail::CountingIterator begin(text.data(), &sax.position);
    const detail::CountingIterator end(text.data() + text.size(), &sax.position);
    if (!nlohmann::json::sax_parse(begin, end, &sax) && sax.result == Scan::complete)
        return Scan::malformed;
    return sax.result;
}

}  // namespace atl::bridge
