#include "core/base/task_group.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>
#include <cassert>
#include <exception>

#include "core/base/log.hpp"
#include "core/base/log_events.hpp"

namespace atl::base {
namespace {

void log_failure(const std::string& group, const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const boost::system::system_error& error) {
        if (error.code() != asio::error::operation_aborted)
            LogLine(evt::task_failed).field("group", group).quoted("err", error.what()).error();
    } catch (const std::exception& error) {
        LogLine(evt::task_failed).field("group", group).quoted("err", error.what()).error();
    } catch (...) {
        LogLine(evt::task_failed).field("group", group).field("err", "unknown exception").error();
    }
}

}  // namespace

TaskGroup::TaskGroup(Executor executor, std::string name) : executor_(executor), name_(std::move(name)) {}

TaskGroup::~TaskGroup() {
    assert(size_ == 0);
}

void TaskGroup::spawn(Task<> task) {
    ++size_;
    auto finished = [this](const std::exception_ptr& failure) {
        if (failure)
            log_failure(name_, failure);
        if (--size_ == 0 && on_empty_) {
            auto done = std::move(on_empty_);
            on_empty_ = nullptr;
            done();
        }
    };
    asio::co_spawn(executor_, std::move(task), std::move(finished));
}

void TaskGroup::on_empty(std::function<void()> done) {
    if (size_ == 0) {
        done();
        return;
    }
    on_empty_ = std::move(done);
}

}  // namespace atl::base
