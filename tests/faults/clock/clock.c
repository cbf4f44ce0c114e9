/* A wall clock that somebody sets: LD_PRELOAD puts it between a program and its C library, see ld.so(8).
 * The file $OHMO_CLOCK_CONTROL holds one 64-bit number: the seconds by which CLOCK_REALTIME stands elsewhere. No other clock is touched. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *control;

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("OHMO_CLOCK_CONTROL");
	int handle = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (handle < 0) return;
	void *seen = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, handle, 0);
	close(handle);
	if (seen != MAP_FAILED) control = seen;
}

static long long set_by(void) { return control ? *control : 0; }

#define NEXT(name) \
	static __typeof__(&name) next; \
	if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int clock_gettime(clockid_t which, struct timespec *at) {
	NEXT(clock_gettime);
	int found = next(which, at);
	if (!found && which == CLOCK_REALTIME) at->tv_sec += set_by();
	return found;
}

int gettimeofday(struct timeval *at, void *zone) {
	static int (*next)(struct timeval *, void *);
	if (!next) next = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
	int found = next(at, zone);
	if (!found) at->tv_sec += set_by();
	return found;
}

time_t time(time_t *at) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (at) *at = now.tv_sec;
	return now.tv_sec;
}
