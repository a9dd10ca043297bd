/* What libfaketime 0.9.10 does wrong. It is loaded before libfaketime, with FAKETIME_DONT_FAKE_MONOTONIC. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static const long NS = 1000000000;

/* Its own ends at once where the condition has the monotonic clock, and Java's threads would spin. Here, an end on the
 * clock that is turned becomes one on the monotonic clock. */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    struct timespec end = *until, turned, now;
    if (!(condition->__data.__wrefs & 2)) { /* so glibc notes the monotonic clock, from 2.25 on */
        clock_gettime(CLOCK_REALTIME, &turned);
        clock_gettime(CLOCK_MONOTONIC, &now);
        end.tv_sec += now.tv_sec - turned.tv_sec;
        end.tv_nsec += now.tv_nsec - turned.tv_nsec;
        if (end.tv_nsec < 0)
            end.tv_sec--, end.tv_nsec += NS;
        if (end.tv_nsec >= NS)
            end.tv_sec++, end.tv_nsec -= NS;
        if (end.tv_sec < 0)
            end.tv_sec = end.tv_nsec = 0;
    }
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &end);
}

/* It does not know the waits of C11 threads, which librdkafka uses: after a jump ahead they would wait for the real
 * clock to get there. In glibc they are the same as those of POSIX threads. */
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
