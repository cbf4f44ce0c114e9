/* A disk that fails on request: LD_PRELOAD puts it between a program and its C library, see ld.so(8).
 * The file $OHMO_DISK_CONTROL holds six 32-bit numbers: 0 calls that count (bits 1 write, 2 sync, 4 read), 1 the errno, 2 calls that still
 * succeed, 3 calls that fail then (-1: all), 4 calls that were counted, 5 calls that failed. $OHMO_DISK_PATH: a part of the path of what fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, READ = 4 };
static volatile int *control;
static const char *wanted;

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("OHMO_DISK_CONTROL");
	wanted = getenv("OHMO_DISK_PATH");
	int handle = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (handle < 0) return;
	void *seen = mmap(NULL, 6 * sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
	close(handle);
	if (seen != MAP_FAILED) control = seen;
}

static int fails(int handle, int kind) {
	char link[64], path[4096];
	if (!control || !(control[0] & kind)) return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
	ssize_t length = readlink(link, path, sizeof path - 1);
	if (length < 0) return 0;
	path[length] = 0;
	if (wanted && !strstr(path, wanted)) return 0;
	__atomic_add_fetch(&control[4], 1, __ATOMIC_SEQ_CST);
	if (control[2] > 0) { __atomic_sub_fetch(&control[2], 1, __ATOMIC_SEQ_CST); return 0; }
	if (control[3] == 0) return 0;
	if (control[3] > 0) __atomic_sub_fetch(&control[3], 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&control[5], 1, __ATOMIC_SEQ_CST);
	errno = control[1];
	return 1;
}

#define NEXT(name) \
	static __typeof__(&name) next; \
	if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int f, const void *b, size_t n) { NEXT(write); return fails(f, WRITE) ? -1 : next(f, b, n); }
ssize_t pwrite(int f, const void *b, size_t n, off_t o) { NEXT(pwrite); return fails(f, WRITE) ? -1 : next(f, b, n, o); }
ssize_t pwrite64(int f, const void *b, size_t n, off64_t o) { NEXT(pwrite64); return fails(f, WRITE) ? -1 : next(f, b, n, o); }
int ftruncate(int f, off_t n) { NEXT(ftruncate); return fails(f, WRITE) ? -1 : next(f, n); }
int ftruncate64(int f, off64_t n) { NEXT(ftruncate64); return fails(f, WRITE) ? -1 : next(f, n); }
int fsync(int f) { NEXT(fsync); return fails(f, SYNC) ? -1 : next(f); }
int fdatasync(int f) { NEXT(fdatasync); return fails(f, SYNC) ? -1 : next(f); }
ssize_t read(int f, void *b, size_t n) { NEXT(read); return fails(f, READ) ? -1 : next(f, b, n); }
ssize_t pread(int f, void *b, size_t n, off_t o) { NEXT(pread); return fails(f, READ) ? -1 : next(f, b, n, o); }
ssize_t pread64(int f, void *b, size_t n, off64_t o) { NEXT(pread64); return fails(f, READ) ? -1 : next(f, b, n, o); }
