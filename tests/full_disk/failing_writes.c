/* A disk that becomes full at a chosen write. Preload this library: it counts every call of this
   process that stores something below one folder, and lets chosen calls fail with ENOSPC. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[4096];
static atomic_long calls, failed, first, last; /* calls from `first` to `last` fail; 0: none */
static atomic_int is_half, is_full;
static char what[4200]; /* the first call that failed */
static __thread int is_observing; /* the calls of this thread do not count */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Watches this folder from now on; no call fails yet. */
void disk_watch(const char *path) {
    first = last = 0;
    is_half = is_full = 0;
    calls = failed = 0;
    what[0] = 0;
    strncpy(folder, path, sizeof folder - 1);
}

/* The calls from number `from` to `to` fail. If `half`, call `from` stores half of its bytes. */
void disk_fail(long from, long to, int half) {
    is_half = half;
    last = to;
    first = from;
}

void disk_observe(int observing) { is_observing = observing; }
void disk_free(void) { first = last = 0; is_full = 0; }
long disk_calls(void) { return calls; }
long disk_failed(void) { return failed; }
int disk_is_full(void) { return is_full; }
const char *disk_what(void) { return what; }

static int is_below(const char *path) {
    size_t length = strlen(folder);
    return length && path && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static const char *path_of(int descriptor, char *buffer, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, buffer, size - 1);
    buffer[length < 0 ? 0 : length] = 0;
    return buffer;
}

/* 0: the call goes on; 1: it fails; 2: it stores half of its bytes. */
static int fate(const char *name, const char *path) {
    if (is_observing || !is_below(path)) return 0;
    long number = ++calls, from = first;
    if (!from || number < from || number > last) return 0;
    is_full = 1;
    if (number == from && is_half) return 2;
    if (!failed++) snprintf(what, sizeof what, "%s %s", name, path + strlen(folder));
    return 1;
}

static int fate_of(const char *name, int descriptor) {
    char buffer[4096];
    if (!folder[0]) return 0;
    return fate(name, path_of(descriptor, buffer, sizeof buffer));
}

#define FAIL do { errno = ENOSPC; return -1; } while (0)

ssize_t write(int descriptor, const void *data, size_t size) {
    int found = fate_of("write", descriptor);
    if (found == 1) FAIL;
    return REAL(write)(descriptor, data, found == 2 ? (size + 1) / 2 : size);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at) {
    int found = fate_of("pwrite", descriptor);
    if (found == 1) FAIL;
    return REAL(pwrite64)(descriptor, data, found == 2 ? (size + 1) / 2 : size, at);
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t at) {
    return pwrite64(descriptor, data, size, at);
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    if (fate_of("writev", descriptor) == 1) FAIL;
    return REAL(writev)(descriptor, parts, count);
}

static int grows(int descriptor, off64_t size) {
    struct stat64 now;
    return fstat64(descriptor, &now) == 0 && size > now.st_size;
}

int ftruncate64(int descriptor, off64_t size) {
    if (grows(descriptor, size) && fate_of("ftruncate", descriptor) == 1) FAIL;
    return REAL(ftruncate64)(descriptor, size);
}

int ftruncate(int descriptor, off_t size) { return ftruncate64(descriptor, size); }

int posix_fallocate64(int descriptor, off64_t at, off64_t size) {
    if (fate_of("fallocate", descriptor) == 1) return ENOSPC;
    return REAL(posix_fallocate64)(descriptor, at, size);
}

int posix_fallocate(int descriptor, off_t at, off_t size) {
    return posix_fallocate64(descriptor, at, size);
}

/* File systems that allocate late report a full disk here. */
int fsync(int descriptor) {
    if (fate_of("fsync", descriptor) == 1) FAIL;
    return REAL(fsync)(descriptor);
}

int fdatasync(int descriptor) {
    if (fate_of("fdatasync", descriptor) == 1) FAIL;
    return REAL(fdatasync)(descriptor);
}

/* A new name needs space in its folder. */
static int creates(const char *path, int flags) {
    return (flags & O_CREAT) && folder[0] && access(path, F_OK) != 0;
}

#define OPEN(name)                                                              \
    int name(const char *path, int flags, ...) {                                \
        mode_t mode = 0;                                                        \
        if (flags & (O_CREAT | O_TMPFILE)) {                                    \
            va_list more;                                                       \
            va_start(more, flags);                                              \
            mode = va_arg(more, mode_t);                                        \
            va_end(more);                                                       \
        }                                                                       \
        if (creates(path, flags) && fate("create", path) == 1) FAIL;            \
        return ((int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, #name))(   \
            path, flags, mode);                                                 \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                            \
    int name(int at, const char *path, int flags, ...) {                        \
        mode_t mode = 0;                                                        \
        if (flags & (O_CREAT | O_TMPFILE)) {                                    \
            va_list more;                                                       \
            va_start(more, flags);                                              \
            mode = va_arg(more, mode_t);                                        \
            va_end(more);                                                       \
        }                                                                       \
        if (creates(path, flags) && fate("create", path) == 1) FAIL;            \
        return ((int (*)(int, const char *, int, mode_t))dlsym(RTLD_NEXT, #name))( \
            at, path, flags, mode);                                             \
    }
OPENAT(openat)
OPENAT(openat64)

int mkdir(const char *path, mode_t mode) {
    if (folder[0] && access(path, F_OK) != 0 && fate("mkdir", path) == 1) FAIL;
    return REAL(mkdir)(path, mode);
}

int rename(const char *from, const char *to) {
    if (fate("rename", to) == 1) FAIL;
    return REAL(rename)(from, to);
}

/* While calls fail, the disk also says that it is full. */
static void empty(int is_here, struct statvfs *found) {
    if (is_here && is_full) found->f_bavail = found->f_bfree = 0;
}

int statvfs(const char *path, struct statvfs *found) {
    int result = REAL(statvfs)(path, found);
    empty(is_below(path), found);
    return result;
}

int fstatvfs(int descriptor, struct statvfs *found) {
    char buffer[4096];
    int result = REAL(fstatvfs)(descriptor, found);
    empty(folder[0] && is_below(path_of(descriptor, buffer, sizeof buffer)), found);
    return result;
}

int statvfs64(const char *path, struct statvfs64 *found) {
    int result = REAL(statvfs64)(path, found);
    if (is_below(path) && is_full) found->f_bavail = found->f_bfree = 0;
    return result;
}
