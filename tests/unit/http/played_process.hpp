// A process that a test plays: what the host's end was asked for, who follows it, who asked for the list.
#pragma once

#include <algorithm>

#include "core/sandbox/operations.hpp"

namespace atl::test {

struct PlayedProcess final : sandbox::Operations {
    struct Handle final : sandbox::Run {
        explicit Handle(PlayedProcess& in_play) : play(in_play) {}
        ~Handle() override { play.observer = nullptr; }
        std::size_t write(std::string_view bytes) override {
            const std::size_t size = std::min(bytes.size(), play.room);
            play.room -= size;
            play.input += bytes.substr(0, size);
            return size;
        }
        void close_input() override {}
        void signal(int) override {}
        void resume() override { ++play.resumes; }
        PlayedProcess& play;
    };
    std::unique_ptr<sandbox::Run> attach(const std::string&, std::uint64_t from,
                                         sandbox::RunObserver& by) override {
        after = from;
        observer = &by;
        return std::make_unique<Handle>(*this);
    }
    std::unique_ptr<sandbox::Run> feed(const std::string&, sandbox::RunObserver&) override { return nullptr; }
    std::unique_ptr<sandbox::Run> run(const sandbox::RunSpec&, sandbox::RunObserver&) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Dial> dial(std::uint16_t, sandbox::DialObserver&) override { return nullptr; }
    std::unique_ptr<sandbox::Call> call(const sandbox::CallSpec&, sandbox::CallObserver&) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Watch> watch(sandbox::WatchObserver&) override { return nullptr; }
    std::unique_ptr<sandbox::Question> start_process(const sandbox::ProcessSpec&,
                                                     sandbox::Answer<pid_t>) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Question> list_processes(
        const std::string&, sandbox::Answer<std::vector<sandbox::ProcessInfo>> answer) override {
        listed = std::move(answer);
        return std::make_unique<sandbox::Question>();
    }
    std::unique_ptr<sandbox::Question> control_process(const std::string&, const sandbox::ProcessControl&,
                                                       sandbox::Answer<void>) override {
        return nullptr;
    }

    sandbox::RunObserver* observer = nullptr;  // null: nobody follows it
    sandbox::Answer<std::vector<sandbox::ProcessInfo>> listed;
    std::uint64_t after = 0;  // as it was asked for
    std::size_t room = SIZE_MAX;
    std::string input;
    int resumes = 0;
};

}  // namespace atl::test
