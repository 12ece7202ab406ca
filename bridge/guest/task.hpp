// Coroutines of the guest's loop, for work that lasts and waits in between: files and tools. A Task runs when
// it is awaited; destroying it ends the work where it waits, and with it all that its frames own. One thread.
//
// Mind GCC 12 (core/base/README.md): name every argument of a co_await that owns something.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace atl::guest {

template <class T>
class Task;

namespace detail {

/// The common part of all promises. A task that ends without having waited hands control back to
/// co_await by a return, not by a resume: however many such tasks a loop awaits, the stack does not grow.
struct TaskPromise {
    struct Final {
        bool await_ready() const noexcept { return false; }
        template <class Promise>
        void await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
            TaskPromise& promise = ended.promise();
            if (promise.awaiter && !promise.is_in_first_run)
                promise.awaiter.resume();
        }
        void await_resume() const noexcept {}
    };

    std::suspend_always initial_suspend() const noexcept { return {}; }
    Final final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { thrown = std::current_exception(); }

    std::coroutine_handle<> awaiter;
    std::exception_ptr thrown;
    bool is_in_first_run = false;
};

template <class T>
struct ValuePromise : TaskPromise {
    Task<T> get_return_object();
    void return_value(T made) { value.emplace(std::move(made)); }
    T take() { return std::move(*value); }

    std::optional<T> value;
};

template <>
struct ValuePromise<void> : TaskPromise {
    Task<void> get_return_object();
    void return_void() const noexcept {}
    void take() const noexcept {}
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Task {
  public:
    using promise_type = detail::ValuePromise<T>;

    explicit Task(std::coroutine_handle<promise_type> frame) noexcept : frame_(frame) {}
    Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
    Task& operator=(Task&& other) noexcept {
        std::swap(frame_, other.frame_);
        return *this;
    }
    ~Task() {
        if (frame_)
            frame_.destroy();
    }

    /// For the outermost task, which nobody awaits: runs it up to its first wait. Call once.
    void start() { frame_.resume(); }
    bool is_done() const noexcept { return frame_.done(); }
    /// Precondition: is_done(). Throws what the task threw.
    T result() {
        if (frame_.promise().thrown)
            std::rethrow_exception(frame_.promise().thrown);
        return frame_.promise().take();
    }

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> awaiter) {
        auto& promise = frame_.promise();
        promise.awaiter = awaiter;
        promise.is_in_first_run = true;
        frame_.resume();
        promise.is_in_first_run = false;
        return !frame_.done();
    }
    T await_resume() { return result(); }

  private:
    std::coroutine_handle<promise_type> frame_;
};

namespace detail {

template <class T>
Task<T> ValuePromise<T>::get_return_object() {
    return Task<T>(std::coroutine_handle<ValuePromise>::from_promise(*this));
}

inline Task<void> ValuePromise<void>::get_return_object() {
    return Task<void>(std::coroutine_handle<ValuePromise>::from_promise(*this));
}

}  // namespace detail
}  // namespace atl::guest
