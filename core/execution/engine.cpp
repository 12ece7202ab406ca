#include "core/execution/engine.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/base/limits.hpp"
#include "core/plain/inner_paths.hpp"
#include "core/plain/utf8.hpp"

namespace atl::execution {
namespace {

namespace fs = std::filesystem;
using base::Errc;
using base::Error;
using EngineJson = nlohmann::json;

// The engines that `auto` tries first for JavaScript and TypeScript, in this order, until one is available.
constexpr auto k_preferred = std::to_array<std::string_view>({"isolated-vm", "deno", "container", "vm2"});
constexpr auto k_languages = std::to_array({Language::javascript, Language::typescript, Language::python});
constexpr std::size_t k_version_bytes = 64;

std::optional<EngineJson> read_json(const fs::path& path) {
    std::ifstream file(path);
    auto json = EngineJson::parse(file, nullptr, false);
    return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

/// "3.11" where /usr/bin/python3 is a link to python3.11.
std::string python_version() {
    for (const char* const path : {"/usr/local/bin/python3", "/usr/bin/python3"}) {
        std::error_code missing;
        const std::string target = fs::canonical(path, missing).filename();
        constexpr std::string_view k_name = "python";
        if (!missing)
            return target.starts_with(k_name) ? target.substr(k_name.size()) : target;
    }
    return "";
}

void find_package(Engine& engine, const std::string& package, const EngineFolders& folders) {
    engine.folder = folders.packages;
    const auto description = read_json(folders.packages / "node_modules" / package / "package.json");
    const auto version = description ? description->find("version") : EngineJson::const_iterator();
    if (!description || version == description->end() || !version->is_string()) {
        engine.reason = "its package is not installed: run scripts/setup --executors";
        return;
    }
    engine.version = version->get<std::string>().substr(0, k_version_bytes);
    const fs::path runner = folders.packages / engine.argv.back();
    if (!is_there(folders.packages / engine.argv.front()) || !is_there(runner))
        engine.reason = "its runner or its program is missing: run scripts/setup --executors";
}

std::string text_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

fs::path find_stale_runner(const EngineFolders& folders) {
    const fs::path copies = folders.packages / "runner";
    if (!is_there(copies))
        return {};
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folders.runners / "runner", ignored)) {
        const fs::path copy = copies / entry.path().filename();
        if (entry.path().extension() == ".mjs" && text_of(entry.path()) != text_of(copy))
            return copy;
    }
    return {};
}

Engine read_engine(const EngineJson& json, const EngineFolders& folders) {
    Engine engine;
    engine.name = json.at("name").get<std::string>();
    for (const EngineJson& word : json.at("languages"))
        engine.languages.push_back(parse_language(word.get<std::string>()).value());
    engine.isolates = json.at("isolates").get<std::string>();
    engine.weaknesses = json.at("weaknesses").get<std::vector<std::string>>();
    engine.argv = json.at("command").get<std::vector<std::string>>();
    for (const auto& [name, value] : json.at("environment").items()) {
        std::string text = value.get<std::string>();
        constexpr std::string_view k_temporary = "$TMP";
        if (const auto at = text.find(k_temporary); at != std::string::npos)
            text.replace(at, k_temporary.size(), "/tmp");
        engine.env.emplace_back(name, std::move(text));
    }
    if (json.contains("package")) {
        find_package(engine, json.at("package").get<std::string>(), folders);
    } else {
        engine.folder = folders.runners;
        engine.version = python_version();
        if (engine.version.empty())
            engine.reason = "there is no python3 on this host: install the package python3";
    }
    if (engine.argv.front().find('/') != std::string::npos)
        engine.argv.front().insert(0, std::string(base::k_inner_agent_dir) + "/");
    return engine;
}

Error unknown(std::string_view executor, std::span<const Engine> all) {
    std::string list;
    for (const Engine& engine : all)
        list += ", " + engine.name;
    return Error(Errc::invalid_field, "There is no executor `" +
                                          base::excerpt(executor, base::k_max_told_word_bytes) +
                                          "`; there are: auto" + list + ".")
        .at("/executor");
}

bool can_run(std::span<const Engine> all, Language language) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Engine& one) { return one.is_available() && one.speaks(language); });
}

