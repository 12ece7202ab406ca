#include "tests/isolation/redteam/attack_run.hpp"
#include "tests/support/paths.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <sstream>
#include <stdexcept>

namespace atl::test {
namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

namespace {

constexpr const char* k_holding = "holding";
constexpr int k_default_processes = 64;

/// /proc/PID/limits -> the option of prlimit(1).
const std::map<std::string, std::string>& limit_names() {
    static const std::map<std::string, std::string> names = {
        {"Max core file size", "core"},    {"Max file size", "fsize"},
        {"Max locked memory", "memlock"},  {"Max open files", "nofile"},
        {"Max msgqueue size", "msgqueue"}, {"Max pending signals", "sigpending"},
        {"Max processes", "nproc"}};
    return names;
}

Words in_time(Words words) {
    if (std::find(words.begin(), words.end(), "--seconds") == words.end()) {
        words.emplace_back("--seconds");
        words.push_back(std::to_string(k_attack_limit.count()));
    }
    return words;
}

bool has_line(const std::string& text, const std::string& line) {
    return lines_of(text).contains(line);
}

}  // namespace

std::uint64_t Loot::operator[](const std::string& key) const {
    const auto found = taken.find(key);
    if (found == taken.end())
        FAIL("the attack told nothing of " << key << "; it printed: " << text);
    return found->second;
}

Loot loot_of(std::string text) {
    Loot loot;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word, key, value;
        words >> word >> key >> value;
        if (word == "taken")
            loot.taken[key] = std::stoull(value);
        else if (word == "refused")
            loot.refused[key] = value;
    }
    loot.holding = has_line(text, k_holding);
    loot.text = std::move(text);
    return loot;
}

const fs::path& attack_program() {
    static const TempDir folder;
    static const fs::path copy = [] {
        const std::string attack = build_path("redteam/attack");
        const fs::path to = folder.path() / "attack";
        std::error_code error;
        fs::copy_file(attack, to, error);
        if (error)
            FAIL("there is no attack at " << attack << ": " << error.message());
        fs::permissions(to, fs::perms(0755));
        return to;
    }();
    return copy;
}

uid_t attacker_uid() {
    return is_root() ? k_rootless_uid + 1 : ::geteuid();
}

AttackInside::AttackInside(Lab& lab, const Words& words, const Json& request)
    : sandbox_(lab, request), stream_(lab.api.connect()) {
    sandbox_.bring(attack_program());
    std::string command = "exec /workspace/attack";
    for (const auto& word : in_time(words))
        command += " " + quoted(word);
    const auto head =
        stream_.open_stream("POST", "/v1/conversations/" + sandbox_.id() + "/messages",
                            Json{{"content", command}}.dump(), {{"Accept", "text/event-stream"}});
    INFO("the attack's message was answered: " << head.body);
    REQUIRE(head.status == 200);
}

const Loot& AttackInside::loot(std::chrono::milliseconds deadline) {
    std::string text = loot_.text;
    const auto until = Clock::now() + deadline;
    while (!told_) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
        std::optional<SseEvent> event;
        try {
            event = stream_.next_event(std::max(left, std::chrono::milliseconds(1)));
        } catch (const std::runtime_error& error) {
            FAIL("the attack neither held nor ended in time (" << error.what() << "); it printed: " << text);
        }
        if (!event)
            break;
        events_.push_back(Json::parse(event->data));
        const Json& data = events_.back()["data"];
        if (event->event == "text_delta")
            text += data["delta"].get<std::string>();
        told_ = event->event == "done" || has_line(text, k_holding);
    }
    told_ = true;
    loot_ = loot_of(std::move(text));
    return loot_;
}

Rlimits rlimits_of(Sandbox& sandbox) {
    Rlimits rlimits;
    std::istringstream lines(sandbox.output("cat /proc/self/limits"));
    for (std::string line; std::getline(lines, line);) {
        for (const auto& [title, option] : limit_names()) {
            if (!line.starts_with(title))
                continue;
            std::istringstream values(line.substr(title.size()));
            std::string soft, hard;
            values >> soft >> hard;
            rlimits[option] = hard;
        }
    }
    REQUIRE(rlimits.size() == limit_names().size());
    if (rlimits["nproc"] == "unlimited" || std::stoull(rlimits["nproc"]) > k_default_processes)
        rlimits["nproc"] =
            std::to_string(sandbox.conversation()["limits"].value("maxProcesses", k_default_processes));
    return rlimits;
}

AttackOutside::AttackOutside(const Words& words, const Rlimits& rlimits) {
    Words command{"prlimit"};
    for (const auto& [name, value] : rlimits)
        command.push_back("--" + name + "=" + value);
    command.push_back(attack_program());
    for (const auto& word : in_time(words))
        command.push_back(word);
    process_ = std::make_unique<HostProcess>(command, attacker_uid());
}

const Loot& AttackOutside::loot() {
    if (!loot_)
        loot_ = loot_of(process_->read_until(k_holding));
    return *loot_;
}

}  // namespace atl::test
