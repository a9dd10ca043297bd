/* libfaketime 0.9.10 does not know the waits of C11 threads, which librdkafka uses: after a jump ahead they would wait
 * for the real clock to get there. In glibc they are the same as those of POSIX threads, which libfaketime knows. */
#include <errno.h>
#include <pthread.h>
#include <threads.h>

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
