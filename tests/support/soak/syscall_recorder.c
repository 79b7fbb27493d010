/* Writes down, in order, what a server does to its database file and log, and what it sends over sockets:
 * one record for each call: kind, file, offset, length, data. Loaded with LD_PRELOAD; RECORD names the output. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int out = -1;

static void put(const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        long n = syscall(SYS_write, out, at, size);
        if (n <= 0) return;
        at += n;
        size -= (size_t)n;
    }
}

static int ends(const char *text, const char *tail) {
    size_t a = strlen(text), b = strlen(tail);
    return a >= b && strcmp(text + a - b, tail) == 0;
}

/* 'd' database, 'w' its log, 's' a socket, 0 anything else */
static char which(int fd) {
    struct stat st;
    char name[64], path[1024];
    if (fstat(fd, &st) != 0) return 0;
    if (S_ISSOCK(st.st_mode)) return 's';
    if (!S_ISREG(st.st_mode)) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    if (ends(path, "socialpub.db")) return 'd';
    if (ends(path, "socialpub.db-wal")) return 'w';
    return 0;
}

static void record(char kind, char file, uint64_t offset, const struct iovec *parts, int count) {
    if (out < 0) {
        const char *path = getenv("RECORD");
        if (!path) return;
        pthread_mutex_lock(&lock);
        if (out < 0) out = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        pthread_mutex_unlock(&lock);
    }
    uint64_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    pthread_mutex_lock(&lock);
    put(&kind, 1);
    put(&file, 1);
    put(&offset, 8);
    put(&size, 8);
    for (int i = 0; i < count; i++) put(parts[i].iov_base, parts[i].iov_len);
    pthread_mutex_unlock(&lock);
}

static void record_one(char kind, char file, uint64_t offset, const void *data, size_t size) {
    struct iovec part = {(void *)data, size};
    record(kind, file, offset, &part, 1);
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    REAL(pwrite64);
    char file = which(fd);
    if (file == 'd' || file == 'w') record_one('W', file, (uint64_t)offset, data, size);
    return real(fd, data, size, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    REAL(pwrite);
    char file = which(fd);
    if (file == 'd' || file == 'w') record_one('W', file, (uint64_t)offset, data, size);
    return real(fd, data, size, offset);
}

int ftruncate64(int fd, off64_t size) {
    REAL(ftruncate64);
    char file = which(fd);
    if (file == 'd' || file == 'w') record_one('T', file, (uint64_t)size, "", 0);
    return real(fd, size);
}

int ftruncate(int fd, off_t size) {
    REAL(ftruncate);
    char file = which(fd);
    if (file == 'd' || file == 'w') record_one('T', file, (uint64_t)size, "", 0);
    return real(fd, size);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    int done = real(fd);
    char file = which(fd);
    if (done == 0 && (file == 'd' || file == 'w')) record_one('F', file, 0, "", 0);
    return done;
}

int fsync(int fd) {
    REAL(fsync);
    int done = real(fd);
    char file = which(fd);
    if (done == 0 && (file == 'd' || file == 'w')) record_one('F', file, 0, "", 0);
    return done;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    char file = which(fd);
    if (file == 's') record_one('S', file, 0, data, size);
    if (file == 'd' || file == 'w') record_one('W', file, (uint64_t)lseek(fd, 0, SEEK_CUR), data, size);
    return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    if (which(fd) == 's') record('S', 's', 0, parts, count);
    return real(fd, parts, count);
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    REAL(send);
    record_one('S', 's', 0, data, size);
    return real(fd, data, size, flags);
}

ssize_t sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    REAL(sendto);
    record_one('S', 's', 0, data, size);
    return real(fd, data, size, flags, to, length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    record('S', 's', 0, message->msg_iov, (int)message->msg_iovlen);
    return real(fd, message, flags);
}
