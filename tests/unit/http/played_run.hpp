// Operations of which a test plays the one program that they run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/sandbox/operations.hpp"

namespace atl::test {

/// A program that the test plays: what the host's end was asked for, and its observer.
struct PlayedRun final : sandbox::Operations {
    struct Handle final : sandbox::Run {
        explicit Handle(PlayedRun& in_play) : play(in_play) {}
        ~Handle() override { play.observer = nullptr; }
        std::size_t write(std::string_view bytes) override {
            const std::size_t size = std::min(bytes.size(), play.room);
            play.room -= size;
            play.input += bytes.substr(0, size);
            return size;
        }
        void close_input() override { play.input_closed = true; }
        void signal(int) override {}
        void resume() override { ++play.resumes; }
        PlayedRun& play;
    };
    std::unique_ptr<sandbox::Run> run(const sandbox::RunSpec& asked, sandbox::RunObserver& by) override {
        spec = asked;
        observer = &by;
        return std::make_unique<Handle>(*this);
    }
    std::unique_ptr<sandbox::Dial> dial(std::uint16_t, sandbox::DialObserver&) override { return nullptr; }
    std::unique_ptr<sandbox::Call> call(const sandbox::CallSpec&, sandbox::CallObserver&) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Watch> watch(sandbox::WatchObserver&) override { return nullptr; }
    std::unique_ptr<sandbox::Run> attach(const std::string&, std::uint64_t, sandbox::RunObserver&) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Run> feed(const std::string&, sandbox::RunObserver&) override { return nullptr; }
    std::unique_ptr<sandbox::Question> start_process(const sandbox::ProcessSpec&,
                                                     sandbox::Answer<pid_t>) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Question> list_processes(
        const std::string&, sandbox::Answer<std::vector<sandbox::ProcessInfo>>) override {
        return nullptr;
    }
    std::unique_ptr<sandbox::Question> control_process(const std::string&, const sandbox::ProcessControl&,
                                                       sandbox::Answer<void>) override {
        return nullptr;
    }

    sandbox::RunSpec spec;
    sandbox::RunObserver* observer = nullptr;  // null: the run is over, or cancelled
    std::size_t room = SIZE_MAX;
    std::string input;
    bool input_closed = false;
    int resumes = 0;
};

}  // namespace atl::test
