// Secrets: values that the server puts into requests to hosts they are bound to, and that nobody reads back.
// Each belongs to a user or to the operator, whose `owner` is empty; the same name may be with each of them.
// In memory and in the database there is the sealed value alone; open() unseals it into the secure heap.
//
// Invariants: owner, name and hosts are associated data of the sealing, so a row of which one was changed
// does not open; a secret that was sealed with another key stays, unusable, until it is put again or removed;
// memory has what the database has. No text here has a value in it. Not here: the
// key's file (app/data_dir.hpp), who asks (http/api/secrets.cpp), what a route makes of a value.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/shares.hpp"
#include "core/egress/ceilings.hpp"
#include "core/secrets/limits.hpp"
#include "core/secrets/sealer.hpp"
#include "core/secrets/secret_store.hpp"

namespace atl::secrets {

/// A secret as clients see it.
struct Secret {
    std::string name;
    std::string user_id;             // empty: the operator's
    std::vector<std::string> hosts;  // egress::Host::name of each
    base::WallTime updated_at{};
    bool is_usable = true;  // false: sealed with another key; it must be put again
};

/// True for 1 to k_max_secret_name_bytes of [A-Za-z0-9._-], the first a letter or a digit.
bool is_secret_name(std::string_view text) noexcept;

/// `hosts` in their one spelling, each once. Errors: invalid_field, with the pointer /hosts or /hosts/N: none
/// or too many, text that is no host, an address that no range of --egress-private has.
base::Result<std::vector<std::string>> parse_hosts(const std::vector<std::string>& hosts,
                                                   const egress::Ceilings& ceilings);

/// Checks that a field of a request can have this value: 1 to k_max_value_bytes of visible ASCII, blanks and
/// tabs, but not at its ends. Errors: invalid_field, with the pointer /value.
base::Result<void> check_value(std::string_view value);

class Secrets {
  public:
    struct Ports {
        SecretStore& store;
        const base::Clock& clock;
        const egress::Ceilings& ceilings;
    };
    /// Reads what is stored. Rows that do not fit, and those that `key` does not open, are told in the log.
    /// The parts in `ports` must outlive the secrets. Errors: storage_failed.
    static base::Result<std::unique_ptr<Secrets>> open(
        const Ports& ports, SecureText key, unsigned user_percent = base::k_default_user_share_percent);

    enum class Put : std::uint8_t { made, replaced };
    /// Stores `value`, which stays the caller's to wipe, in the place of what is there. Precondition:
    /// is_secret_name(name). Errors: invalid_field, user_share, capacity, storage_failed.
    base::Result<Put> put(std::string_view name, std::string_view owner,
                          const std::vector<std::string>& hosts, std::string_view value);
    /// Null: there is none. Valid until the next change.
    const Secret* find(std::string_view name, std::string_view owner) const;
    /// The secrets of one owner, by name. Valid until the next change.
    std::vector<const Secret*> list(std::string_view owner) const;
    /// Errors: not_found, storage_failed.
    base::Result<void> remove(std::string_view name, std::string_view owner);
    /// Removes all of a user. Errors: storage_failed.
    base::Result<void> erase_user(std::string_view user_id);

    /// Checks a rule as it is set: `owner` (of the key that sets it) has the secret, and `host` (an
    /// egress::Host::name) is among its hosts. Errors: secret_not_found, secret_host, secret_unusable.
    base::Result<void> check(std::string_view name, std::string_view owner, std::string_view host) const;
    /// The value, for one request to `host`. Keep it no longer than the head is written. Errors: those of
    /// check(), since a secret may be changed after the rule; capacity: the secure heap is full.
    base::Result<SecureText> open(std::string_view name, std::string_view owner, std::string_view host) const;

    const base::Budget& places() const noexcept { return places_; }

  private:
    struct Entry {
        Secret secret;
        std::string sealed;
        base::Share place;
    };
    using Key = std::pair<std::string, std::string>;  // owner and name
    using Entries = std::map<Key, Entry>;

    Secrets(const Ports& ports, SecureText key, unsigned user_percent);
    void take_over(Row row);
    base::Result<const Entry*> find_for(std::string_view name, std::string_view owner,
                                        std::string_view host) const;

    Ports ports_;
    Sealer sealer_;
    base::Budget places_;
    Entries entries_;
};

}  // namespace atl::secrets
