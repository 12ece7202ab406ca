#include "bridge/guest/tools/glob_pattern.hpp"

#include <cstddef>
#include <utility>

namespace atl::guest {
namespace {

constexpr auto npos = std::string_view::npos;

bool is_letter(unsigned char byte) {
    return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
}

/// The other case of an ASCII letter, else the same.
unsigned char other_case(unsigned char byte) {
    return is_letter(byte) ? byte ^ 0x20 : byte;
}

/// A piece of a glob that stands for something by itself.
struct Item {
    enum class Kind : std::uint8_t { text, one, some, directories, rest, set, choice };
    Kind kind;
    std::string_view text;  // of a set and a choice without their brackets
};

/// The index of the `}` that belongs to the `{` at `open`; npos if there is none, or no comma between them.
std::size_t choice_end(std::string_view glob, std::size_t open) {
    std::size_t depth = 0;
    bool has_comma = false;
    for (std::size_t i = open; i < glob.size(); ++i) {
        if (glob[i] == '\\')
            ++i;
        else if (glob[i] == '{')
            ++depth;
        else if (glob[i] == ',' && depth == 1)
            has_comma = true;
        else if (glob[i] == '}' && --depth == 0)
            return has_comma ? i : npos;
    }
    return npos;
}

/// The index of the `]` that belongs to the `[` at `open`: not right behind it, and in the same name.
std::size_t set_end(std::string_view glob, std::size_t open) {
    const std::size_t first =
        open + 1 < glob.size() && (glob[open + 1] == '!' || glob[open + 1] == '^') ? 2 : 1;
    const std::size_t end = glob.find(']', open + first + 1);
    return end != npos && glob.substr(open, end - open).find('/') == npos ? end : npos;
}

/// Takes the next piece from the front of what is left of `glob` at `at`.
Item next_item(std::string_view glob, std::size_t& at) {
    const std::size_t from = at++;
    const auto piece = [&](Item::Kind kind, std::size_t end) {
        at = end;
        return Item{kind, glob.substr(from, end - from)};
    };
    switch (glob[from]) {
        case '\\':
            if (from + 1 == glob.size())
                return piece(Item::Kind::text, from + 1);
            at = from + 2;
            return Item{Item::Kind::text, glob.substr(from + 1, 1)};
        case '?':
            return piece(Item::Kind::one, from + 1);
        case '*': {
            const std::size_t found = glob.find_first_not_of('*', from);
            const std::size_t end = found == npos ? glob.size() : found;
            const bool begins_name = from == 0 || glob[from - 1] == '/';
            if (end - from >= 2 && begins_name && end == glob.size())
                return piece(Item::Kind::rest, end);
            if (end - from >= 2 && begins_name && glob[end] == '/')
                return piece(Item::Kind::directories, end + 1);
            return piece(Item::Kind::some, end);
        }
        case '[':
            if (const std::size_t end = set_end(glob, from); end != npos) {
                at = end + 1;
                return Item{Item::Kind::set, glob.substr(from + 1, end - from - 1)};
            }
            return piece(Item::Kind::text, from + 1);
        case '{':
            if (const std::size_t end = choice_end(glob, from); end != npos) {
                at = end + 1;
                return Item{Item::Kind::choice, glob.substr(from + 1, end - from - 1)};
            }
            return piece(Item::Kind::text, from + 1);
        default:
            return piece(Item::Kind::text, from + 1);
    }
}

/// The alternatives of a choice.
std::vector<std::string_view> alternatives(std::string_view choice) {
    std::vector<std::string_view> parts;
    std::size_t depth = 0;
    std::size_t from = 0;
    for (std::size_t i = 0; i < choice.size(); ++i) {
        if (choice[i] == '\\') {
            ++i;
        } else if (choice[i] == '{') {
            ++depth;
        } else if (choice[i] == '}' && depth > 0) {
            --depth;
        } else if (choice[i] == ',' && depth == 0) {
            parts.push_back(choice.substr(from, i - from));
            from = i + 1;
        }
    }
    parts.push_back(choice.substr(from));
    return parts;
}

}  // namespace

/// Builds nodes from the end of a glob to its beginning, so that each knows what follows it.
class GlobPattern::Compiler {
  public:
    Compiler(GlobPattern& pattern, Brackets brackets) : pattern_(pattern), brackets_(brackets) {}

    std::uint32_t add(Kind kind, std::uint32_t next, unsigned char byte = 0) {
        return put(Node{kind, byte, 0, next, 0});
    }
    std::uint32_t compile(std::string_view glob, std::uint32_t next) {
        std::vector<Item> items;
        for (std::size_t at = 0; at < glob.size();)
            items.push_back(next_item(glob, at));
        for (; !items.empty(); items.pop_back())
            next = compile_item(items.back(), next);
        return next;
    }

