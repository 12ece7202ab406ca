#include "core/egress/allow_list.hpp"

#include <algorithm>

#include "core/egress/limits.hpp"

namespace atl::egress {
namespace {

using base::Errc;
using base::Error;

Error bad_list(std::string why) {
    return Error(Errc::invalid_field, "`network.allow` " + std::move(why)).at("/network/allow");
}

base::Result<Rule> read_rule(const nlohmann::json& value) {
    if (value.is_object())
        return Error(Errc::invalid_field,
                     "must be a text as \"api.example.com:443\": rules with `headers`, `methods` or `paths` of "
                     "their own are not supported yet");
    if (!value.is_string())
        return Error(Errc::invalid_field, "must be a text as \"api.example.com:443\"");
    return parse_rule(value.get_ref<const std::string&>());
}

}  // namespace

bool is_group_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= k_max_group_name_bytes &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                      c == '-';
           });
}

base::Result<Rule> parse_rule(std::string_view text) {
    if (text.starts_with('@')) {
        if (!is_group_name(text.substr(1)))
            return Error(Errc::invalid_field,
                         "must have the name of a group behind its @: 1 to 64 letters, digits, '-' and '_'");
        return Rule(GroupName{std::string(text.substr(1))});
    }
    auto pattern = Pattern::parse(text);
    if (pattern.has_error())
        return std::move(pattern).error();
    return Rule(std::move(*pattern));
}

std::string to_string(const Rule& rule) {
    if (const auto* const group = std::get_if<GroupName>(&rule))
        return '@' + group->name;
    return std::get<Pattern>(rule).text();
}

base::Result<AllowList> AllowList::parse(const nlohmann::json& value, SetBy set_by) {
    if (!value.is_array())
        return bad_list("must be an array of texts as \"api.example.com\"");
    if (value.size() > k_max_rules)
        return bad_list("has more than " + std::to_string(k_max_rules) + " rules");
    AllowList list;
    list.set_by_ = set_by;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
        auto rule = read_rule(value[i]);
        if (rule.has_error())
            return Error(Errc::invalid_field,
                         "`network.allow[" + std::to_string(i) + "]` " + rule.error().detail())
                .at("/network/allow/" + std::to_string(i));
        if (std::find(list.rules_.begin(), list.rules_.end(), *rule) != list.rules_.end())
            continue;
        bytes += to_string(*rule).size();
        if (bytes > k_max_list_bytes)
            return bad_list("has more than " + std::to_string(k_max_list_bytes) + " bytes of rules");
        list.rules_.push_back(std::move(*rule));
    }
    return list;
}

std::vector<std::string> AllowList::texts() const {
    std::vector<std::string> texts;
    texts.reserve(rules_.size());
    for (const Rule& rule : rules_)
        texts.push_back(to_string(rule));
    return texts;
}

}  // namespace atl::egress
