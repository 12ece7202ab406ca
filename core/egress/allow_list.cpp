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

Error bad_rule(std::size_t index, std::string_view must_be) {
    const std::string number = std::to_string(index);
    return Error(Errc::invalid_field, "`network.allow[" + number + "]` " + std::string(must_be))
        .at("/network/allow/" + number);
}

}  // namespace

bool is_group_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= k_max_group_name_bytes &&
           std::all_of(name.begin(), name.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-';
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

base::Result<AllowList> AllowList::parse(std::span<const std::string> texts, SetBy set_by,
                                         std::span<const std::string> of_user) {
    if (texts.size() > k_max_rules)
        return bad_list("must not have more than " + std::to_string(k_max_rules) + " rules");
    AllowList list;
    list.set_by_ = set_by;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        auto rule = parse_rule(texts[i]);
        if (rule.has_error())
            return bad_rule(i, rule.error().detail());
        const bool is_users =
            set_by == SetBy::user_key || std::find(of_user.begin(), of_user.end(), texts[i]) != of_user.end();
        std::vector<Rule>& rules = is_users ? list.of_user_ : list.of_operator_;
        if (std::find(rules.begin(), rules.end(), *rule) != rules.end())
            continue;
        bytes += to_string(*rule).size();
        if (bytes > k_max_list_bytes)
            return bad_list("must not have more than " + std::to_string(k_max_list_bytes) +
                            " bytes of rules");
        rules.push_back(std::move(*rule));
    }
    return list;
}

base::Result<AllowList> AllowList::from_json(const nlohmann::json& value, SetBy set_by) {
    if (!value.is_array())
        return bad_list("must be an array of texts as \"api.example.com\"");
    std::vector<std::string> texts;
    for (const nlohmann::json& rule : value) {
        if (!rule.is_string())
            return bad_rule(texts.size(), "must be a text as \"api.example.com:443\"");
        texts.push_back(rule.get<std::string>());
    }
    return parse(texts, set_by);
}

std::vector<std::string> AllowList::texts() const {
    std::vector<std::string> texts;
    texts.reserve(of_operator_.size() + of_user_.size());
    for (const std::vector<Rule>* const rules : {&of_operator_, &of_user_})
        for (const Rule& rule : *rules)
            texts.push_back(to_string(rule));
    return texts;
}

}  // namespace atl::egress
