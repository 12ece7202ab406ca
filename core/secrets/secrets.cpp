#include "core/secrets/secrets.hpp"

#include <algorithm>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"
#include "core/egress/host.hpp"

namespace atl::secrets {
namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr base::BudgetSpec k_places{.name = "secrets",
                                    .unit = "secrets",
                                    .freed_by = "Delete those that nobody needs.",
                                    .total = k_max_secrets,
                                    .floor = k_user_floor_secrets};

bool is_letter_or_digit(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string joined(const std::vector<std::string>& hosts) {
    std::string text;
    for (const std::string& host : hosts)
        text.append(text.empty() ? "" : " ").append(host);
    return text;
}

/// The hosts of a row; none where one of them is not in its one spelling.
std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> hosts;
    while (true) {
        const auto blank = text.find(' ');
        const auto host = text.substr(0, blank);
        const auto parsed = egress::parse_host(
            host.find(':') == std::string_view::npos ? std::string(host) : '[' + std::string(host) + ']');
        if (!parsed || parsed->name != host || hosts.size() >= k_max_hosts)
            return {};
        hosts.push_back(parsed->name);
        if (blank == std::string_view::npos)
            return hosts;
        text.remove_prefix(blank + 1);
    }
}

/// Each part with its length before it, so that no two lists of parts are one text.
std::string associated(std::string_view owner, std::string_view name, std::string_view hosts) {
    std::string text;
    for (const std::string_view part : {std::string_view("atoll secret 1"), owner, name, hosts})
        text.append(std::to_string(part.size())).append(":").append(part);
    return text;
}

base::ShareHolder holder(std::string_view owner) {
    return owner.empty() ? base::ShareHolder() : base::ShareHolder::user(owner);
}

std::string named(std::string_view name, std::string_view owner) {
    std::string text = "the secret " + std::string(name);
    return owner.empty() ? text : text.append(" of the user ").append(owner);
}

void tell(const std::string& what) {
    base::LogLine(base::evt::secret_unusable).quoted("err", what).warn();
}

}  // namespace

