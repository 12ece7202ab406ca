#include "http/wire/json_reader.hpp"

#include <algorithm>

#include "core/base/limits.hpp"
#include "core/base/log.hpp"
#include "core/base/nearest.hpp"
#include "http/wire/text.hpp"

namespace atl::http {
namespace {

using base::Errc;
using base::Error;

}  // namespace

ObjectReader::ObjectReader(const Json& value, std::string path) : path_(std::move(path)) {
    if (value.is_object()) {
        object_ = &value;
        return;
    }
    const std::string where = path_.empty() ? "The body" : '`' + path_.substr(0, path_.size() - 1) + '`';
    error_.emplace(Error(Errc::invalid_field, where + " must be a JSON object.").at(pointer_to("")));
}

const Json* ObjectReader::find(std::string_view name) {
    known_.emplace_back(name);
    if (object_ == nullptr || error_)
        return nullptr;
    const auto member = object_->find(known_.back());
    return member == object_->end() ? nullptr : &*member;
}

std::optional<std::string> ObjectReader::string(std::string_view name, std::size_t limit_bytes) {
    const Json* value = find(name);
    if (value == nullptr)
        return std::nullopt;
    if (!value->is_string()) {
        fail(name, "a string");
        return std::nullopt;
    }
    const auto& text = value->get_ref<const std::string&>();
    if (text.size() > limit_bytes) {
        fail(name, "at most " + std::to_string(limit_bytes) + " bytes long");
        return std::nullopt;
    }
    return text;
}

std::optional<std::uint64_t> ObjectReader::integer(std::string_view name, IntRange range) {
    const Json* value = find(name);
    if (value == nullptr)
        return std::nullopt;
    const bool fits = value->is_number_unsigned() && value->get<std::uint64_t>() >= range.least &&
                      value->get<std::uint64_t>() <= range.most;
    if (!fits) {
        fail(name, "an integer from " + std::to_string(range.least) + " to " + std::to_string(range.most));
        return std::nullopt;
    }
    return value->get<std::uint64_t>();
}

std::optional<bool> ObjectReader::boolean(std::string_view name) {
    const Json* value = find(name);
    if (value == nullptr)
        return std::nullopt;
    if (!value->is_boolean()) {
        fail(name, "true or false");
        return std::nullopt;
    }
    return value->get<bool>();
}

const Json* ObjectReader::object(std::string_view name) {
    const Json* value = find(name);
    if (value != nullptr && !value->is_object()) {
        fail(name, "an object");
        return nullptr;
    }
    return value;
}

bool ObjectReader::is_null(std::string_view name) {
    const Json* const value = find(name);
    return value != nullptr && value->is_null();
}

const Json* ObjectReader::any(std::string_view name) {
    return find(name);
}

void ObjectReader::fail(std::string_view name, std::string_view what_it_must_be) {
    Error error = Error(Errc::invalid_field,
                        '`' + path_ + std::string(name) + "` must be " + std::string(what_it_must_be) + '.')
                      .at(pointer_to(name));
    if (object_ != nullptr && object_->contains(std::string(name)))
        fail(std::move(error));
    else
        fail_missing(std::move(error));
}

void ObjectReader::fail(Error error) {
    if (!error_)
        error_.emplace(std::move(error));
}

void ObjectReader::fail_missing(Error error) {
    if (!missing_)
        missing_.emplace(std::move(error));
}

void ObjectReader::know(std::initializer_list<std::string_view> names) {
    known_.insert(known_.end(), names.begin(), names.end());
}

base::Result<void> ObjectReader::finish() {
    if (error_)
        return *error_;
    for (const auto& [name, value] : object_->items()) {
        if (std::find(known_.begin(), known_.end(), name) == known_.end())
            return Error(Errc::unknown_field, "There is no field `" + path_ + base::escaped(name) + "` here" +
                                                  base::did_you_mean(name, known_, "`", ".") +
                                                  base::those_there_are("fields", known_))
                .at(pointer_to(name));
    }
    return missing_ ? base::Result<void>(*missing_) : base::Result<void>();
}

/// RFC 6901. Of the object itself if `name` is empty, which is no name of a field. Empty also where it would
/// be longer than an answer repeats.
std::string ObjectReader::pointer_to(std::string_view name) const {
    std::string pointer;
    // The path is the server's own text, as `limits.` or `content[0].`.
    for (const char c :
         path_.empty() ? std::string_view() : std::string_view(path_).substr(0, path_.size() - 1)) {
        if (pointer.empty())
            pointer = "/";
        if (c == '.' || c == '[')
            pointer += '/';
        else if (c != ']')
            pointer += c;
    }
    if (!name.empty())
        pointer += '/';
    for (const char c : name.substr(0, base::k_max_told_pointer_bytes)) {
        if (c == '~' || c == '/')
            (pointer += '~') += c == '~' ? '0' : '1';
        else
            pointer += c;
    }
    return pointer.size() > base::k_max_told_pointer_bytes ? std::string() : pointer;
}

}  // namespace atl::http
