/* What libfaketime 0.9.10 lacks. It is loaded before libfaketime. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

/* It does not know the waits of C11 threads, which librdkafka uses: after a jump ahead they would wait for the real
 * clock to get there. In glibc they are the same as those of POSIX threads, which it knows. */
int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    switch (pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until)) {
    case 0:
        return thrd_success;
    case ETIMEDOUT:
        return thrd_timedout;
    default:
        return thrd_error;
    }
}

/* It takes every end of a sleep for one on the clock that is turned. Python's time.sleep has it on the monotonic clock,
 * and would fail. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left) {
    if (clock == CLOCK_MONOTONIC)
        return syscall(SYS_clock_nanosleep, clock, flags, until, left) == 0 ? 0 : errno;
    int (*next)(clockid_t, int, const struct timespec *, struct timespec *) = dlsym(RTLD_NEXT, "clock_nanosleep");
    return next(clock, flags, until, left);
}