  private:
    std::uint32_t put(Node node) {
        pattern_.nodes_.push_back(node);
        return static_cast<std::uint32_t>(pattern_.nodes_.size() - 1);
    }
    std::uint32_t fork(std::uint32_t next, std::uint32_t other) {
        return put(Node{Kind::fork, 0, 0, next, other});
    }
    std::uint32_t add_set(const Set& set, std::uint32_t next) {
        pattern_.sets_.push_back(set);
        return put(Node{Kind::set, 0, static_cast<std::uint32_t>(pattern_.sets_.size() - 1), next, 0});
    }
    std::uint32_t compile_item(const Item& item, std::uint32_t next) {
        switch (item.kind) {
            case Item::Kind::text:
                return text(item.text, next);
            case Item::Kind::one:
                return add(Kind::in_name, continuation(next));
            case Item::Kind::some:
                return some(next);
            case Item::Kind::directories:
                return directories(next);
            case Item::Kind::rest: {
                const std::uint32_t more = fork(next, 0);
                const std::uint32_t first = add(Kind::any, more);
                pattern_.nodes_[more].other = first;
                return first;
            }
            case Item::Kind::set:
                return set(item.text, next);
            case Item::Kind::choice:
                return choice(item.text, next);
        }
        return next;
    }
    std::uint32_t text(std::string_view bytes, std::uint32_t next) {
        for (std::size_t i = bytes.size(); i > 0; --i)
            next = add(Kind::character, next, static_cast<unsigned char>(bytes[i - 1]));
        return next;
    }
    /// Whatever is left of a character of several bytes.
    std::uint32_t continuation(std::uint32_t next) {
        Set bytes;
        for (std::size_t byte = 0x80; byte < 0xC0; ++byte)
            bytes.bytes[byte] = true;
        const std::uint32_t more = fork(next, 0);
        const std::uint32_t byte = add_set(bytes, more);
        pattern_.nodes_[more].other = byte;
        return more;
    }
    std::uint32_t some(std::uint32_t next) {
        const std::uint32_t more = fork(next, 0);
        const std::uint32_t byte = add(Kind::in_name, more);
        pattern_.nodes_[more].other = byte;
        return more;
    }
    /// Any number of names, each with the slash behind it.
    std::uint32_t directories(std::uint32_t next) {
        const std::uint32_t again = fork(next, 0);
        const std::uint32_t slash = add(Kind::character, again, '/');
        const std::uint32_t more = fork(slash, 0);
        const std::uint32_t byte = add(Kind::in_name, more);
        pattern_.nodes_[more].other = byte;
        pattern_.nodes_[again].other = byte;
        return again;
    }
    std::uint32_t choice(std::string_view parts, std::uint32_t next) {
        std::uint32_t start = 0;
        bool is_first = true;
        for (const std::string_view part : alternatives(parts)) {
            const std::uint32_t one = compile(part, next);
            start = std::exchange(is_first, false) ? one : fork(start, one);
        }
        return start;
    }
    std::uint32_t set(std::string_view content, std::uint32_t next) {
        const std::uint32_t literal = text("]", next);
        const std::uint32_t as_text = text("[", text(content, literal));
        const bool is_negated = content.front() == '!' || content.front() == '^';
        const std::string_view members = content.substr(is_negated ? 1 : 0);
        Set set;
        for (std::size_t i = 0; i < members.size(); ++i) {
            const auto from = static_cast<unsigned char>(members[i]);
            auto to = from;
            if (i + 2 < members.size() && members[i + 1] == '-')
                to = static_cast<unsigned char>(members[i += 2]);
            if (from >= 0x80 || to >= 0x80)
                return as_text;  // of ASCII only
            for (unsigned byte = from; byte <= to; ++byte) {
                set.bytes[byte] = true;
                if (pattern_.letters_ == Case::ignored)
                    set.bytes[other_case(static_cast<unsigned char>(byte))] = true;
            }
        }
        if (is_negated)
            for (std::size_t byte = 0; byte < 256; ++byte)
                set.bytes[byte] = !set.bytes[byte];
        set.bytes['/'] = false;
        const std::uint32_t one = add_set(set, is_negated ? continuation(next) : next);
        return brackets_ == Brackets::either ? fork(one, as_text) : one;
    }

    GlobPattern& pattern_;
    Brackets brackets_;
};

/// The nodes that the bytes so far lead to.
class GlobPattern::States {
  public:
    explicit States(const std::vector<Node>& nodes) : nodes_(nodes), mark_(nodes.size(), 0) {}

    void begin_round() {
        now_.swap(then_);
        then_.clear();
        ++round_;
    }
    /// Adds a node, or what it forks to.
    void add(std::uint32_t node) {
        open_.push_back(node);
        while (!open_.empty()) {
            const std::uint32_t at = open_.back();
            open_.pop_back();
            if (std::exchange(mark_[at], round_) == round_)
                continue;
            if (nodes_[at].kind == Kind::fork) {
                open_.push_back(nodes_[at].next);
                open_.push_back(nodes_[at].other);
            } else {
                then_.push_back(at);
            }
        }
    }
    const std::vector<std::uint32_t>& now() const { return now_; }

  private:
    const std::vector<Node>& nodes_;
    std::vector<std::uint32_t> mark_;
    std::vector<std::uint32_t> now_, then_, open_;
    std::uint32_t round_ = 1;
};

GlobPattern::GlobPattern(std::string_view glob, Case letters, Brackets brackets) : letters_(letters) {
    Compiler compiler(*this, brackets);
    const std::uint32_t end = compiler.add(Kind::end, 0);
    start_ = compiler.compile(glob, end);
}

bool GlobPattern::matches(std::string_view path) const {
    States states(nodes_);
    states.add(start_);
    for (const char each : path) {
        const auto byte = static_cast<unsigned char>(each);
        states.begin_round();
        if (states.now().empty())
            return false;
        for (const std::uint32_t at : states.now()) {
            const Node& node = nodes_[at];
            const bool fits = node.kind == Kind::any || (node.kind == Kind::in_name && byte != '/') ||
                              (node.kind == Kind::set && sets_[node.set].bytes[byte]) ||
                              (node.kind == Kind::character &&
                               (node.byte == byte || (letters_ == Case::ignored && is_letter(byte) &&
                                                      node.byte == other_case(byte))));
            if (fits)
                states.add(node.next);
        }
    }
    states.begin_round();
    for (const std::uint32_t at : states.now())
        if (nodes_[at].kind == Kind::end)
            return true;
    return false;
}

}  // namespace atl::guest