/// Why there is none, and what runs now.
Error none_for(Language language, std::span<const Engine> all) {
    std::string text = "No executor for " + std::string(to_string(language)) + " is available here";
    const auto first =
        std::find_if(all.begin(), all.end(), [&](const Engine& one) { return one.speaks(language); });
    text += first == all.end() ? "." : ": " + first->reason + ".";
    for (const Language other : {Language::javascript, Language::python})
        if (can_run(all, other))
            text += " `\"language\":\"" + std::string(to_string(other)) + "\"` runs now.";
    return Error(Errc::executor_unavailable, text + " GET /v1/executors says more.");
}

}  // namespace

std::string_view to_string(Language language) noexcept {
    switch (language) {
        case Language::javascript:
            return "javascript";
        case Language::typescript:
            return "typescript";
        case Language::python:
            return "python";
    }
    return "";
}

std::optional<Language> parse_language(std::string_view word) noexcept {
    for (const Language language : k_languages) {
        if (word == to_string(language))
            return language;
    }
    return std::nullopt;
}

bool Engine::speaks(Language language) const noexcept {
    return std::find(languages.begin(), languages.end(), language) != languages.end();
}

Error Engine::unavailability() const {
    return Error(Errc::executor_unavailable,
                 "The executor `" + name + "` is not available here: " + reason + ".");
}

base::Result<Engines> Engines::read(const EngineFolders& folders) {
    const fs::path path = folders.runners / "runner" / "engines.json";
    const auto list = read_json(path);
    std::vector<Engine> all;
    try {
        if (list)
            for (const EngineJson& one : list->at("engines"))
                all.push_back(read_engine(one, folders));
    } catch (const std::exception&) {  // nlohmann::json::at(), or an unknown language
        all.clear();
    }
    if (all.empty())
        return Error(Errc::host_unsupported,
                     path.string() + " is missing or no list of engines: build the server again");
    Engines engines(std::move(all));
    engines.stale_runner_ = find_stale_runner(folders);
    for (Engine& engine : engines.all_) {
        if (!engines.stale_runner_.empty() && engine.folder == folders.packages)
            engine.weaknesses.emplace_back(
                "its runner is not of this version of the server: run scripts/setup --executors again");
    }
    return engines;
}

base::Result<const Engine*> Engines::choose(std::string_view executor,
                                            std::optional<Language>& language) const {
    const auto named = [this](std::string_view name) {
        return std::find_if(all_.begin(), all_.end(), [&](const Engine& one) { return one.name == name; });
    };
    if (executor == k_auto_executor) {
        if (!language)
            language = Language::javascript;
        for (const std::string_view name : k_preferred) {
            const auto found = named(name);
            if (found != all_.end() && found->is_available() && found->speaks(*language))
                return &*found;
        }
        for (const Engine& engine : all_) {
            if (engine.is_available() && engine.speaks(*language))
                return &engine;
        }
        return none_for(*language, all_);
    }
    const auto found = named(executor);
    if (found == all_.end())
        return unknown(executor, all_);
    if (!language)
        language = found->languages.front();
    if (!found->speaks(*language))
        return Error(Errc::invalid_field, "The executor `" + found->name + "` does not run " +
                                              std::string(to_string(*language)) + ".")
            .at("/language");
    if (!found->is_available())
        return found->unavailability();
    return &*found;
}

std::vector<Language> Engines::languages() const {
    std::vector<Language> found;
    std::copy_if(k_languages.begin(), k_languages.end(), std::back_inserter(found),
                 [this](Language language) { return can_run(all_, language); });
    return found;
}

bool Engines::is_incomplete() const noexcept {
    return !stale_runner_.empty() ||
           std::any_of(all_.begin(), all_.end(), [](const Engine& one) { return !one.is_available(); });
}

bool Engines::renew(const Engines& fresh, const std::function<bool(const Engine&)>& may) {
    bool has_more = false;
    for (Engine& engine : all_) {
        const auto now = std::find_if(fresh.all_.begin(), fresh.all_.end(),
                                      [&](const Engine& one) { return one.name == engine.name; });
        if (now == fresh.all_.end() || !may(engine))
            continue;
        has_more |= now->is_available() && !engine.is_available();
        engine = *now;
    }
    stale_runner_ = fresh.stale_runner_;
    return has_more;
}

void Engines::set_reason(const Engine& engine, std::string reason) {
    const auto found =
        std::find_if(all_.begin(), all_.end(), [&](const Engine& one) { return &one == &engine; });
    if (found != all_.end())
        found->reason = std::move(reason);
}

}  // namespace atl::execution