bool is_secret_name(std::string_view text) noexcept {
    return !text.empty() && text.size() <= k_max_secret_name_bytes && is_letter_or_digit(text.front()) &&
           std::ranges::all_of(
               text, [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

Result<std::vector<std::string>> parse_hosts(const std::vector<std::string>& hosts,
                                             const egress::Ceilings& ceilings) {
    if (hosts.empty() || hosts.size() > k_max_hosts)
        return Error(Errc::invalid_field, "`hosts` must name 1 to " + std::to_string(k_max_hosts) + " hosts.")
            .at("/hosts");
    std::vector<std::string> names;
    for (std::size_t at = 0; at < hosts.size(); ++at) {
        const auto host = egress::parse_host(hosts[at]);
        const auto refuse = [at](const char* why) {
            return Error(Errc::invalid_field, "`hosts[" + std::to_string(at) + "]` " + why)
                .at("/hosts/" + std::to_string(at));
        };
        if (!host)
            return refuse("must be the name of one host, as \"api.example.com\": no port, no `*`, no URL.");
        if (host->address && !ceilings.names(*host->address))
            return refuse("is an address, which a range of --egress-private has to have.");
        if (std::ranges::find(names, host->name) == names.end())
            names.push_back(host->name);
    }
    return names;
}

Result<void> check_value(std::string_view value) {
    const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
    const bool is_good =
        !value.empty() && value.size() <= k_max_value_bytes && !is_blank(value.front()) &&
        !is_blank(value.back()) &&
        std::ranges::all_of(value, [&](char c) { return is_blank(c) || (c > ' ' && c < 0x7f); });
    if (is_good)
        return {};
    return Error(Errc::invalid_field,
                 "`value` must be 1 to " + std::to_string(k_max_value_bytes) +
                     " bytes of ASCII that a header can have: no line end, no other control character, no "
                     "blank at its ends.")
        .at("/value");
}

Secrets::Secrets(const Ports& ports, SecureText key, unsigned user_percent)
    : ports_(ports), sealer_(std::move(key)), places_(k_places, user_percent) {}

Result<std::unique_ptr<Secrets>> Secrets::open(const Ports& ports, SecureText key, unsigned user_percent) {
    auto rows = ports.store.load_secrets(k_max_secrets);
    if (!rows)
        return rows.error();
    std::unique_ptr<Secrets> secrets(new Secrets(ports, std::move(key), user_percent));
    for (Row& row : *rows)
        secrets->take_over(std::move(row));
    return secrets;
}

void Secrets::take_over(Row row) {
    auto hosts = split(row.hosts);
    if (!is_secret_name(row.name) || hosts.empty() || row.sealed.size() > k_max_value_bytes + k_sealing_bytes)
        return tell("a row of the table secrets is none that a server wrote, and is left out: " +
                    named(row.name, row.user_id));
    const auto opened = sealer_.open(row.sealed, associated(row.user_id, row.name, row.hosts));
    const bool is_usable = opened && check_value(opened->text());
    if (!is_usable)
        tell(named(row.name, row.user_id) +
             " must be put again: it was sealed with another secrets.key, or its row was changed");
    auto place = places_.take(holder(row.user_id), 0);
    if (!place)
        return;
    // There is no refusal for a row that is stored.
    place->charge(1);
    Key key{row.user_id, row.name};
    Secret secret{std::move(row.name), std::move(row.user_id), std::move(hosts), row.updated_at, is_usable};
    entries_.insert_or_assign(std::move(key),
                              Entry{std::move(secret), std::move(row.sealed), std::move(*place)});
}

Result<Secrets::Put> Secrets::put(std::string_view name, std::string_view owner,
                                  const std::vector<std::string>& hosts, std::string_view value) {
    auto names = parse_hosts(hosts, ports_.ceilings);
    if (!names)
        return names.error();
    if (auto good = check_value(value); !good)
        return good.error();
    Row row{std::string(owner), std::string(name), joined(*names), ports_.clock.wall_now(), {}};
    auto sealed = sealer_.seal(value, associated(owner, name, row.hosts));
    if (!sealed)
        return sealed.error();
    row.sealed = std::move(*sealed);
    const Key key{row.user_id, row.name};
    const auto found = entries_.find(key);
    base::Share place;
    if (found == entries_.end()) {
        auto taken = places_.take(holder(owner), 1);
        if (!taken)
            return taken.error();
        place = std::move(*taken);
    }
    if (auto stored = ports_.store.put_secret(row); !stored)
        return stored.error();
    Secret secret{row.name, row.user_id, std::move(*names), row.updated_at, true};
    if (found == entries_.end()) {
        entries_.emplace(key, Entry{std::move(secret), std::move(row.sealed), std::move(place)});
        return Put::made;
    }
    found->second.secret = std::move(secret);
    found->second.sealed = std::move(row.sealed);
    return Put::replaced;
}

const Secret* Secrets::find(std::string_view name, std::string_view owner) const {
    const auto found = entries_.find(Key{owner, name});
    return found == entries_.end() ? nullptr : &found->second.secret;
}

std::vector<const Secret*> Secrets::list(std::string_view owner) const {
    std::vector<const Secret*> found;
    for (auto at = entries_.lower_bound(Key{owner, ""}); at != entries_.end() && at->first.first == owner;
         ++at)
        found.push_back(&at->second.secret);
    return found;
}

Result<void> Secrets::remove(std::string_view name, std::string_view owner) {
    const auto found = entries_.find(Key{owner, name});
    if (found == entries_.end())
        return Error(Errc::not_found);
    if (auto erased = ports_.store.erase_secret(owner, name); !erased)
        return erased;
    entries_.erase(found);
    return {};
}

Result<void> Secrets::erase_user(std::string_view user_id) {
    // Also rows that were left out at the start.
    if (auto erased = ports_.store.erase_secrets_of(user_id); !erased)
        return erased;
    std::erase_if(entries_, [user_id](const auto& entry) { return entry.first.first == user_id; });
    return {};
}

Result<const Secrets::Entry*> Secrets::find_for(std::string_view name, std::string_view owner,
                                                std::string_view host) const {
    const auto found = entries_.find(Key{owner, name});
    if (found == entries_.end())
        return Error(Errc::secret_not_found,
                     "There is no secret `" + base::escaped(name) +
                         "` that the key which sets this may use: PUT /v1/secrets/NAME "
                         "makes one.");
    const Secret& secret = found->second.secret;
    if (std::ranges::find(secret.hosts, host) == secret.hosts.end())
        return Error(Errc::secret_host, "The secret `" + secret.name + "` is not for " + base::escaped(host) +
                                            ": its `hosts` are " + joined(secret.hosts).substr(0, 400) + '.');
    if (!secret.is_usable)
        return Error(Errc::secret_unusable, "The secret `" + secret.name +
                                                "` was sealed with another key of the server: put it again.");
    return &found->second;
}

Result<void> Secrets::check(std::string_view name, std::string_view owner, std::string_view host) const {
    const auto found = find_for(name, owner, host);
    if (!found)
        return found.error();
    return {};
}

Result<SecureText> Secrets::open(std::string_view name, std::string_view owner, std::string_view host) const {
    const auto found = find_for(name, owner, host);
    if (!found)
        return found.error();
    return sealer_.open((*found)->sealed, associated(owner, name, joined((*found)->secret.hosts)));
}

}  // namespace atl::secrets
