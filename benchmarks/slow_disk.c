/* A disk whose fsync takes 5 ms, for LD_PRELOAD. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void spin_down(void) {
    struct timespec wait = {0, 5 * 1000 * 1000};
    nanosleep(&wait, 0);
}

int fsync(int fd) {
    spin_down();
    return syscall(SYS_fsync, fd);
}

int fdatasync(int fd) {
    spin_down();
    return syscall(SYS_fdatasync, fd);
}
