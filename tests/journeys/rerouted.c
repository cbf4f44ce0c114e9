/* One public address leads to a port of this machine: OHMO_REROUTED is ADDRESS:PORT=LOCAL. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

int connect(int descriptor, const struct sockaddr *to, socklen_t length) {
    int (*real)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    const char *told = getenv("OHMO_REROUTED");
    const struct sockaddr_in *there = (const struct sockaddr_in *)to;
    struct sockaddr_in here;
    char address[64];
    int port, local;
    if (told && to->sa_family == AF_INET &&
        sscanf(told, "%63[0-9.]:%d=%d", address, &port, &local) == 3 &&
        there->sin_addr.s_addr == inet_addr(address) && ntohs(there->sin_port) == port) {
        here = *there;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        here.sin_port = htons(local);
        return real(descriptor, (struct sockaddr *)&here, sizeof here);
    }
    return real(descriptor, to, length);
}
